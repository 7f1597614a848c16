#include "codegen/lower_region.h"

#include "codegen/emit.h"
#include "codegen/lower_to_kernel.h"
#include "codegen/plan.h"
#include "core/faults.h"
#include "fusion/check_schedule.h"
#include "fusion/region_graph.h"

namespace tilefuse {
namespace {

std::vector<TensorSpec> specs_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<TensorSpec> specs;
  specs.reserve(values.size());
  for (ValueId value : values) specs.push_back(spec_of(graph, value));
  return specs;
}

void refuse(LoweredRegion& lowered, const Graph& graph, const RegionNodes& region, std::string reason) {
  lowered.compiled.refusal = std::move(reason);
  lowered.compiled.fallback = to_text(region_graph(graph, region));
}

std::string constraints_dump(const TileGraph& tiles, const Target& target, const LoweringOptions& options) {
  const Result<std::string> text = constraints_text(tiles, target, options.pins, options.hints);
  return text ? *text : "unsupported: " + text.unsupported().reason + "\n";
}

// Absent: none was given, or the target does not allow it. UserError: it is no schedule of the tile graph.
std::optional<Schedule> given_schedule(const TileGraph& tiles, const Target& target,
                                       const LoweringOptions& options) {
  if (options.schedule.empty()) return std::nullopt;
  Schedule schedule = parse_schedule(options.schedule, tiles);
  if (!check_schedule(tiles, schedule, &target).empty()) return std::nullopt;
  return schedule;
}

// The schedule to take, and what lowered says about it.
Result<Schedule> choose_schedule(LoweredRegion& lowered, const TileGraph& tiles, const Target& target,
                                 const LoweringOptions& options, StageTimes& times) {
  if (auto given = given_schedule(tiles, target, options)) return *std::move(given);
  const auto solution = times.measure(
      "solve", [&] { return solve(tiles, target, options.pins, options.solve, options.hints); });
  if (!solution) return solution.unsupported();
  if (options.choose) {
    lowered.choice = times.measure("tune", [&] { return options.choose(tiles, solution->ranked); });
  }
  return solution->ranked[lowered.choice.index];
}

void run_stages(LoweredRegion& lowered, const Graph& graph, const RegionNodes& region, const Target& target,
                const LoweringOptions& options, const Trace& trace, StageTimes& times) {
  const auto tiles =
      times.measure("tiles", [&] { return lower_to_tiles(graph, region, {options.eager_numerics}); });
  if (!tiles) {
    refuse(lowered, graph, region, tiles.unsupported().reason);
    return;
  }
  lowered.tiles = to_text(*tiles);
  trace.write(DumpStage::Tiles, [&] { return lowered.tiles; });
  trace.write(DumpStage::Constraints, [&] { return constraints_dump(*tiles, target, options); });

  const Result<Schedule> chosen = choose_schedule(lowered, *tiles, target, options, times);
  if (!chosen) {
    refuse(lowered, graph, region, chosen.unsupported().reason);
    return;
  }
  const Schedule& schedule = *chosen;
  lowered.schedule = to_text(schedule, *tiles);
  lowered.cost = schedule.cost;
  lowered.predicted_us = schedule.cost_us;
  trace.write(DumpStage::Schedule, [&] { return lowered.schedule; });

  KernelProgram program = times.measure("kernel", [&] { return lower_to_kernel(*tiles, schedule); });
  trace.write(DumpStage::Kernel, [&] {
    std::string text;
    for (const Kernel& kernel : program.kernels) text += to_text(kernel);
    return text;
  });
  lowered.compiled.program = std::move(program.launches);
  lowered.compiled.program.source =
      times.measure("emit", [&] { return emit(program.kernels, cpu_dialect()); });
  trace.write(DumpStage::Source, [&] { return lowered.compiled.program.source; });
}

}  // namespace

std::string source_of(const RegionProgram& program) {
  std::string source = program.source;
  for (const GpuStep& step : program.gpu) source += step.source;
  return source;
}

LoweredRegion named_region(const Graph& graph, const RegionNodes& region, const std::string& hash) {
  LoweredRegion lowered;
  lowered.compiled.name = region.name;
  lowered.compiled.hash = hash;
  lowered.compiled.inputs = specs_of(graph, region.inputs);
  lowered.compiled.outputs = specs_of(graph, region.outputs);
  return lowered;
}

LoweredRegion lower_region(const Graph& graph, const RegionNodes& region, const std::string& hash,
                           const Target& target, const LoweringOptions& options, const Trace& trace,
                           StageTimes& times) {
  LoweredRegion lowered = named_region(graph, region, hash);
  const Result<bool> ran = unless_faulty([&] {
    run_stages(lowered, graph, region, target, options, trace, times);
    return true;
  });
  if (!ran) refuse(lowered, graph, region, ran.unsupported().reason);
  lowered.is_fault = !ran;
  return lowered;
}

}  // namespace tilefuse
