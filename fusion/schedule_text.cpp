#include <algorithm>
#include <array>
#include <sstream>

#include "core/result.h"
#include "fusion/chain.h"
#include "fusion/cost_text.h"
#include "fusion/launches.h"
#include "fusion/matrix_tiles.h"
#include "fusion/online_walk.h"
#include "fusion/panels.h"
#include "fusion/schedule.h"

namespace tilefuse {
namespace {

std::string lanes_text(const Schedule& schedule, const TileGraph& graph) {
  if (!schedule.lane_axis) return "1";
  std::string text = graph[*schedule.lane_axis].name + " = " + std::to_string(schedule.lanes);
  const Result<Structure> structure = analyze_structure(graph);
  const bool along_sum = structure && structure->is_reduced(*schedule.lane_axis);
  if (along_sum && walks_dots(graph, *structure, schedule)) {
    text += " in " + std::string(info(schedule.dots).name);
  }
  if (schedule.unroll > 1) text += ", unroll " + std::to_string(schedule.unroll);
  return text;
}

std::string grid_text(const Schedule& schedule, const TileGraph& graph) {
  std::string text;
  for (const AxisTile& tile : schedule.grid) {
    if (!text.empty()) text += ", ";
    text += graph[tile.axis].name + " = ";
    text += tile.tile == 0 ? std::string("all") : std::to_string(tile.tile);
  }
  return text.empty() ? "none" : text;
}

std::string rows_text(const Schedule& schedule) {
  const std::string rows = std::to_string(schedule.rows);
  return schedule.columns > 1 ? rows + " x " + std::to_string(schedule.columns) : rows;
}

std::string walk_text(const Schedule& schedule, const TileGraph& graph) {
  std::string text(walk_name(schedule.walk));
  if (schedule.block) {
    text += "; block " + graph[schedule.block->axis].name + " = " + std::to_string(schedule.block->tile);
  }
  for (size_t i = 0; i < schedule.keep.size(); ++i) {
    text += (i == 0 ? "; keep %" : ", %") + graph[schedule.keep[i]].name;
  }
  if (schedule.accumulate_in_scratch) text += "; accumulate in scratch";
  return text;
}

// What the walk carries, derived anew: a schedule says where, the algebra what.
std::string carries_text(const Schedule& schedule, const TileGraph& graph) {
  if (!schedule.nests.empty()) {
    const Result<ChainAxes> axes = find_chain_axes(graph);
    return axes && axes->derived ? carried_text(*axes->derived, graph) : "nothing";
  }
  const Result<Structure> structure = analyze_structure(graph);
  return structure ? carried_text(derive_online(graph, *structure), graph) : "nothing";
}

// Of a chain, whose nests stage.
std::string left_to_nests(const Schedule& schedule, const TileGraph& graph) {
  bool leaves = false;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    leaves |= dots_of_sum(graph, TileValueId{v}) == schedule.dots;
  }
  return leaves && schedule.dots != DotKind::None ? "in " + std::string(info(schedule.dots).name) : "none";
}

std::string stage_text(const Schedule& schedule, const TileGraph& graph) {
  if (!schedule.nests.empty()) return left_to_nests(schedule, graph);
  std::string text;
  const Result<Structure> structure = analyze_structure(graph);
  const bool in_dots = structure && walks_dots(graph, *structure, schedule);
  for (const StagedLoad& staged : schedule.staged) {
    if (!text.empty()) text += ", ";
    text += "%" + graph[staged.load].name + " along " + graph[staged.contiguous].name;
    if (in_dots) text += takes_tile_rows(schedule.rows) ? " in tiles of " : " in ";
    if (in_dots) text += info(schedule.dots).name;
    if (structure && is_packed_once(graph, *structure, staged.load)) text += " packed once";
  }
  return text.empty() ? "none" : text;
}

std::string stores_text(const Schedule& schedule, const TileGraph& graph) {
  if (!schedule.ahead.empty() && schedule.ahead == stored_outputs(graph)) return "ahead";
  std::string text;
  const auto add = [&](const std::vector<BufferId>& buffers, const std::string& how) {
    for (BufferId buffer : buffers) {
      if (!text.empty()) text += ", ";
      text += "%" + graph[buffer].name + ": " + how;
    }
  };
  add(schedule.streamed, "streamed");
  add(schedule.ahead, "ahead");
  return text.empty() ? "cached" : text;
}

Chain chain_of(const Schedule& schedule, const TileGraph& graph) {
  const Result<ChainAxes> axes = find_chain_axes(graph);
  TILEFUSE_CHECK(axes, axes.unsupported().reason);
  Result<Chain> chain = make_chain(graph, *axes, schedule);
  TILEFUSE_CHECK(chain, chain.unsupported().reason);
  return *std::move(chain);
}

std::string live_text(const LiveRange& live, const Axis& axis) {
  return axis.name + " from " + to_text(live.first) + " to " + to_text(live.end);
}

std::vector<TileGraph> launches_in(const TileGraph& graph) {
  Result<std::vector<TileGraph>> launches = launches_of(graph);
  TILEFUSE_CHECK(launches, launches.unsupported().reason);
  return *std::move(launches);
}

std::vector<TileGraph> nests_in(const Chain& chain) {
  std::vector<TileGraph> graphs;
  graphs.reserve(chain.nests.size());
  for (const ChainNest& nest : chain.nests) graphs.push_back(nest.graph);
  return graphs;
}

// Each a schedule of its own, of a graph that follows from the lines above.
std::string nests_text(const Schedule& schedule, const std::vector<TileGraph>& graphs) {
  std::string text;
  for (size_t n = 0; n < schedule.nests.size(); ++n) {
    std::istringstream lines(to_text(schedule.nests[n], graphs[n]));
    for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
  }
  return text;
}

}  // namespace

