#include "offline/region_files.h"

#include <algorithm>
#include <iterator>

#include "codegen/c_names.h"
#include "codegen/executable_json.h"
#include "codegen/plan.h"
#include "codegen/region_executable.h"
#include "core/constants.h"
#include "core/import/document.h"
#include "core/import/field.h"
#include "core/size_error.h"
#include "core/structural_hash.h"
#include "core/unproven_reads.h"
#include "fusion/whole_graph_region.h"
#include "offline/base64.h"
#include "offline/gpu_file.h"

namespace tilefuse {
namespace {

using aten::Field;
using Json = nlohmann::json;

constexpr const char* kManifest = "tilefuse.json";
constexpr int kFormat = 2, kGpuFormat = 3;  // the latter has a device, and targets that are GPUs
constexpr size_t kHashDigits = 16;

enum class Wanted : uint8_t { EmbeddedCode, CompiledCode, Sources };

// Those of processors hold nothing else.
bool is_for_processors(const Executable& executable) {
  const CompiledRegion& region = executable.regions[0];
  const auto is_here = [](const TensorSpec& spec) { return spec.elsewhere.empty(); };
  return executable.place == Place{} && region.program.gpu.empty() &&
         std::all_of(region.inputs.begin(), region.inputs.end(), is_here) &&
         std::all_of(region.outputs.begin(), region.outputs.end(), is_here);
}

bool is_for_gpus(const Executable& executable) {
  const RegionProgram& program = executable.regions[0].program;
  return !program.gpu.empty() && program.launches.empty() && program.packs.empty();
}

class Loader {
 public:
  Loader(const ExtraFiles& files, std::string origin, Wanted wanted, const CompileOptions& options)
      : files_(files),
        origin_(std::move(origin)),
        wanted_(wanted),
        options_(options),
        cache_(options.cache_dir.empty() ? default_cache_directory() : options.cache_dir,
               options.cache_limit_mb << 20) {}

  bool is_eager() const { return options_.eager_numerics; }  // of the file, once it is loaded

  std::vector<FileRegion> load() {
    const Json json = parse_document(file(kManifest), origin_ + kManifest);
    const Field manifest = Field(json).inside(origin_ + kManifest);
    const int64_t format = manifest["format"].integer();
    if (format != kFormat && format != kGpuFormat) {
      manifest["format"].fail("must be " + std::to_string(kFormat) + " or " + std::to_string(kGpuFormat) +
                              ", got " + std::to_string(format) + "; fuse the model again");
    }
    options_.eager_numerics = manifest["numerics"].text() == "eager";
    const Field targets = manifest["targets"];
    for (size_t i = 0; i < targets.size(); ++i) targets_.push_back(parse_file_target(targets.at(i)));
    if (format == kGpuFormat) {
      look_for_gpu(manifest);
    } else {
      std::copy_if(targets_.begin(), targets_.end(), std::back_inserter(of_this_machine_), runs_here);
    }
    std::vector<FileRegion> regions;
    const Field list = manifest["regions"];
    regions.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) regions.push_back(region(list.at(i)));
    return regions;
  }

 private:
  const std::string& file(const std::string& name) const {
    const auto found = files_.find(name);
    if (found == files_.end()) throw UserError(origin_ + name + ": is missing");
    return found->second;
  }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw UserError(origin_ + name + ": " + what);
  }

  void look_for_gpu(const Field& manifest) {
    device_ = manifest["device"].text();
    if (device_ != "cpu" && !is_gpu_device(device_)) manifest["device"].fail("is no device: " + device_);
    if (targets_.empty() || !std::all_of(targets_.begin(), targets_.end(), is_of_gpu)) {
      manifest["targets"].fail("must be GPUs");
    }
    if (wanted_ == Wanted::Sources) {
      throw UserError(origin_ + kManifest +
                      ": holds kernels for a GPU, where those for processors are wanted");
    }
    gpu_.emplace(device_, targets_, options_);
    of_this_machine_ = gpu_->targets_here();
  }

  FileRegion region(const Field& row) {
    FileRegion region{row["op"].text(), {}, std::nullopt, ""};
    const std::string name = row["name"].text();
    if (c_identifier(name) != name) row["name"].fail("must be letters, digits and underscores");
    if (!is_symbol_name(region.op)) row["op"].fail("is no name of an operator: " + region.op);
    const std::string& graph = file(region.op + "/graph.txt");
    if (region.op != region_operator(name, graph, options_.eager_numerics, device_)) {
      fail(region.op + "/graph.txt", "is not the graph that the operator is named after");
    }
    if (gpu_) region.place = gpu_->place();
    std::string refused;
    if (load_embedded(region, row, refused)) {
      if (gpu_) region.compiled.fallback = graph;
      return region;
    }
    make_again(region, name, graph);
    // Code that the caller trusts is not quietly replaced.
    if (wanted_ == Wanted::EmbeddedCode && row.find("objects"))
      region.how += why_not_embedded(refused, region.how);
    return region;
  }

