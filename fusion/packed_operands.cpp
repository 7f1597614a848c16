#include "fusion/packed_operands.h"

#include <algorithm>
#include <set>

#include "fusion/contraction.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

bool contains(const std::vector<AxisId>& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// What a value is made of.
struct Source {
  bool reads_inputs_only = true;
  std::vector<const TileLoad*> loads;
};
Source source_of(const TileGraph& graph, TileValueId value) {
  Source source;
  std::vector<TileValueId> open = {value};
  std::set<TileValueId> seen;
  while (!open.empty()) {
    const TileValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const auto* load = std::get_if<TileLoad>(&graph[id].op);
    if (load != nullptr) source.loads.push_back(load);
    const bool is_scratch = load != nullptr && graph[load->buffer].role == Buffer::Role::Scratch;
    if (is_scratch || std::holds_alternative<TileReduce>(graph[id].op)) source.reads_inputs_only = false;
    for (const TileValueId operand : operands_of(graph[id])) open.push_back(operand);
  }
  return source;
}

// Vectors along an axis of the result are read as they lie, or as an earlier nest has laid them.
bool has_vectors(const TileGraph& graph, const Source& source, const std::vector<AxisId>& result) {
  if (!source.reads_inputs_only) return true;
  return std::any_of(source.loads.begin(), source.loads.end(), [&](const TileLoad* load) {
    return std::any_of(result.begin(), result.end(), [&](AxisId axis) {
      const auto stride = stride_along(graph, *load, axis);
      return stride && stride->is_constant(1);
    });
  });
}

bool stays_through_task(const TileGraph& graph, TileValueId operand, TileValueId sum,
                        const std::vector<AxisId>& shared) {
  const std::vector<AxisId>& reduced = std::get<TileReduce>(graph[sum].op).axes;
  const std::vector<AxisId>& axes = graph[operand].axes;
  const bool is_reduced =
      std::any_of(axes.begin(), axes.end(), [&](AxisId a) { return contains(reduced, a); });
  return is_reduced && std::all_of(axes.begin(), axes.end(), [&](AxisId axis) {
           return contains(shared, axis) || contains(reduced, axis);
         });
}

}  // namespace

std::vector<TileValueId> packed_operands(const TileGraph& graph, const std::vector<AxisId>& shared) {
  std::set<TileValueId> packed;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const TileValueId sum{v};
    const auto contraction = contraction_of(graph, sum);
    if (!contraction) continue;
    const std::vector<TileValueId>& factors = graph[contraction->product].operands;
    const bool is_gathered = std::none_of(factors.begin(), factors.end(), [&](TileValueId factor) {
      return has_vectors(graph, source_of(graph, factor), graph[sum].axes);
    });
    if (!is_gathered) continue;
    const auto stays = std::find_if(factors.begin(), factors.end(), [&](TileValueId factor) {
      return stays_through_task(graph, factor, sum, shared);
    });
    if (stays != factors.end()) packed.insert(*stays);
  }
  return {packed.begin(), packed.end()};
}

}  // namespace tilefuse
