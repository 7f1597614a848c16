#include "fusion/scatter.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fusion/coalesce_axes.h"
#include "fusion/order_axes.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

// An offset as a number in a mixed base: a digit in [0, extent) counts `stride`.
struct Digit {
  Expr stride, extent;
  std::optional<AxisId> axis;  // absent: an index
};

// nullopt: the offset is no sum of multiples of axes.
std::optional<std::vector<Digit>> digits_of(const TileGraph& graph, const TileStore& store) {
  std::vector<Digit> digits;
  Expr rest = store.offset;
  for (const int index : indices_of(store.offset)) {
    const AxisId axis{static_cast<uint32_t>(index)};
    const auto affine = affine_in(rest, index);
    if (!affine || !indices_of(affine->coefficient).empty()) return std::nullopt;
    digits.push_back({affine->coefficient, graph[axis].extent, axis});
    rest = affine->rest;
  }
  for (const IndexTerm& term : store.scatter->at) digits.push_back({term.stride, term.extent, std::nullopt});
  std::erase_if(digits, [](const Digit& digit) { return digit.extent.is_constant(1); });
  return digits;
}

// Whether each digit can be read from the sum: it counts at least as much as those below it reach.
bool are_told_apart(std::vector<Digit> digits) {
  Expr reach = 1;
  while (!digits.empty()) {
    const auto lowest = std::find_if(digits.begin(), digits.end(), [&](const Digit& digit) {
      return std::all_of(digits.begin(), digits.end(), [&](const Digit& other) {
        return &other == &digit || proves_nonnegative(other.stride - digit.stride * digit.extent, {});
      });
    });
    if (lowest == digits.end() || !proves_nonnegative(lowest->stride - reach, {})) return false;
    reach = lowest->stride * lowest->extent;
    digits.erase(lowest);
  }
  return true;
}

std::vector<AxisId> meeting_axes(const TileGraph& graph, const TileStore& store) {
  std::vector<AxisId> meeting = store.scatter->over;
  const auto digits = digits_of(graph, store);
  if (!digits || !are_told_apart(*digits)) return meeting;
  for (const Digit& digit : *digits) {
    if (digit.axis) std::erase(meeting, *digit.axis);
  }
  std::erase_if(meeting, [&](AxisId axis) { return graph[axis].extent.is_constant(1); });
  return meeting;
}

// With Assign the last one stays.
std::optional<Unsupported> check_order(const TileGraph& graph, const TileStore& store) {
  if (!store.scatter || store.scatter->mode != ScatterMode::Assign) return std::nullopt;
  const std::vector<AxisId> meeting = meeting_axes(graph, store);
  const bool is_reduced = std::any_of(graph.values.begin(), graph.values.end(), [&](const TileValue& value) {
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    return reduce != nullptr && std::any_of(meeting.begin(), meeting.end(), [&](AxisId axis) {
             return std::binary_search(reduce->axes.begin(), reduce->axes.end(), axis);
           });
  });
  if (std::is_sorted(meeting.begin(), meeting.end()) && !is_reduced) return std::nullopt;
  return Unsupported{"cannot assign to %" + graph[store.buffer].name +
                     " in this region: it would be in another order than memory is walked"};
}

std::optional<Unsupported> check_before(const TileGraph& before) {
  for (const TileValue& value : before.values) {
    if (!std::holds_alternative<TileReduce>(value.op) && !std::holds_alternative<TileScan>(value.op))
      continue;
    return Unsupported{"cannot scatter into %" + before[before.stores[0].buffer].name + " in this region: %" +
                       value.name + ", which is there before, is reduced in it"};
  }
  return std::nullopt;
}

std::optional<Unsupported> check_launch(const TileGraph& launch) {
  for (const TileStore& store : launch.stores) {
    if (auto refusal = check_order(launch, store)) return refusal;
  }
  const Result<Structure> structure = analyze_structure(launch);
  if (!structure) return structure.unsupported();
  return std::nullopt;
}

}  // namespace

std::vector<AxisId> meeting_axes(const TileGraph& graph) {
  std::set<AxisId> meeting;
  for (const TileStore& store : graph.stores) {
    if (!store.scatter) continue;
    for (const AxisId axis : meeting_axes(graph, store)) meeting.insert(axis);
  }
  return {meeting.begin(), meeting.end()};
}

bool takes_launches(const TileGraph& graph) {
  return std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return store.scatter &&
           std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& other) {
             return !other.scatter && other.buffer == store.buffer;
           });
  });
}

Result<std::vector<TileGraph>> launches_of(const TileGraph& graph) {
  std::set<BufferId> targets;
  for (const TileStore& store : graph.stores) {
    if (store.scatter) targets.insert(store.buffer);
  }
  const auto is_before = [&](const TileStore& store) {
    return !store.scatter && targets.contains(store.buffer);
  };
  TileGraph before = graph, writes = graph;
  std::erase_if(before.stores, [&](const TileStore& store) { return !is_before(store); });
  std::erase_if(writes.stores, is_before);
  before.name += "_before";
  writes.name += "_scatter";
  std::vector<TileGraph> launches;
  for (TileGraph* part : {&before, &writes}) {
    Result<TileGraph> ordered = order_axes(without_unneeded(std::move(*part)));
    if (!ordered) return ordered.unsupported();
    launches.push_back(coalesce_axes(*std::move(ordered)));
    if (auto refusal = check_launch(launches.back())) return *std::move(refusal);
  }
  if (auto refusal = check_before(launches[0])) return *std::move(refusal);
  return launches;
}

}  // namespace tilefuse
