#include "fusion/check_chain.h"

#include <algorithm>

#include "fusion/chain.h"
#include "fusion/check_schedule.h"

namespace tilefuse {
namespace {

using Findings = std::vector<std::string>;

// The lines that are about the task as a whole.
Findings check_task(const TileGraph& graph, const ChainAxes& axes, const Schedule& schedule) {
  Findings findings;
  const auto require = [&](bool condition, const char* finding) {
    if (!condition) findings.emplace_back(finding);
  };
  require(schedule.lanes == 1 && !schedule.lane_axis && schedule.unroll == 1,
          "lanes: those of a chain are decided nest by nest");
  require(schedule.rows == 1 && schedule.columns == 1 && schedule.keep.empty() && schedule.staged.empty() &&
              schedule.streamed.empty() && schedule.ahead.empty() && !schedule.accumulate_in_scratch,
          "rows: those of a chain are decided nest by nest");
  require(schedule.split == 1, "split: the nests of a chain are not split");
  std::vector<AxisId> grid;
  grid.reserve(schedule.grid.size());
  for (const AxisTile& tile : schedule.grid) grid.push_back(tile.axis);
  std::sort(grid.begin(), grid.end());
  require(grid == axes.shared, "grid: a chain has every axis there that all of its nests share, once");
  require(std::all_of(schedule.grid.begin(), schedule.grid.end(),
                      [](const AxisTile& tile) { return tile.tile >= 0; }),
          "grid: a tile is negative");
  require((schedule.walk == Walk::Online) == schedule.block.has_value(), "walk: an online walk has a block");
  require(schedule.walk == Walk::Online || schedule.walk == Walk::MultiPass,
          "walk: a chain is walked online or in passes");
  if (!schedule.block) return findings;
  require(schedule.block->tile >= 1, "walk: a block holds elements");
  if (schedule.block->axis != axes.walked) {
    findings.push_back("walk: " + graph[schedule.block->axis].name + " cannot be walked in blocks" +
                       (axes.why_not_online.empty() ? "" : ": " + axes.why_not_online));
  }
  return findings;
}

Findings check_nest(const TileGraph& graph, const Schedule& schedule, const Target* target) {
  Findings findings = check_schedule(graph, schedule, target);
  const bool is_whole = std::all_of(schedule.grid.begin(), schedule.grid.end(),
                                    [](const AxisTile& tile) { return tile.tile == 0; });
  if (!is_whole) findings.emplace_back("grid: a nest is not cut in tasks");
  if (schedule.split != 1) findings.emplace_back("split: a nest is not split");
  if (schedule.walk == Walk::Online) findings.emplace_back("walk: the nests of a chain are walked in passes");
  for (std::string& finding : findings) finding.insert(0, graph.name + ": ");
  return findings;
}

}  // namespace

std::vector<std::string> check_chain(const TileGraph& graph, const Schedule& schedule, const Target* target) {
  const Result<ChainAxes> axes = find_chain_axes(graph);
  if (!axes) return {"grid: " + axes.unsupported().reason};
  Findings findings = check_task(graph, *axes, schedule);
  if (!findings.empty()) return findings;
  const Result<Chain> chain = make_chain(graph, *axes, schedule);
  if (!chain) return {"walk: " + chain.unsupported().reason};
  if (chain->nests.size() != schedule.nests.size()) {
    return {"walk: the chain has " + std::to_string(chain->nests.size()) + " nests, not " +
            std::to_string(schedule.nests.size())};
  }
  if (target != nullptr && chain->scratch_bytes > target->l2_bytes / 2) {
    findings.push_back("grid: the tiles take " + std::to_string(chain->scratch_bytes) +
                       " bytes, more than half of L2 (" + std::to_string(target->l2_bytes / 2) + ")");
  }
  int lanes = 1;
  for (const Schedule& nest : schedule.nests) lanes = std::max(lanes, nest.lanes);
  for (const Schedule& nest : schedule.nests) {
    if (nest.lanes == 1 || nest.lanes == lanes) continue;
    findings.push_back("lanes: the nests of a chain have vectors of one length, not " +
                       std::to_string(nest.lanes) + " and " + std::to_string(lanes));
  }
  for (size_t n = 0; n < chain->nests.size(); ++n) {
    for (std::string& finding : check_nest(chain->nests[n].graph, schedule.nests[n], target)) {
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace tilefuse
