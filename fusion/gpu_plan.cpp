#include "fusion/gpu_plan.h"

#include <array>

#include "fusion/decision_variables.h"
#include "fusion/gpu_axes.h"
#include "fusion/gpu_split.h"

namespace tilefuse {
namespace {

constexpr std::array kParts = {1, 8, 32, 128, 512};

Result<GpuPlan> solve_nests(std::vector<TileGraph> graphs, const GpuTarget& target, const Pins& pins,
                            const SizeHints& hints) {
  GpuPlan plan;
  for (TileGraph& graph : graphs) {
    Result<GpuSchedule> schedule = solve_gpu(graph, target, pins, hints);
    if (!schedule) return schedule.unsupported();
    plan.cost_us += schedule->cost_us;
    plan.nests.push_back({std::move(graph), *std::move(schedule)});
  }
  return plan;
}

}  // namespace

Result<GpuPlan> plan_gpu(const TileGraph& graph, const GpuTarget& target, const Pins& pins,
                         const SizeHints& hints) {
  for (const Axis& axis : graph.axes) {
    if (!axis.extent.is_constant(0)) continue;
    return Unsupported{"cannot compute " + graph.name + " in a GPU kernel: its axis " + axis.name +
                       " has no elements"};
  }
  const TileGraph whole = merge_reduced_axes(graph);
  Pins others = pins;
  const auto pinned = others.decisions.extract("parts");
  std::optional<Result<GpuPlan>> best;
  for (const int parts : kParts) {
    if (!pinned.empty() && pinned.mapped() != std::to_string(parts)) continue;
    std::optional<std::vector<TileGraph>> graphs = {{whole}};
    if (parts > 1) graphs = split_reduction(whole, parts);
    if (!graphs) continue;
    Result<GpuPlan> plan = solve_nests(*std::move(graphs), target, others, hints);
    if (!best || (plan && (!*best || plan->cost_us < (*best)->cost_us))) best = std::move(plan);
  }
  if (!best)
    return Unsupported{"cannot reduce " + graph.name + " in parts as pinned: parts = " + pinned.mapped()};
  return *std::move(best);
}

}  // namespace tilefuse
