#include "codegen/lower_gpu_region.h"

#include <algorithm>
#include <map>

#include "codegen/emit.h"
#include "codegen/lower_to_gpu_chain.h"
#include "codegen/lower_to_gpu_product.h"
#include "core/faults.h"
#include "core/match.h"
#include "fusion/region_graph.h"

namespace tilefuse {
namespace {

Expr elements_of(const Buffer& buffer) {
  Expr elements(1);
  for (const Expr& extent : buffer.shape) elements = elements * extent;
  return elements;
}

void add_sizes(const std::vector<Expr>& sizes, RegionProgram& program) {
  for (const Expr& size : sizes) {
    if (std::find(program.sizes.begin(), program.sizes.end(), size) == program.sizes.end())
      program.sizes.push_back(size);
  }
}

void run_stages(LoweredRegion& lowered, const Graph& graph, const RegionNodes& region,
                const GpuTarget& target, const LoweringOptions& options, const Trace& trace,
                StageTimes& times) {
  const auto tiles =
      times.measure("tiles", [&] { return lower_to_tiles(graph, region, {options.eager_numerics}); });
  if (!tiles) {
    lowered.compiled.refusal = tiles.unsupported().reason;
    return;
  }
  lowered.tiles = to_text(*tiles);
  trace.write(DumpStage::Tiles, [&] { return lowered.tiles; });

  const auto plan =
      times.measure("solve", [&] { return plan_gpu(*tiles, target, options.pins, options.hints); });
  if (!plan) {
    lowered.compiled.refusal = plan.unsupported().reason;
    return;
  }
  for (const GpuNest& nest : plan->nests) {
    lowered.schedule += to_text(nest);
    const std::vector<CostTerm>& cost = cost_of(nest.schedule);
    lowered.cost.insert(lowered.cost.end(), cost.begin(), cost.end());
  }
  lowered.predicted_us = plan->cost_us;
  trace.write(DumpStage::Schedule, [&] { return lowered.schedule; });

  auto program = times.measure("kernel", [&] { return gpu_program(*tiles, *plan); });
  if (!program) {
    lowered.compiled.refusal = program.unsupported().reason;
    return;
  }
  lowered.compiled.program = *std::move(program);
  trace.write(DumpStage::Source, [&] { return source_of(lowered.compiled.program); });
}

}  // namespace

Result<GpuProgram> lower_to_gpu_kernel(const GpuNest& nest) {
  return match(
      nest.schedule,
      [&](const GpuSchedule& rows) -> Result<GpuProgram> {
        const Result<GpuRegion> region = analyze_gpu_region(nest.graph, rows.lanes);
        if (!region) return region.unsupported();
        return lower_to_gpu_kernel(nest.graph, *region, rows);
      },
      [&](const GpuProductSchedule& schedule) -> Result<GpuProgram> {
        const Result<GpuProduct> product = analyze_gpu_product(nest.graph, schedule.numbers);
        if (!product) return product.unsupported();
        return lower_to_gpu_product(nest.graph, *product, schedule);
      },
      [&](const GpuChainSchedule& schedule) -> Result<GpuProgram> {
        const Result<GpuChain> chain = analyze_gpu_chain(nest.graph);
        if (!chain) return chain.unsupported();
        return lower_to_gpu_chain(nest.graph, *chain, schedule);
      });
}

Result<RegionProgram> gpu_program(const TileGraph& graph, const GpuPlan& plan) {
  RegionProgram program;
  program.name = graph.name;
  std::map<std::string, int> places;
  for (const Buffer& buffer : graph.buffers) places.emplace(buffer.name, static_cast<int>(places.size()));
  for (const GpuNest& nest : plan.nests) {
    const Result<GpuProgram> kernel = lower_to_gpu_kernel(nest);
    if (!kernel) return kernel.unsupported();
    GpuStep step{kernel->launch.symbol,       emit({kernel->kernel}, cuda_dialect()),
                 kernel->launch.blocks,       kernel->launch.threads,
                 kernel->launch.shared_bytes, {},
                 kernel->launch.sizes,        kernel->launch.tensor_maps};
    for (const Buffer& buffer : nest.graph.buffers) {
      const auto [place, is_new] = places.emplace(buffer.name, static_cast<int>(places.size()));
      if (is_new) program.workspaces.push_back({buffer.dtype, elements_of(buffer)});
      step.buffers.push_back(place->second);
    }
    add_sizes(step.sizes, program);
    program.gpu.push_back(std::move(step));
  }
  return program;
}

LoweredRegion lower_gpu_region(const Graph& graph, const RegionNodes& region, const std::string& hash,
                               const GpuTarget& target, const LoweringOptions& options, const Trace& trace,
                               StageTimes& times) {
  LoweredRegion lowered = named_region(graph, region, hash);
  lowered.compiled.fallback = to_text(region_graph(graph, region));
  const Result<bool> ran = unless_faulty([&] {
    run_stages(lowered, graph, region, target, options, trace, times);
    return true;
  });
  if (!ran) lowered.compiled.refusal = ran.unsupported().reason;
  lowered.is_fault = !ran;
  return lowered;
}

}  // namespace tilefuse