  std::string why_not_embedded(const std::string& refused, const std::string& how) const {
    if (!refused.empty()) return ": the file's code does not load: " + refused;
    if (!of_this_machine_.empty()) return "";
    const std::string why = gpu_ ? gpu_->why_none_runs() : why_none_runs(targets_);
    if (why == how) return "";
    return ": the file has no code for this machine: " + why;
  }

  // The code for the richest target that this machine is; false: there is none, it is not trusted, or a GPU
  // that has less than its target refused it.
  bool load_embedded(FileRegion& region, const Field& row, std::string& refused) const {
    const auto objects = row.find("objects");
    if (wanted_ != Wanted::EmbeddedCode || !objects) return false;
    for (const FileTarget& target : of_this_machine_) {
      const auto hash = objects->find(target.name);
      if (!hash) continue;
      if (!gpu_) {
        load_object_of(region, target.name, hash->text());
        return true;
      }
      const auto refusal = load_images_of(region, target, hash->text());
      if (!refusal) return true;
      refused = "for " + target.name + ": " + refusal->reason;
    }
    return false;
  }

  // How the kernels of the one region that a program.json describes are launched.
  CompiledRegion embedded_program(const std::string& name, const Place& place) const {
    try {
      Executable executable = parse_executable(file(name));
      if (executable.regions.size() != 1) fail(name, "does not describe one region");
      const bool is_right = place.is_gpu() ? executable.place == place && is_for_gpus(executable)
                                           : is_for_processors(executable);
      if (!is_right)
        fail(name, place.is_gpu() ? "does not describe what runs on " + place.device
                                  : "describes what runs on a GPU");
      return std::move(executable.regions[0]);
    } catch (const InternalError& error) {
      fail(name, error.what());
    }
  }

  std::optional<Unsupported> load_images_of(FileRegion& region, const FileTarget& target,
                                            const std::string& hash) const {
    const std::string folder = region.op + "/" + target.name + "/";
    region.compiled = embedded_program(folder + "program.json", {device_, target.architecture});
    std::vector<GpuImage> images;
    for (size_t k = 0; k < region.compiled.program.gpu.size(); ++k) {
      const std::string kernel = folder + "kernel_" + std::to_string(k);
      auto cubin = from_base64(file(kernel + ".cubin.b64"));
      if (!cubin) fail(kernel + ".cubin.b64", "is no base64");
      images.push_back({*std::move(cubin), file(kernel + ".ptx")});
    }
    if (hash != hash_of(images)) {
      fail(folder + "kernel_0.cubin.b64",
           "is not the machine code that " + std::string(kManifest) + " has the hash of");
    }
    auto kernels = gpu_->load(region.compiled.program, images);
    if (!kernels) return kernels.unsupported();
    region.gpu = *std::move(kernels);
    region.how = "embedded for " + target.name;
    return std::nullopt;
  }

  void load_object_of(FileRegion& region, const std::string& target, const std::string& hash) const {
    const std::string folder = region.op + "/" + target;
    const std::string program = folder + "/program.json", object = folder + "/kernel.so.b64";
    region.compiled = embedded_program(program, {});
    const auto bytes = from_base64(file(object));
    if (!bytes) fail(object, "is no base64");
    if (hash != to_text(hash_bytes(*bytes))) {
      fail(object, "is not the machine code that " + std::string(kManifest) + " has the hash of");
    }
    auto module = load_object(*bytes);
    if (!module) fail(object, module.unsupported().reason);
    for (const Launch& launch : region.compiled.program.launches) {
      if (module->symbol(launch.symbol) == nullptr) fail(object, "lacks the kernel " + launch.symbol);
    }
    region.module = *std::move(module);
    region.how = "embedded for " + target;
  }

  // What region_graph makes of a region: tensors in, tensors out, computed by operators of ours.
  static void require_region(const Graph& graph) {
    if (!graph.mutations.empty()) throw UserError("is no region: it writes into an input");
    for (const GraphOutput& output : graph.outputs) {
      const auto* value = std::get_if<ValueId>(&output);
      if (value == nullptr || std::holds_alternative<Input>(graph.producer(*value).op)) {
        throw UserError("is no region: an output is not computed in it");
      }
    }
    for (const Node& node : graph.nodes) {
      if (std::holds_alternative<Call>(node.op)) throw UserError("is no region: it calls an operator");
    }
  }

