#include "offline/fuse_file.h"

#include <algorithm>
#include <cctype>
#include <thread>

#include "core/import/document.h"
#include "core/import/inline_graphs.h"
#include "core/import/size_hints.h"
#include "core/match.h"
#include "offline/explain_file.h"
#include "offline/fused_program.h"
#include "offline/new_file.h"
#include "offline/plan_file.h"
#include "offline/region_files.h"
#include "offline/write_archive.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// In the order of the input file, with what is new in front: torch takes the first entry's folder for the
// root.
void copy_archive(const ProgramFile& file, const std::string& output,
                  const std::map<std::string, std::string>& replaced) {
  NewEntries entries;
  for (const auto& [name, entry] : file.archive().entries()) {
    const auto found = replaced.find(name);
    if (found == replaced.end()) {
      entries.push_back({name, file.archive().bytes(name), entry.checksum});
    } else {
      entries.push_back({name, bytes_of(found->second)});
    }
  }
  for (const auto& [name, text] : replaced) {
    if (!file.archive().has(name)) entries.push_back({name, bytes_of(text)});
  }
  write_archive(output, file.archive().root(), entries);
}

// A fused program is for inference: its operators have no gradients.
std::string without_gradients(const ProgramFile& file, const std::string& entry) {
  Json config = parse_document(file.archive().text(entry), file.archive().path() + ": entry " + entry);
  if (!config.is_object() || !config.contains("config")) return config.dump();
  for (Json& payload : config["config"]) {
    if (payload.contains("tensor_meta") && payload["tensor_meta"].is_object()) {
      payload["tensor_meta"]["requires_grad"] = false;
    }
  }
  return config.dump();
}

// Where the program's tensors are, and a GPU that runs it; no GPU: a processor does.
struct ProgramPlace {
  std::string device;
  std::optional<GpuRequest> gpu;
};

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

KernelTarget loaded_target(const std::string& name, const ProgramPlace& place) {
  const bool is_other = is_among(place.gpu ? target_names() : gpu_target_names(), name);
  if (is_other) {
    throw UserError("target " + name + ": is a " + (place.gpu ? "processor" : "GPU") +
                    ", and the program's tensors are on " + (place.gpu ? place.device : "the CPU"));
  }
  if (place.gpu) return load_gpu_target(name);
  return load_target(name);
}

// Of GPUs the newer, then the one with the quicker memory.
bool is_first(const KernelTarget& a, const KernelTarget& b) {
  if (const auto* processor = std::get_if<Target>(&a)) return is_richer(*processor, std::get<Target>(b));
  const auto rank = [](const KernelTarget& target) {
    const auto& gpu = std::get<GpuTarget>(target);
    return std::tuple(-compute_capability(gpu.architecture), -gpu.memory_gbs, gpu.name);
  };
  return rank(a) < rank(b);
}

// The targets asked for, the richest first.
std::vector<KernelTarget> wanted_targets(const FuseOptions& options, const ProgramPlace& place) {
  std::vector<KernelTarget> targets;
  for (const std::string& given : options.targets) {
    KernelTarget target = loaded_target(given, place);
    const std::string& name = name_of(target);
    const auto refuse = [&](const char* why) {
      std::string text = "target " + given;
      throw UserError(text.append(": ").append(why).append(name));
    };
    for (const char c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') continue;
      refuse("its name must be letters, digits, - and _, got ");
    }
    const auto same = [&](const KernelTarget& other) { return name_of(other) == name; };
    if (std::any_of(targets.begin(), targets.end(), same)) refuse("two targets are named ");
    targets.push_back(std::move(target));
  }
  std::sort(targets.begin(), targets.end(), is_first);
  return targets;
}