std::vector<BufferId> stored_outputs(const TileGraph& graph) {
  std::vector<BufferId> found;
  for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
    const bool is_stored = std::any_of(graph.stores.begin(), graph.stores.end(),
                                       [&](const TileStore& store) { return store.buffer.index == b; });
    if (graph.buffers[b].role == Buffer::Role::Output && is_stored) found.push_back(BufferId{b});
  }
  return found;
}

std::string_view walk_name(Walk walk) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "multi_pass", "resident", "online"};
  return kNames.at(static_cast<size_t>(walk));
}

bool is_staged(TileValueId load, const Schedule& schedule) {
  return std::any_of(schedule.staged.begin(), schedule.staged.end(),
                     [&](const StagedLoad& staged) { return staged.load == load; });
}

StorePath store_path(BufferId output, const Schedule& schedule) {
  const auto is_in = [&](const std::vector<BufferId>& buffers) {
    return std::find(buffers.begin(), buffers.end(), output) != buffers.end();
  };
  return is_in(schedule.streamed) ? StorePath::Streamed
         : is_in(schedule.ahead)  ? StorePath::Ahead
                                  : StorePath::Cached;
}

std::string to_text(const Schedule& schedule, const TileGraph& graph) {
  std::string text = "schedule " + schedule.tile_graph + " for " + schedule.target + " {\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    text.append("  ").append(key).append(9 - key.size(), ' ').append(value).append("\n");
  };
  line("lanes", lanes_text(schedule, graph));
  line("grid", grid_text(schedule, graph));
  std::optional<Chain> chain;
  if (!schedule.nests.empty() && !takes_launches(graph)) chain = chain_of(schedule, graph);
  line("walk", walk_text(schedule, graph));
  if (chain && chain->live) line("live", live_text(*chain->live, graph[schedule.block->axis]));
  if (schedule.walk == Walk::Online) line("carries", carries_text(schedule, graph));
  line("rows", rows_text(schedule));
  line("split", std::to_string(schedule.split));
  line("stage", stage_text(schedule, graph));
  line("stores", stores_text(schedule, graph));
  line("cost", cost_text(schedule.cost_us, schedule.cost));
  if (schedule.alone_us > 0) line("alone", cost_text(schedule.alone_us, {}));
  if (!schedule.nests.empty()) text += nests_text(schedule, chain ? nests_in(*chain) : launches_in(graph));
  return text + "}\n";
}

}  // namespace tilefuse
