// What is reduced across rows: every thread keeps what it has of its columns, in registers, while the block
// goes on from row to row.
//
//   float g_so_far[2] = {0, 0};
//   for (int row = 0; row < 16; ++row) {
//     ...                                  what is done with each row, and g_so_far[step] += p
//   }
//   store(g_parts + ..., g_so_far[step])
#include <algorithm>

#include "codegen/gpu_lowering.h"

namespace tilefuse {

void GpuLowering::begin_carried() {
  for (const TileValueId id : region_.carried->reductions) {
    const TileValue& v = graph_[id];
    const ReduceSpelling spelling = spell_reduce(std::get<TileReduce>(v.op).kind, v, graph_[v.operands[0]]);
    const bool is_vector = schedule_.vector > 1;
    const CodeType type{spelling.types[0], is_vector ? CodeShape::Vector : CodeShape::Scalar};
    const std::string name = name_of(id) + "_so_far";
    if (schedule_.steps == 1) {
      carried_.push_back({id, spelling, scopes_.var(name, type, identity_code(spelling, is_vector)), {}});
      continue;
    }
    const SymbolId symbol = scopes_.symbol(name, type);
    scopes_.add({Var{.symbol = symbol, .initial = std::nullopt, .count = schedule_.steps}, ""});
    carried_.push_back({id, spelling, reference(symbol), {}});
  }
  if (schedule_.steps == 1) return;
  for_each_whole_step([&] {
    for (const Accumulator& one : carried_)
      scopes_.add(
          {Assign{carried_code(one), std::nullopt, identity_code(one.spelling, schedule_.vector > 1)}, ""});
  });
}

Code GpuLowering::carried_code(const Accumulator& one) const {
  return step_ ? subscript(one.code, *step_) : one.code;
}

void GpuLowering::take_in_carried() {
  for (const Accumulator& one : carried_) {
    const TileValueId element = graph_[one.reduction].operands[0];
    if (region_.structure.level[element.index] != pass_) continue;
    Accumulator of_step = one;
    of_step.code = carried_code(one);
    take_in(of_step);
  }
}

// The threads of a row meet in every reduction, and leave their parts in a place of its own; where there is
// one alone, all have read it before the next row.
void GpuLowering::walk_rows(const std::function<void()>& body) {
  const AxisId axis = region_.carried->axis;
  const SymbolId row = scopes_.symbol(graph_[axis].name, index_type_);
  begin_carried();
  scopes_.open();
  let_depth_ = depths_[axis] = scopes_.depth();
  coordinates_[axis] = reference(row);
  body();
  if (schedule_.threads > kWarpThreads && region_.structure.reductions.size() == 1)
    scopes_.add({Effect{call("meet_all", {})}, ""});
  Block block = scopes_.close();
  let_depth_ = 0;
  scopes_.add(
      {For{row, integer(0), integer(region_.carried->rows), 1, graph_[axis].name, std::move(block), 1}, ""});
  scopes_.blank();
  for_each_step([&] {
    for (const TileStore& store : graph_.stores) {
      const auto one = std::find_if(carried_.begin(), carried_.end(),
                                    [&](const Accumulator& c) { return c.reduction == store.value; });
      if (one != carried_.end())
        emit_store(store, {carried_code(*one), scopes_.depth(), schedule_.vector > 1});
    }
  });
}

}  // namespace tilefuse
