#include "codegen/pipeline.h"

#include <algorithm>
#include <functional>
#include <set>
#include <thread>

#include "codegen/distinct_regions.h"
#include "codegen/kernel_target.h"
#include "codegen/operators_apart.h"
#include "codegen/plan_cache.h"
#include "codegen/report.h"
#include "codegen/tune.h"
#include "core/canonicalize.h"
#include "core/constants.h"
#include "core/import/import_graph.h"
#include "core/import/size_hints.h"
#include "core/structural_hash.h"
#include "fusion/reduce_concats.h"
#include "fusion/region_graph.h"
#include "fusion/whole_graph_region.h"

namespace tilefuse {
namespace {

// What the stages before the compiler made.
struct Planned {
  Graph graph;
  std::vector<std::optional<NodeId>> product_of;  // by node: the captured Call that it was part of
  Partition partition;
  DistinctRegions distinct;
  std::vector<LoweredRegion> regions;             // by distinct region
  std::set<std::string> faults;                   // what broke, in words
  std::map<std::string, std::string> unmet_pins;  // by region that is none for them: the conflict
  KernelTarget target;
  Place place;
  StageTimes times;
};

PartitionOptions partition_options(const CompileOptions& options) {
  PartitionOptions result;
  result.hints = options.hints;
  result.threads = options.threads;
  result.fuse_limit = options.fuse_limit;
  result.eager_numerics = options.eager_numerics;
  return result;
}

LoweringOptions lowering_options(const CompileOptions& options, const std::string& region) {
  LoweringOptions result;
  result.hints = options.hints;
  if (const auto pins = options.pins.find(region); pins != options.pins.end()) result.pins = pins->second;
  result.solve.threads = options.threads;
  if (options.tune > 1) result.solve.candidates = std::max(kTunedAmong, options.tune);
  result.eager_numerics = options.eager_numerics;
  return result;
}

// What the graph becomes with its products, if that is known already.
std::optional<Partition> take_in_products(Planned& planned, const CompileOptions& options,
                                          PartitionOptions& partitioning, RegionPrices& prices,
                                          const std::set<NodeId>& library_products) {
  Decomposed decomposed = planned.times.measure("products", [&] {
    return decompose_calls(planned.graph, options.products, partitioning, prices, library_products);
  });
  planned.graph = std::move(decomposed.graph);
  planned.product_of = std::move(decomposed.call_of);
  partitioning.library = std::move(decomposed.library);
  partitioning.seeds = std::move(decomposed.seeds);
  return std::move(decomposed.partition);
}

void compare_with_operators(Planned& planned, const CompileOptions& options, RegionPrices& prices) {
  const FusionGroups groups(planned.graph);
  for (size_t r = 0; r < planned.regions.size(); ++r) {
    const Region& region = planned.partition.regions[size_t(planned.distinct.representative[r])];
    LoweredRegion& lowered = planned.regions[r];
    const OperatorsApart apart = operators_apart(
        planned.graph, groups, region, prices, options.eager_numerics, lowered.predicted_us, region.apart_us);
    lowered.apart_us = apart.microseconds;
    lowered.apart_bytes = apart.bytes;
  }
}

Planned plan_regions(const Graph& captured, const KernelTarget& target, const CompileOptions& options,
                     const ChooseSchedule& choose, StageTimes times,
                     const std::set<NodeId>& library_products) {
  Planned planned;
  planned.target = target;
  planned.place = place_of(captured.device, target);
  planned.times = std::move(times);
  planned.graph = planned.times.measure("canonicalize", [&] {
    return reduce_concats(canonicalize(options.freeze ? freeze(captured) : captured));
  });
  PartitionOptions partitioning = partition_options(options);
  RegionPrices prices = prices_for(planned.target, options);
  std::optional<Partition> known;
  if (!planned.place.is_gpu() || options.products != ProductChoice::Library) {
    known = take_in_products(planned, options, partitioning, prices, library_products);
  }
  const Graph& graph = planned.graph;
  const Trace trace = Trace(options.dump, options.dump_dir).within(graph.name);
  trace.write(DumpStage::Graph, [&] { return to_text(graph); });

  planned.partition = planned.times.measure(
      "partition", [&] { return known ? *std::move(known) : partition(graph, partitioning, prices); });
  trace.write(DumpStage::Partition, [&] { return to_text(planned.partition, graph); });
  planned.distinct = planned.times.measure(
      "distinct", [&] { return find_distinct_regions(graph, planned.partition, options.pins); });

  for (size_t r = 0; r < planned.distinct.representative.size(); ++r) {
    const Region& region = planned.partition.regions[size_t(planned.distinct.representative[r])];
    LoweringOptions lowering = lowering_options(options, region.name);
    lowering.choose = choose;
    planned.regions.push_back(
        lower_region(graph, region, placed_hash(planned.distinct.hash[r], planned.place), planned.target,
                     lowering, trace.within("region_" + std::to_string(r)), planned.times));
  }
  planned.times.measure("explain", [&] { compare_with_operators(planned, options, prices); });
  for (const std::string& fault : prices.faults()) planned.faults.insert(not_weighed(fault));
  return planned;
}

// A region that was lowered and could not be built.
void refuse(Planned& planned, size_t region, const std::string& reason) {
  LoweredRegion& lowered = planned.regions[region];
  const int representative = planned.distinct.representative[region];
  lowered.is_fault = true;
  lowered.compiled.refusal = reason;
  lowered.compiled.fallback =
      to_text(region_graph(planned.graph, planned.partition.regions[size_t(representative)]));
}

// Compiles what was lowered; a region whose source does not build is refused from here on.
std::vector<std::optional<Module>> build_regions(Planned& planned, const CompileOptions& options,
                                                 const Toolchain& toolchain, KernelCache& cache,
                                                 const BuildProgress& progress) {
  std::vector<std::string> sources;
  std::vector<size_t> region_of;
  for (size_t r = 0; r < planned.regions.size(); ++r) {
    if (!planned.regions[r].compiled.refusal.empty()) continue;
    sources.push_back(planned.regions[r].compiled.program.source);
    region_of.push_back(r);
  }
  const BuildOptions build{.eager_numerics = options.eager_numerics, .together = true};
  const int jobs = int(std::max(1U, std::thread::hardware_concurrency()));
  const auto built = planned.times.measure(
      "build", [&] { return build_all(sources, toolchain, build, cache, jobs, progress); });
  std::vector<std::optional<Module>> modules(planned.regions.size());
  for (size_t i = 0; i < built.size(); ++i) {
    if (built[i]) {
      modules[region_of[i]] = *built[i];
      continue;
    }
    refuse(planned, region_of[i], built[i].unsupported().reason);
  }
  return modules;
}

// The same for a GPU.
std::vector<std::optional<GpuKernels>> build_gpu_regions(Planned& planned, const CompileOptions& options,
                                                         const FoundGpu& gpu, KernelCache& cache) {
  std::vector<std::optional<GpuKernels>> kernels(planned.regions.size());
  planned.times.measure("build", [&] {
    for (size_t r = 0; r < planned.regions.size(); ++r) {
      const CompiledRegion& region = planned.regions[r].compiled;
      if (!region.refusal.empty()) continue;
      auto built = build_gpu(region.program, gpu, {options.eager_numerics}, cache);
      if (!built) {
        refuse(planned, r, built.unsupported().reason);
      } else {
        kernels[r] = *std::move(built);
      }
    }
  });
  return kernels;
}

std::string cannot_be_compiled(const CompiledRegion& region) {
  return "region " + region.name + " cannot be compiled: " + region.refusal;
}

std::string line_of_fault(const LoweredRegion& region) {
  return "a region runs with the framework's operators: " + region.compiled.refusal;
}

// The products in refused regions: elementwise operators of the framework would make each with all its terms
// in memory, so the library is to make them.
std::set<NodeId> refused_products(const Planned& planned) {
  std::set<NodeId> calls;
  for (size_t p = 0; p < planned.partition.regions.size(); ++p) {
    const LoweredRegion& region = planned.regions[size_t(planned.distinct.region_of[p])];
    if (region.compiled.refusal.empty()) continue;
    if (planned.product_of.empty()) continue;
    for (const NodeId node : planned.partition.regions[p].nodes) {
      if (const auto& call = planned.product_of[node.index]) calls.insert(*call);
    }
  }
  return calls;
}

// Of regions that the next attempt will not have. In strict mode they are an error.
void keep_unmet_pins(const Planned& planned, const CompileOptions& options,
                     std::map<std::string, std::string>& unmet) {
  for (const LoweredRegion& region : planned.regions) {
    const CompiledRegion& compiled = region.compiled;
    if (compiled.refusal.empty() || region.is_fault || !options.pins.contains(compiled.name)) continue;
    if (options.strict) throw UserError(cannot_be_compiled(compiled));
    unmet.emplace(compiled.name, compiled.refusal);
  }
}

// Plans and builds; again, where regions with products are refused, without those products, and if that was
// not enough with none.
Planned plan_and_build(const Graph& graph, const KernelTarget& target, CompileOptions options,
                       const ChooseSchedule& choose, StageTimes times,
                       const std::function<void(Planned&)>& build) {
  std::set<NodeId> library_products;
  std::set<std::string> faults;
  std::map<std::string, std::string> unmet_pins;
  for (;;) {
    Planned planned = plan_regions(graph, target, options, choose, std::move(times), library_products);
    build(planned);
    const std::set<NodeId> refused = refused_products(planned);
    faults.merge(planned.faults);
    if (refused.empty()) {
      planned.faults = std::move(faults);
      planned.unmet_pins = std::move(unmet_pins);
      return planned;
    }
    keep_unmet_pins(planned, options, unmet_pins);
    for (const LoweredRegion& region : planned.regions) {
      if (region.is_fault) faults.insert(line_of_fault(region));
    }
    if (!library_products.empty()) options.products = ProductChoice::Library;
    library_products.insert(refused.begin(), refused.end());
    times = std::move(planned.times);
  }
}

Executable plan_executable(Planned& planned, const Framework& framework) {
  std::vector<CompiledRegion> regions;
  regions.reserve(planned.regions.size());
  for (const LoweredRegion& lowered : planned.regions) regions.push_back(lowered.compiled);
  return planned.times.measure("plan", [&] {
    return plan(planned.graph, planned.partition, std::move(regions), planned.distinct.region_of,
                framework.facts, planned.place);
  });
}

std::string report_of(const Planned& planned, const Executable& executable, const CompileOptions& options) {
  return report_json({planned.graph, planned.partition, planned.distinct, planned.regions, executable,
                      planned.times, name_of(planned.target), options.threads, options.hints,
                      planned.faults});
}

// One line for each fault. In strict mode every refusal is an error.
std::vector<std::string> warnings_of(const Planned& planned, bool strict) {
  std::set<std::string> lines = planned.faults;
  for (const LoweredRegion& region : planned.regions) {
    const std::string& refusal = region.compiled.refusal;
    if (strict && !refusal.empty()) {
      throw UserError(cannot_be_compiled(region.compiled));
    }
    if (region.is_fault) lines.insert(line_of_fault(region));
  }
  return {lines.begin(), lines.end()};
}

// Each returns false where the cache has not, and the compiler does not make, all modules of a plan.
bool load_modules(const Executable& executable, const CompileOptions& options, const Toolchain& toolchain,
                  KernelCache& cache, CompiledGraph& compiled) {
  for (const CompiledRegion& region : executable.regions) {
    compiled.modules.emplace_back();
    if (!region.refusal.empty()) continue;
    auto module = build(region.program.source, toolchain, {.eager_numerics = options.eager_numerics}, cache);
    if (!module) return false;
    compiled.modules.back() = *std::move(module);
  }
  return true;
}

bool load_gpu_kernels(const Executable& executable, const CompileOptions& options, const FoundGpu& gpu,
                      KernelCache& cache, CompiledGraph& compiled) {
  if (gpu.target.architecture != executable.place.architecture) return false;
  for (const CompiledRegion& region : executable.regions) {
    compiled.gpu_kernels.emplace_back();
    if (!region.refusal.empty()) continue;
    auto kernels = build_gpu(region.program, gpu, {options.eager_numerics}, cache);
    if (!kernels) return false;
    compiled.gpu_kernels.back() = *std::move(kernels);
  }
  if (!gpu.note.empty()) compiled.notes.push_back(gpu.note);
  return true;
}

void finish(Planned& planned, const CompileOptions& options, const Framework& framework,
            CompiledGraph& compiled) {
  compiled.executable = plan_executable(planned, framework);
  compiled.report = report_of(planned, compiled.executable, options);
  compiled.warnings = warnings_of(planned, options.strict);
  for (const auto& [region, conflict] : planned.unmet_pins) {
    compiled.unmet_pins.push_back(region);
    std::string note = "the pins of region " + region;
    note.append(" cannot be met, so that the library makes its products: ").append(conflict);
    compiled.notes.push_back(std::move(note));
  }
}

// A plan from the cache and its modules.
std::optional<CompiledGraph> load_compiled(const std::string& key, const CompileOptions& options,
                                           const ToolchainRequest& tools, KernelCache& cache) {
  auto cached = load_plan(cache, key);
  if (!cached) return std::nullopt;
  const auto& regions = cached->executable.regions;
  const bool is_refused = std::any_of(regions.begin(), regions.end(),
                                      [](const CompiledRegion& region) { return !region.refusal.empty(); });
  if (is_refused && options.strict) return std::nullopt;  // what is wrong is found anew
  CompiledGraph compiled;
  if (const auto request = gpu_request(cached->executable.place.device, options)) {
    const Result<FoundGpu> gpu = find_gpu(*request);
    if (!gpu || !load_gpu_kernels(cached->executable, options, *gpu, cache, compiled)) return std::nullopt;
  } else {
    const auto toolchain = find_toolchain(tools, cache);
    if (!toolchain || !load_modules(cached->executable, options, *toolchain, cache, compiled))
      return std::nullopt;
  }
  compiled.key = key;
  compiled.executable = std::move(cached->executable);
  compiled.report = std::move(cached->report);
  compiled.cached = true;
  return compiled;
}

// A pin is asked for by hand: what it costs to ask for too much is said.
void note_refused_pins(const CompileOptions& options, CompiledGraph& compiled) {
  for (const CompiledRegion& region : compiled.executable.regions) {
    if (region.refusal.empty() || !options.pins.contains(region.name)) continue;
    compiled.notes.push_back(
        "the pins of region " + region.name +
        " cannot be met, so that it runs with the framework's operators: " + region.refusal);
  }
}

}  // namespace

std::string plan_key(std::string_view graph_json, const CompileOptions& options, const Framework& framework) {
  const std::string target = options.target.empty() ? host_target_name() : options.target;
  return to_text(hash_bytes(std::string(graph_json) + '\0' + cache_key_text(options) + '\0' +
                            target_identity(target) + '\0' + framework.identity + '\0' + library_identity()));
}

CompiledGraph compile_graph(const Graph& graph, const CompileOptions& options, const Framework& framework,
                            const Toolchain& toolchain, KernelCache& cache, const BuildProgress& progress,
                            StageTimes times) {
  ChooseSchedule choose;
  if (options.tune > 1) {
    const TuneOptions tune{options.tune, options.threads, options.eager_numerics, options.hints};
    choose = choose_by_timing(tune, toolchain, cache);
  }
  CompiledGraph compiled;
  const KernelTarget target = processor_for(options);
  Planned planned = plan_and_build(graph, target, options, choose, std::move(times), [&](Planned& planned) {
    compiled.modules = build_regions(planned, options, toolchain, cache, progress);
  });
  finish(planned, options, framework, compiled);
  return compiled;
}

CompiledGraph compile_gpu_graph(const Graph& graph, const CompileOptions& options, const Framework& framework,
                                const FoundGpu& gpu, KernelCache& cache, StageTimes times) {
  CompiledGraph compiled;
  const GpuTarget target = gpu_for(gpu.target, options);
  Planned planned = plan_and_build(graph, target, options, {}, std::move(times), [&](Planned& planned) {
    compiled.gpu_kernels = build_gpu_regions(planned, options, gpu, cache);
  });
  finish(planned, options, framework, compiled);
  if (!gpu.note.empty()) compiled.notes.push_back(gpu.note);
  return compiled;
}

Result<CompiledGraph> compile_captured(std::string_view graph_json, CompileOptions options,
                                       const Framework& framework, const BuildProgress& progress) {
  KernelCache cache(options.cache_dir.empty() ? default_cache_directory() : options.cache_dir,
                    options.cache_limit_mb << 20);
  const ToolchainRequest tools{options.cxx, options.search_path, options.python};
  const std::string key = plan_key(graph_json, options, framework);
  if (options.dump.empty()) {
    if (auto cached = load_compiled(key, options, tools, cache)) {
      note_refused_pins(options, *cached);
      return *std::move(cached);
    }
  }
  Trace(options.dump, options.dump_dir).write(DumpStage::Capture, [&] { return std::string(graph_json); });
  StageTimes times;
  auto graph = times.measure("import", [&] { return import_graph(graph_json); });
  if (!graph) return graph.unsupported();
  options.hints = captured_size_hints(graph_json);
  CompiledGraph compiled;
  if (const auto request = gpu_request(graph->device, options)) {
    const Result<FoundGpu> gpu = find_gpu(*request);
    if (!gpu) return gpu.unsupported();
    compiled = compile_gpu_graph(*graph, options, framework, *gpu, cache, std::move(times));
  } else {
    const auto toolchain = find_toolchain(tools, cache);
    if (!toolchain) return toolchain.unsupported();
    compiled = compile_graph(*graph, options, framework, *toolchain, cache, progress, std::move(times));
  }
  note_refused_pins(options, compiled);
  compiled.key = key;
  compiled.cache_refusal = cache.refusal();
  if (compiled.warnings.empty() && compiled.unmet_pins.empty())
    store_plan(cache, key, compiled.executable, compiled.report);
  return compiled;
}

PlannedGraph plan_graph(const Graph& graph, const CompileOptions& options, const Framework& framework) {
  return plan_graph(graph, target_to_plan_for(graph.device, options), options, framework);
}

PlannedGraph plan_graph(const Graph& graph, const KernelTarget& target, const CompileOptions& options,
                        const Framework& framework) {
  Planned planned = plan_and_build(graph, target, options, {}, {}, [](Planned&) {});
  PlannedGraph result;
  result.executable = plan_executable(planned, framework);
  result.report = report_of(planned, result.executable, options);
  result.warnings = warnings_of(planned, options.strict);
  for (const int representative : planned.distinct.representative) {
    result.region_graphs.push_back(
        region_graph(planned.graph, planned.partition.regions[size_t(representative)]));
  }
  result.regions = std::move(planned.regions);
  result.target = std::move(planned.target);
  return result;
}

std::vector<LoweredRegion> lower_for(const KernelTarget& target, const PlannedGraph& planned,
                                     const CompileOptions& options) {
  std::vector<LoweredRegion> regions;
  StageTimes times;
  for (size_t r = 0; r < planned.regions.size(); ++r) {
    const CompiledRegion& known = planned.regions[r].compiled;
    RegionNodes nodes = whole_graph_region(planned.region_graphs[r]);
    nodes.name = known.name;
    regions.push_back(lower_region(planned.region_graphs[r], nodes, known.hash, target,
                                   lowering_options(options, known.name), {}, times));
  }
  return regions;
}

Result<std::string> explain_captured(std::string_view graph_json, CompileOptions options,
                                     const Framework& framework) {
  options.hints = captured_size_hints(graph_json);
  auto graph = import_graph(graph_json);
  if (!graph) return graph.unsupported();
  return plan_graph(*graph, options, framework).report;
}

}  // namespace tilefuse