  Graph parsed_graph(const std::string& name, const std::string& text) const {
    try {
      Graph graph = parse_graph(text);
      require_region(graph);
      return wanted_ == Wanted::Sources ? thaw(std::move(graph)) : graph;
    } catch (const std::exception& error) {
      fail(name, error.what());
    }
  }

  // The schedule for this target, or for the richest one that this machine is; empty: the file has none.
  std::string stored_schedule(const std::string& op, const std::string& target) const {
    std::string found;
    for (const FileTarget& known : targets_) {
      const std::string name = op + "/" + known.name + "/schedule.txt";
      if (!files_.contains(name) || !what_lacks(known).empty()) continue;
      if (known.name == target) return name;
      if (found.empty()) found = name;
    }
    return found;
  }

  void make_again(FileRegion& region, const std::string& name, const std::string& text) {
    const Graph graph = parsed_graph(region.op + "/graph.txt", text);
    RegionNodes nodes = whole_graph_region(graph);
    nodes.name = name;
    LoweringOptions lowering;
    lowering.eager_numerics = options_.eager_numerics;
    lowering.solve.threads = options_.threads;
    if (gpu_) return make_again_for_gpu(region, graph, nodes, lowering, text);
    const std::string target_name = options_.target.empty() ? host_target_name() : options_.target;
    const std::string schedule = stored_schedule(region.op, target_name);
    if (!schedule.empty()) lowering.schedule = file(schedule);
    StageTimes times;
    try {
      const std::string hash = region.op.substr(region.op.size() - kHashDigits);
      const auto reads = unproven_reads(graph);
      if (reads.empty()) {
        region.compiled =
            lower_region(graph, nodes, hash, load_target(target_name), lowering, {}, times).compiled;
      } else {  // kernels do not look where they read; the framework's operators do
        region.compiled = named_region(graph, nodes, hash).compiled;
        region.compiled.refusal = "cannot compile a region: " + reads[0].text;
      }
    } catch (const SizeError& error) {
      fail(region.op + "/graph.txt", error.what());
    } catch (const UserError& error) {
      fail(schedule, error.what());
    }
    if (region.compiled.refusal.empty() && wanted_ == Wanted::Sources) return;
    if (region.compiled.refusal.empty()) build_kernels(region);
    if (region.module) return;
    region.how = region.compiled.refusal;
    region.compiled.fallback = text;
  }

  void make_again_for_gpu(FileRegion& region, const Graph& graph, const RegionNodes& nodes,
                          const LoweringOptions& lowering, const std::string& text) {
    const std::string hash = region.op.substr(region.op.size() - kHashDigits);
    const Result<FoundGpu>& gpu = gpu_->found();
    const auto reads = unproven_reads(graph);
    StageTimes times;
    region.compiled = named_region(graph, nodes, hash).compiled;
    try {
      if (!gpu) {
        region.compiled.refusal = gpu.unsupported().reason;
      } else if (!reads.empty()) {
        region.compiled.refusal = "cannot compile a region: " + reads[0].text;
      } else {
        region.compiled = lower_region(graph, nodes, hash, gpu->target, lowering, {}, times).compiled;
      }
    } catch (const SizeError& error) {
      fail(region.op + "/graph.txt", error.what());
    }
    region.compiled.fallback = text;
    if (region.compiled.refusal.empty()) {
      auto kernels = build_gpu(region.compiled.program, *gpu, {options_.eager_numerics}, cache_);
      if (kernels) {
        region.gpu = *std::move(kernels);
      } else {
        region.compiled.refusal = kernels.unsupported().reason;
      }
    }
    region.how = region.gpu ? "compiled" : region.compiled.refusal;
  }

  void build_kernels(FileRegion& region) {
    if (!toolchain_) {
      toolchain_ = find_toolchain({options_.cxx, options_.search_path, options_.python}, cache_);
    }
    const Result<Toolchain>& toolchain = *toolchain_;
    const BuildOptions building{.eager_numerics = options_.eager_numerics};
    auto module = toolchain ? build(region.compiled.program.source, *toolchain, building, cache_)
                            : Result<Module>(toolchain.unsupported());
    if (!module) {
      region.compiled.refusal = module.unsupported().reason;
      return;
    }
    region.module = *std::move(module);
    region.how = "compiled";
  }

