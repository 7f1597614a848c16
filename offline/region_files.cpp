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

namespace tilefuse {
namespace {

using aten::Field;
using Json = nlohmann::json;

constexpr const char* kManifest = "tilefuse.json";
constexpr int kFormat = 2;
constexpr size_t kHashDigits = 16;

enum class Wanted : uint8_t { EmbeddedCode, CompiledCode, Sources };

// Files hold nothing else.
bool is_for_processors(const Executable& executable) {
  const CompiledRegion& region = executable.regions[0];
  const auto is_here = [](const TensorSpec& spec) { return spec.elsewhere.empty(); };
  return executable.place == Place{} && region.program.gpu.empty() &&
         std::all_of(region.inputs.begin(), region.inputs.end(), is_here) &&
         std::all_of(region.outputs.begin(), region.outputs.end(), is_here);
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
    if (manifest["format"].integer() != kFormat) {
      manifest["format"].fail("must be " + std::to_string(kFormat) + ", got " +
                              std::to_string(manifest["format"].integer()) + "; fuse the model again");
    }
    options_.eager_numerics = manifest["numerics"].text() == "eager";
    const Field targets = manifest["targets"];
    for (size_t i = 0; i < targets.size(); ++i) targets_.push_back(parse_file_target(targets.at(i)));
    std::copy_if(targets_.begin(), targets_.end(), std::back_inserter(of_this_machine_), runs_here);
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

  FileRegion region(const Field& row) {
    FileRegion region{row["op"].text(), {}, std::nullopt, ""};
    const std::string name = row["name"].text();
    if (c_identifier(name) != name) row["name"].fail("must be letters, digits and underscores");
    if (!is_symbol_name(region.op)) row["op"].fail("is no name of an operator: " + region.op);
    const std::string& graph = file(region.op + "/graph.txt");
    if (region.op != region_operator(name, graph, options_.eager_numerics)) {
      fail(region.op + "/graph.txt", "is not the graph that the operator is named after");
    }
    if (load_embedded(region, row)) return region;
    make_again(region, name, graph);
    // Code that the caller trusts is not quietly replaced.
    if (wanted_ == Wanted::EmbeddedCode && row.find("objects") && of_this_machine_.empty()) {
      region.how += ": the file has no code for this machine: " + why_none_runs(targets_);
    }
    return region;
  }

  // The code for the richest target that this machine is; false: there is none, or it is not trusted.
  bool load_embedded(FileRegion& region, const Field& row) const {
    const auto objects = row.find("objects");
    if (wanted_ != Wanted::EmbeddedCode || !objects) return false;
    for (const FileTarget& target : of_this_machine_) {
      const auto hash = objects->find(target.name);
      if (!hash) continue;
      load_object_of(region, target.name, hash->text());
      return true;
    }
    return false;
  }

  void load_object_of(FileRegion& region, const std::string& target, const std::string& hash) const {
    const std::string folder = region.op + "/" + target;
    const std::string program = folder + "/program.json", object = folder + "/kernel.so.b64";
    try {
      const Executable executable = parse_executable(file(program));
      if (executable.regions.size() != 1) fail(program, "does not describe one region");
      if (!is_for_processors(executable)) fail(program, "describes what runs on a GPU");
      region.compiled = executable.regions[0];
    } catch (const InternalError& error) {
      fail(program, error.what());
    }
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
        region.compiled.name = name;
        region.compiled.hash = hash;
        region.compiled.refusal = "cannot compile a region: " + reads[0].text;
        for (const ValueId input : nodes.inputs) region.compiled.inputs.push_back(spec_of(graph, input));
        for (const ValueId output : nodes.outputs) region.compiled.outputs.push_back(spec_of(graph, output));
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
  KernelCache cache_;
  std::optional<Result<Toolchain>> toolchain_;
};

// How its kernels are launched; the source stands in a file of its own.
std::string program_of(CompiledRegion region) {
  region.program.source.clear();
  return to_json(region_executable(region));
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

std::string region_operator(const std::string& name, const std::string& graph_text, bool eager_numerics) {
  const std::string meaning = (eager_numerics ? "eager\n" : "fast\n") + name + "\n" + graph_text;
  return name + "_" + to_text(hash_bytes(meaning)).substr(0, kHashDigits);
}

ExtraFiles region_files(const std::vector<Graph>& graphs, const std::vector<TargetRegions>& targets,
                        bool eager_numerics) {
  ExtraFiles files;
  Json regions = Json::array(), names = Json::array();
  for (const TargetRegions& made : targets) names.push_back(to_json(made.target));
  for (size_t r = 0; r < graphs.size(); ++r) {
    const std::string name = targets.front().regions[r].compiled.name, graph = to_text(graphs[r]);
    const std::string op = region_operator(name, graph, eager_numerics);
    files[op + "/graph.txt"] = graph;
    Json row = {{"op", op}, {"name", name}};
    for (const TargetRegions& made : targets) {
      const LoweredRegion& lowered = made.regions[r];
      if (!lowered.compiled.refusal.empty()) continue;
      const std::string folder = op + "/" + made.target.name;
      files[op + "/tiles.txt"] = lowered.tiles;  // the same for all targets
      files[folder + "/schedule.txt"] = lowered.schedule;
      files[folder + "/kernel.cpp"] = lowered.compiled.program.source;
      files[folder + "/program.json"] = program_of(lowered.compiled);
      if (made.objects[r].empty()) continue;
      files[folder + "/kernel.so.b64"] = to_base64(made.objects[r]);
      row["objects"][made.target.name] = to_text(hash_bytes(made.objects[r]));
    }
    regions.push_back(row);
  }
  files[kManifest] = Json{
      {"format", kFormat},
      {"targets", names},
      {"numerics", eager_numerics ? "eager" : "fast"},
      {"regions",
       regions}}.dump(1);
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