// Of a program on a GPU, for which no target was asked: the one that is here.
KernelTarget gpu_here(const ProgramFile& file, const ProgramPlace& place) {
  const Result<CudaDriver> driver = CudaDriver::load(place.gpu->driver);
  const Result<CudaDevice> device =
      driver ? driver->device(place.gpu->device) : Result<CudaDevice>(driver.unsupported());
  Result<GpuTarget> target = device ? gpu_target_for(*device) : Result<GpuTarget>(device.unsupported());
  if (target) return *std::move(target);
  std::string known;
  for (const std::string& name : gpu_target_names()) known += (known.empty() ? "" : ", ") + name;
  throw UserError(file.archive().path() + ": its tensors are on " + place.device +
                  ", and no GPU says what to make kernels for: " + target.unsupported().reason +
                  "; name it with --target: " + known);
}

std::vector<std::string> compiled_objects(const std::vector<LoweredRegion>& regions,
                                          const FuseOptions& options, const BuildOptions& building,
                                          std::vector<std::string>& warnings) {
  std::vector<std::string> objects(regions.size());
  if (!options.embed) return objects;
  const CompileOptions& compile = options.compile;
  KernelCache cache(compile.cache_dir.empty() ? default_cache_directory() : compile.cache_dir,
                    compile.cache_limit_mb << 20);
  const auto toolchain = find_toolchain({compile.cxx, compile.search_path, compile.python}, cache);
  if (!toolchain) {
    warnings.push_back("no machine code is embedded: " + toolchain.unsupported().reason);
    return objects;
  }
  std::vector<std::string> sources;
  for (const LoweredRegion& region : regions) {
    if (region.compiled.refusal.empty()) sources.push_back(region.compiled.program.source);
  }
  const int jobs = int(std::max(1U, std::thread::hardware_concurrency()));
  build_all(sources, *toolchain, building, cache, jobs);
  for (size_t r = 0; r < objects.size(); ++r) {
    if (!regions[r].compiled.refusal.empty()) continue;
    auto object = build_object(regions[r].compiled.program.source, *toolchain, building, cache);
    if (object) {
      objects[r] = *std::move(object);
    } else {
      warnings.push_back(regions[r].compiled.name + ": " + object.unsupported().reason);
    }
  }
  return objects;
}

// The same for a GPU, by region and kernel.
std::vector<std::vector<GpuImage>> compiled_images(const std::vector<LoweredRegion>& regions,
                                                   const std::string& architecture,
                                                   const FuseOptions& options,
                                                   std::vector<std::string>& warnings) {
  std::vector<std::vector<GpuImage>> images(regions.size());
  if (!options.embed) return images;
  const CompileOptions& compile = options.compile;
  KernelCache cache(compile.cache_dir.empty() ? default_cache_directory() : compile.cache_dir,
                    compile.cache_limit_mb << 20);
  const Result<Nvrtc> nvrtc = Nvrtc::load(compile.nvrtc);
  if (!nvrtc) {
    warnings.push_back("no machine code is embedded: " + nvrtc.unsupported().reason);
    return images;
  }
  for (size_t r = 0; r < regions.size(); ++r) {
    const CompiledRegion& region = regions[r].compiled;
    if (!region.refusal.empty()) continue;
    auto made = compile_images(region.program, *nvrtc, architecture, {compile.eager_numerics}, cache);
    if (made) {
      images[r] = *std::move(made);
    } else {
      warnings.push_back(region.name + ": " + made.unsupported().reason);
    }
  }
  return images;
}

// What the report, which is of the first target, does not say.
void warn_of_refusals(const TargetRegions& made, const std::vector<LoweredRegion>& reported,
                      std::vector<std::string>& warnings) {
  for (size_t r = 0; r < reported.size(); ++r) {
    const CompiledRegion& region = made.regions[r].compiled;
    if (region.refusal.empty() || !reported[r].compiled.refusal.empty()) continue;
    warnings.push_back("for " + made.target.name + ", " + region.name +
                       " runs with torch: " + region.refusal);
  }
}

// The machine code of the regions, which are for this target.
void add_code(const KernelTarget& target, const FuseOptions& options, TargetRegions& added,
              std::vector<std::string>& warnings) {
  match(
      target,
      [&](const Target& processor) {
        BuildOptions building{.eager_numerics = options.compile.eager_numerics};
        if (added.target.processor.empty()) building.instructions = processor.instructions;
        added.objects = compiled_objects(added.regions, options, building, warnings);
      },
      [&](const GpuTarget& gpu) {
        added.images = compiled_images(added.regions, gpu.architecture, options, warnings);
      });
}

