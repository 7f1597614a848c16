#include "offline/fuse_file.h"

#include <algorithm>
#include <cctype>
#include <thread>

#include "core/import/document.h"
#include "core/import/inline_graphs.h"
#include "core/import/size_hints.h"
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

struct WantedTarget {
  std::string given;  // name or file
  Target profile;
};

// The targets asked for, the richest first.
std::vector<WantedTarget> wanted_targets(const FuseOptions& options) {
  std::vector<WantedTarget> targets;
  for (const std::string& name : options.targets) {
    Target target = load_target(name);
    for (const char c : target.name) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') continue;
      throw UserError("target " + name + ": its name must be letters, digits, - and _, got " + target.name);
    }
    const auto same = [&](const WantedTarget& other) { return other.profile.name == target.name; };
    if (std::any_of(targets.begin(), targets.end(), same)) {
      throw UserError("target " + name + ": two targets are named " + target.name);
    }
    targets.push_back({name, std::move(target)});
  }
  std::sort(targets.begin(), targets.end(),
            [](const WantedTarget& a, const WantedTarget& b) { return is_richer(a.profile, b.profile); });
  return targets;
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

// The regions for each target, the one that was planned for first.
std::vector<TargetRegions> regions_by_target(const ProgramFile& file, const PlannedGraph& planned,
                                             const std::vector<WantedTarget>& targets,
                                             const FuseOptions& options, std::vector<std::string>& warnings) {
  BuildOptions building{.eager_numerics = options.compile.eager_numerics};
  CompileOptions lowering = options.compile;
  lowering.hints = captured_size_hints(file.program());
  std::vector<TargetRegions> made;
  for (const auto& [given, target] : targets) {
    building.instructions = target.instructions;
    TargetRegions& added = made.emplace_back(file_target(target, /*is_for_any=*/true));
    added.regions = made.size() == 1 ? planned.regions : lower_for(target, planned, lowering);
    warn_of_refusals(added, planned.regions, warnings);
    added.objects = compiled_objects(added.regions, options, building, warnings);
  }
  if (made.empty()) {
    made.push_back({file_target(planned.target, /*is_for_any=*/false), planned.regions,
                    compiled_objects(planned.regions, options, building, warnings)});
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
  const std::vector<WantedTarget> targets = wanted_targets(options);
  CompileOptions compile = options.compile;
  if (!targets.empty()) compile.target = targets.front().given;
  const Result<PlannedGraph> planned_or = plan_file(file, compile);
  if (!planned_or) {
    result.refusal = planned_or.unsupported().reason;
    copy_archive(file, output, {});
    return result;
  }
  const PlannedGraph& planned = *planned_or;
  result = counted(planned);
  std::map<std::string, std::string> replaced;
  const auto made = regions_by_target(file, planned, targets, options, result.warnings);
  for (auto& [name, text] : region_files(planned.region_graphs, made, compile.eager_numerics)) {
    replaced[std::string(kExtraFolder) + name] = text;
  }
  replaced[kReportEntry] = stored_report(planned.report);
  std::vector<std::string> operators;
  operators.reserve(planned.regions.size());
  for (size_t r = 0; r < planned.regions.size(); ++r) {
    operators.push_back(region_operator(planned.regions[r].compiled.name, to_text(planned.region_graphs[r]),
                                        compile.eager_numerics));
  }
  replaced[file.program_entry()] = written_program(file, planned, operators);
  const std::string weights = "data/weights/" + file.model() + "_weights_config.json";
  replaced[weights] = without_gradients(file, weights);
  copy_archive(file, output, replaced);
  return result;
}

}  // namespace tilefuse