  const ExtraFiles& files_;
  std::string origin_;
  Wanted wanted_;
  CompileOptions options_;
  std::vector<FileTarget> targets_;
  std::vector<FileTarget> of_this_machine_;  // of these; asked once: a virtual machine answers slowly
  std::string device_;                       // of the program, where that is on a GPU
  std::optional<GpuFile> gpu_;
  KernelCache cache_;
  std::optional<Result<Toolchain>> toolchain_;
};

// How its kernels are launched; the source stands in a file of its own, and the graph does.
std::string program_of(CompiledRegion region, const Place& place) {
  region.program.source.clear();
  for (GpuStep& step : region.program.gpu) step.source.clear();
  if (place.is_gpu()) region.fallback.clear();
  return to_json(region_executable(region, place));
}

// The folder of one target, without its schedule.
void add_kernels(const TargetRegions& made, size_t r, const std::string& gpu, const std::string& folder,
                 ExtraFiles& files, Json& row) {
  const CompiledRegion& region = made.regions[r].compiled;
  files[folder + "/program.json"] =
      program_of(region, gpu.empty() ? Place{} : Place{gpu, made.target.architecture});
  if (!gpu.empty()) {
    const std::vector<GpuImage>& images = made.images[r];
    files.merge(image_files(folder + "/", region.program, images));
    if (!images.empty()) row["objects"][made.target.name] = hash_of(images);
    return;
  }
  files[folder + "/kernel.cpp"] = region.program.source;
  if (made.objects[r].empty()) return;
  files[folder + "/kernel.so.b64"] = to_base64(made.objects[r]);
  row["objects"][made.target.name] = to_text(hash_bytes(made.objects[r]));
}

}  // namespace

ExtraFiles extra_files(const Archive& archive) {
  ExtraFiles files;
  for (const auto& [name, entry] : archive.entries()) {
    if (!name.starts_with(kExtraFolder) || name == kReportEntry) continue;
    files[name.substr(kExtraFolder.size())] = archive.text(name);
  }
  return files;
}

std::string region_operator(const std::string& name, const std::string& graph_text, bool eager_numerics,
                            const std::string& gpu) {
  const std::string place = gpu.empty() ? "" : "on a GPU, " + gpu + "\n";
  const std::string meaning = (eager_numerics ? "eager\n" : "fast\n") + place + name + "\n" + graph_text;
  return name + "_" + to_text(hash_bytes(meaning)).substr(0, kHashDigits);
}

ExtraFiles region_files(const std::vector<Graph>& graphs, const std::vector<TargetRegions>& targets,
                        bool eager_numerics, const std::string& gpu) {
  ExtraFiles files;
  Json regions = Json::array(), names = Json::array();
  for (const TargetRegions& made : targets) names.push_back(to_json(made.target));
  for (size_t r = 0; r < graphs.size(); ++r) {
    const std::string name = targets.front().regions[r].compiled.name, graph = to_text(graphs[r]);
    const std::string op = region_operator(name, graph, eager_numerics, gpu);
    files[op + "/graph.txt"] = graph;
    Json row = {{"op", op}, {"name", name}};
    for (const TargetRegions& made : targets) {
      const LoweredRegion& lowered = made.regions[r];
      if (!lowered.compiled.refusal.empty()) continue;
      const std::string folder = op + "/" + made.target.name;
      files[op + "/tiles.txt"] = lowered.tiles;  // the same for all targets
      files[folder + "/schedule.txt"] = lowered.schedule;
      add_kernels(made, r, gpu, folder, files, row);
    }
    regions.push_back(row);
  }
  Json manifest = {{"format", gpu.empty() ? kFormat : kGpuFormat},
                   {"targets", names},
                   {"numerics", eager_numerics ? "eager" : "fast"},
                   {"regions", regions}};
  if (!gpu.empty()) manifest["device"] = gpu;
  files[kManifest] = manifest.dump(1);
  return files;
}

std::vector<FileRegion> load_regions(const ExtraFiles& files, const std::string& origin, bool trusted,
                                     const CompileOptions& options) {
  return Loader(files, origin, trusted ? Wanted::EmbeddedCode : Wanted::CompiledCode, options).load();
}

RegionSources lower_regions(const ExtraFiles& files, const std::string& origin,
                            const CompileOptions& options) {
  Loader loader(files, origin, Wanted::Sources, options);
  RegionSources sources;
  sources.regions = loader.load();
  sources.eager_numerics = loader.is_eager();
  return sources;
}

}  // namespace tilefuse
