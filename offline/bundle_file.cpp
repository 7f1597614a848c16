#include "offline/bundle_file.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "codegen/build_library.h"
#include "codegen/c_names.h"
#include "codegen/link_regions.h"
#include "codegen/pipeline.h"
#include "codegen/temporary_folder.h"
#include "core/canonicalize.h"
#include "core/import/decomposition.h"
#include "core/import/size_hints.h"
#include "offline/bundle_state.h"
#include "offline/new_file.h"
#include "offline/program_file.h"
#include "offline/region_files.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamespace = "tilefuse::";

struct Planned {
  Executable executable;
  bool eager_numerics = false;
  // By operator of a fused file: why its region has no source; empty: it has one.
  std::map<std::string, std::string> refusals;
};

CallFacts no_facts(const Call&) { return {}; }

Graph imported(const ProgramFile& file) {
  Result<Graph> graph = import_program(file);
  if (graph && graph->device != "cpu") {
    throw UserError(file.archive().path() + ": cannot be a library: its tensors are on " + graph->device +
                    ", and libraries are for processors");
  }
  if (graph) return *std::move(graph);
  throw UserError(file.archive().path() + ": cannot be a library: " + graph.unsupported().reason);
}

// Of a program that was fused before: its own regions, with the schedules that the file has.
Planned linked(const ProgramFile& file, const ExtraFiles& files, const CompileOptions& options) {
  const Graph graph = canonicalize(imported(file));
  const std::string origin = file.archive().path() + ": entry " + std::string(kExtraFolder);
  RegionSources sources = lower_regions(files, origin, options);
  Planned planned{.executable = {}, .eager_numerics = sources.eager_numerics, .refusals = {}};
  std::map<std::string, CompiledRegion> compiled;
  for (FileRegion& region : sources.regions) {
    planned.refusals[region.op] = region.compiled.refusal;
    compiled.emplace(region.op, std::move(region.compiled));
  }
  planned.executable = link_regions(graph, compiled, no_facts).executable;
  return planned;
}

// Of a program that was not: no library of the framework's is there to make products.
Planned fused(const ProgramFile& file, CompileOptions options) {
  options.hints = captured_size_hints(file.program());
  options.products = ProductChoice::Own;
  PlannedGraph planned = plan_graph(imported(file), options, {no_facts, "none"});
  return {std::move(planned.executable), options.eager_numerics, {}};
}

std::string call_reason(const CallOperator& left, const Planned& planned, bool was_fused) {
  const Call& call = left.call;
  const bool is_ours = call.op.starts_with(kNamespace);  // a region, or an operator of tilefuse.ops
  const auto region = planned.refusals.find(is_ours ? call.op.substr(kNamespace.size()) : "");
  if (region != planned.refusals.end()) {
    return region->second.empty() ? "the region was compiled for operands of other sizes or strides"
                                  : region->second;
  }
  if (was_fused && is_decomposable(call)) {
    return "torch's library was to make it; fuse with --products own, or bundle the exported program itself";
  }
  std::vector<TensorType> operands;
  operands.reserve(left.operands.size());
  for (const SlotId id : left.operands) {
    operands.push_back({planned.executable[id].spec.dtype, planned.executable[id].spec.sizes});
  }
  std::vector<aten::TensorRecord> results;
  for (const SlotId id : left.results) {
    const TensorSpec& spec = planned.executable[id].spec;
    results.push_back({spec.name, {spec.dtype, spec.sizes}, spec.strides});
  }
  return why_call(call, operands, results);
}

// "%y = aten::topk"
std::string shown(const CallOperator& left, const Executable& executable) {
  const std::string result = left.results.empty() ? "" : "%" + executable[left.results[0]].spec.name + " = ";
  return result + left.call.op + (left.call.overload.empty() ? "" : "." + left.call.overload);
}

