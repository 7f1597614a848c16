#include "fusion/online_walk.h"

#include <algorithm>
#include <cmath>

namespace tilefuse {
namespace {

// A block is no longer than what is fetched ahead while the block before is worked on: 2 to 4 KiB were
// fastest of 2 to 16, in rows from memory.
constexpr double kBlockBytes = 4096;
constexpr double kLongestChain = 128;  // steps of a block: f32 sums of so many are as good as exact ones

std::optional<std::string> why_not_walked(const TileGraph& graph, const Structure& structure) {
  if (structure.passes <= 1) return "there is one pass already";
  if (scatters(graph)) return "a scatter writes element after element";
  for (const TileValueId id : structure.reductions) {
    const TileValue& value = graph[id];
    if (!std::holds_alternative<TileReduce>(value.op)) return "%" + value.name + " is a scan";
    if (!folds_floats(value)) return "%" + value.name + " is no sum or extreme of floats";
  }
  for (const AxisId axis : structure.reduced) {
    if (bounds(graph[axis].extent).low < 1) return graph[axis].name + " may be empty";
  }
  return std::nullopt;
}

// Levels with every reduction in its derived pass.
Structure nest_of(const TileGraph& graph, const Structure& plain, const OnlineReductions& derived) {
  Structure nest = plain;
  std::vector<int> own(graph.values.size(), -1);
  for (size_t pass = 0; pass < derived.passes.size(); ++pass) {
    for (const OnlineStage& stage : derived.passes[pass].stages) {
      own[stage.reduction.index] = static_cast<int>(pass);
    }
  }
  nest.passes = static_cast<int>(derived.passes.size());
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    int level = 0;
    for (const TileValueId operand : operands_of(graph.values[v])) {
      level = std::max(level, nest.level[operand.index] + (own[operand.index] >= 0 ? 1 : 0));
    }
    nest.level[v] = own[v] >= 0 ? own[v] : level;
  }
  for (const TileStore& store : graph.stores) {
    if (nest.stores_in_pass(store)) nest.passes = std::max(nest.passes, nest.pass_of(graph, store) + 1);
  }
  return nest;
}

std::vector<int> joins_of(const TileGraph& graph, const Structure& plain, const Structure& nest) {
  std::vector<int> joins(static_cast<size_t>(plain.passes), nest.passes - 1);
  for (const TileValueId id : plain.reductions) {
    int& pass = joins[static_cast<size_t>(plain.level[id.index])];
    pass = std::min(pass, nest.level[id.index]);
  }
  for (const TileStore& store : graph.stores) {
    if (!plain.stores_in_pass(store)) continue;
    int& pass = joins[static_cast<size_t>(plain.pass_of(graph, store))];
    pass = std::min(pass, nest.pass_of(graph, store));
  }
  return joins;
}

std::string refusals_text(const TileGraph& graph, const OnlineReductions& derived) {
  for (const OnlinePass& pass : derived.passes) {
    for (const OnlineRefusal& refusal : pass.refused) {
      return "%" + graph[refusal.reduction].name + " cannot join an earlier pass: " + refusal.detail;
    }
  }
  return "no pass joins another";
}

std::string anchor_text(const OnlineReductions& derived, const TileGraph& graph, const OnlinePass& pass,
                        size_t number) {
  return "; a" + std::to_string(number) + " ~ " +
         derived.formulas.to_text(graph, pass.anchors[number].target);
}

std::string state_text(const OnlineReductions& derived, const TileGraph& graph, const OnlinePass& pass,
                       size_t number) {
  const OnlineState& state = pass.states[number];
  const std::string name = "s" + std::to_string(number);
  const std::string element =
      std::string(info(state.kind).name) + " " + derived.formulas.to_text(graph, state.element);
  if (derived.formulas[state.moved].op == FormulaOp::State) return "; " + name + " = " + element;
  return "; " + name + " <- " + derived.formulas.to_text(graph, state.moved) + " + " + element;
}

}  // namespace

bool folds_floats(const TileValue& reduction) {
  const auto* reduce = std::get_if<TileReduce>(&reduction.op);
  if (reduce == nullptr || !is_float(reduction.dtype)) return false;
  return reduce->kind == ReduceKind::Sum || reduce->kind == ReduceKind::Prod ||
         reduce->kind == ReduceKind::Max || reduce->kind == ReduceKind::Min;
}

Result<OnlineWalk> plan_online_walk(const TileGraph& graph, const Structure& structure) {
  if (auto why = why_not_walked(graph, structure)) return Unsupported{*std::move(why)};
  OnlineWalk walk{derive_online(graph, structure), {}, {}, 0, false};
  walk.structure = nest_of(graph, structure, walk.derived);
  if (walk.structure.passes >= structure.passes) return Unsupported{refusals_text(graph, walk.derived)};
  walk.joins = joins_of(graph, structure, walk.structure);
  for (const OnlinePass& pass : walk.derived.passes) {
    walk.carried += pass.states.size() + pass.anchors.size();
  }
  walk.can_split = walk.derived.passes.size() == 1;
  return walk;
}

std::vector<AxisId> reduced_loop_order(const Structure& structure, const Schedule& schedule) {
  std::vector<AxisId> order = structure.reduced;
  std::stable_partition(order.begin(), order.end(), [&](AxisId axis) { return axis != schedule.lane_axis; });
  return order;
}

AxisTile online_block(const TileGraph& graph, const Structure& structure, const std::vector<double>& extent,
                      const Schedule& schedule, int64_t l1_bytes) {
  const std::vector<AxisId> order = reduced_loop_order(structure, schedule);
  const bool lanes_are_reduced = schedule.lane_axis && structure.is_reduced(*schedule.lane_axis);
  const double vectors = double(schedule.lanes) * schedule.unroll;
  double bytes = 0;
  for (const TileValue& value : graph.values) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    const bool walks = load != nullptr && std::any_of(value.axes.begin(), value.axes.end(), [&](AxisId axis) {
                         return structure.is_reduced(axis);
                       });
    if (walks) bytes += size_in_bytes(value.dtype);
  }
  const double budget = std::min(double(l1_bytes) / 2, kBlockBytes) / std::max(1.0, bytes);
  double inner = schedule.lane_axis && !lanes_are_reduced ? vectors : 1;
  for (size_t i = order.size(); i-- > 0;) {
    const AxisId axis = order[i];
    if (i > 0 && inner * extent[axis.index] <= budget) {
      inner *= extent[axis.index];
      continue;
    }
    const double step = axis == schedule.lane_axis ? vectors : 1;
    const double steps = std::clamp(std::floor(budget / inner / step), 1.0, kLongestChain);
    return {axis, static_cast<int64_t>(steps * step)};
  }
  return {};
}

std::string carried_text(const OnlineReductions& derived, const TileGraph& graph) {
  std::string text;
  for (const OnlinePass& pass : derived.passes) {
    std::string values, carried;
    for (const OnlineStage& stage : pass.stages) {
      values += (values.empty() ? "%" : "; %") + graph[stage.reduction].name + " = " +
                derived.formulas.to_text(graph, stage.final);
    }
    for (size_t i = 0; i < pass.states.size(); ++i) carried += state_text(derived, graph, pass, i);
    for (size_t i = 0; i < pass.anchors.size(); ++i) carried += anchor_text(derived, graph, pass, i);
    if (!text.empty()) text += "; then ";
    text.append(values).append(carried);
  }
  return text;
}

}  // namespace tilefuse