// The regions for each target, the one that was planned for first.
std::vector<TargetRegions> regions_by_target(const ProgramFile& file, const PlannedGraph& planned,
                                             const std::vector<KernelTarget>& targets,
                                             const FuseOptions& options, std::vector<std::string>& warnings) {
  CompileOptions lowering = options.compile;
  lowering.hints = captured_size_hints(file.program());
  const bool is_for_any = !options.targets.empty();
  std::vector<TargetRegions> made;
  for (const KernelTarget& target : targets) {
    FileTarget described = match(
        target, [&](const Target& processor) { return file_target(processor, is_for_any); },
        [](const GpuTarget& gpu) { return file_target(gpu); });
    TargetRegions& added = made.emplace_back(std::move(described));
    added.regions = made.size() == 1 ? planned.regions : lower_for(target, planned, lowering);
    warn_of_refusals(added, planned.regions, warnings);
    add_code(target, options, added, warnings);
  }
  return made;
}

// What of the program cannot be written again is told with file and entry.
std::string written_program(const ProgramFile& file, const PlannedGraph& planned,
                            const std::vector<std::string>& operators) {
  Json document = parse_document(file.program(), file.archive().path() + ": entry " + file.program_entry());
  inline_graphs(document);
  try {
    return fused_program(document, planned.executable, operators).dump();
  } catch (const UserError& error) {
    file.archive().fail(file.program_entry(), error.what());
  }
}

FuseResult counted(const PlannedGraph& planned) {
  FuseResult result;
  result.regions = int(planned.regions.size());
  for (const Instruction& instruction : planned.executable.instructions) {
    result.launches += std::holds_alternative<LaunchRegion>(instruction) ? 1 : 0;
    result.calls += std::holds_alternative<CallOperator>(instruction) ? 1 : 0;
  }
  result.report = planned.report;
  result.warnings = planned.warnings;
  return result;
}

}  // namespace

FuseResult fuse_file(const std::string& input, const std::string& output, const FuseOptions& options) {
  const ProgramFile file = ProgramFile::open(input);
  require_writable(output);
  FuseResult result;
  if (is_fused(file)) {
    result.refusal = "it is fused already";
    copy_archive(file, output, {});
    return result;
  }
  const CompileOptions& compile = options.compile;
  const Result<Graph> graph = import_program(file);
  if (!graph) {
    result.refusal = graph.unsupported().reason;
    copy_archive(file, output, {});
    return result;
  }
  const ProgramPlace place{graph->device, gpu_request(graph->device, compile)};
  std::vector<KernelTarget> targets = wanted_targets(options, place);
  if (targets.empty()) targets = {place.gpu ? gpu_here(file, place) : KernelTarget(processor_for(compile))};
  for (KernelTarget& target : targets) target = as_allowed(std::move(target), compile);
  const PlannedGraph planned = plan_program(file, *graph, targets.front(), compile);
  result = counted(planned);
  std::map<std::string, std::string> replaced;
  const std::string gpu = place.gpu ? place.device : "";
  const auto made = regions_by_target(file, planned, targets, options, result.warnings);
  for (auto& [name, text] : region_files(planned.region_graphs, made, compile.eager_numerics, gpu)) {
    replaced[std::string(kExtraFolder) + name] = text;
  }
  replaced[kReportEntry] = stored_report(planned.report);
  std::vector<std::string> operators;
  operators.reserve(planned.regions.size());
  for (size_t r = 0; r < planned.regions.size(); ++r) {
    operators.push_back(region_operator(planned.regions[r].compiled.name, to_text(planned.region_graphs[r]),
                                        compile.eager_numerics, gpu));
  }
  replaced[file.program_entry()] = written_program(file, planned, operators);
  const std::string weights = "data/weights/" + file.model() + "_weights_config.json";
  replaced[weights] = without_gradients(file, weights);
  copy_archive(file, output, replaced);
  return result;
}

}  // namespace tilefuse