// Names each operator that the framework would run, and says why.
void refuse_calls(const ProgramFile& file, const Planned& planned, bool was_fused) {
  std::string lines;
  int left = 0;
  const auto add = [&](const std::string& what, const std::string& why) {
    lines.append("\n  ").append(what).append(": ").append(why);
    ++left;
  };
  for (const Instruction& instruction : planned.executable.instructions) {
    if (const auto* call = std::get_if<CallOperator>(&instruction)) {
      add(shown(*call, planned.executable), call_reason(*call, planned, was_fused));
    } else if (const auto* launch = std::get_if<LaunchRegion>(&instruction)) {
      const CompiledRegion& region = planned.executable.regions[size_t(launch->region)];
      if (!region.refusal.empty()) add("region " + region.name, region.refusal);
    }
  }
  if (left == 0) return;
  throw UserError(file.archive().path() + ": cannot be a library: torch would have to run " +
                  std::to_string(left) + (left == 1 ? " operator:" : " operators:") + lines);
}

std::string library_name(const BundleOptions& options) {
  if (!options.name.empty()) {
    if (c_identifier(options.name) != options.name)
      throw UserError("--name: '" + options.name + "' is no identifier of C");
    return options.name;
  }
  std::string stem = fs::path(options.output).stem().string();
  if (stem.starts_with("lib") && stem.size() > 3) stem.erase(0, 3);
  return c_identifier(stem);
}

void build(const ProgramFile& file, const BundleOptions& options, const std::vector<WeightEntry>& entries,
           const BundleSources& sources, const LibraryRequest& wanted, bool eager_numerics) {
  const CompileOptions& compile = options.compile;
  KernelCache cache(compile.cache_dir.empty() ? default_cache_directory() : compile.cache_dir,
                    compile.cache_limit_mb << 20);
  const auto toolchain = find_toolchain({compile.cxx, compile.search_path, compile.python}, cache);
  if (!toolchain) throw UserError("a library needs a compiler: " + toolchain.unsupported().reason);
  const TemporaryFolder folder;
  if (!folder.exists()) throw UserError("cannot write to the directory for temporary files");
  LibraryRequest request = wanted;
  if (options.weights.empty() && !entries.empty()) {
    request.weights_file = folder.file("weights");
    write_weights(file, entries, "", request.weights_file);
  }
  const int jobs = int(std::max(1U, std::thread::hardware_concurrency()));
  const BuildOptions building{.eager_numerics = eager_numerics};
  if (const auto refusal = build_library(sources, request, *toolchain, building, jobs)) {
    throw UserError(options.output + ": " + refusal->reason);
  }
}

}  // namespace

BundleResult bundle_file(const std::string& input, const BundleOptions& options) {
  const ProgramFile file = ProgramFile::open(input);
  for (const std::string& written : {options.output, options.header, options.weights}) {
    if (!written.empty()) require_writable(written);
  }
  const ExtraFiles files = extra_files(file.archive());
  const Planned planned = files.empty() ? fused(file, options.compile) : linked(file, files, options.compile);
  refuse_calls(file, planned, !files.empty());

  BundleRequest request;
  request.name = library_name(options);
  request.origin = fs::path(input).filename().string();
  const std::vector<WeightEntry> entries = place_state(file, planned.executable, request);
  if (!options.weights.empty()) request.weights_mark = weights_mark(file, entries);
  const std::string header_file = fs::path(options.header).filename().string();
  const BundleSources sources = bundle_sources(planned.executable, request, header_file);
  build(file, options, entries, sources, {options.output, request.name, header_file, ""},
        planned.eager_numerics);
  if (!write_file(options.header, sources.header)) throw UserError("cannot write " + options.header);
  if (!options.weights.empty()) write_weights(file, entries, request.weights_mark, options.weights);

  BundleResult result{.name = request.name,
                      .regions = int(planned.executable.regions.size()),
                      .launches = 0,
                      .weights_bytes = request.weights_bytes};
  for (const Instruction& instruction : planned.executable.instructions) {
    result.launches += std::holds_alternative<LaunchRegion>(instruction) ? 1 : 0;
  }
  return result;
}

}  // namespace tilefuse
