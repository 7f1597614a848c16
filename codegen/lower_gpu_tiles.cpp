// Tiles of a GPU kernel: what lies along another axis than the lanes is read along that axis into shared
// memory, and taken from there across.
//
//   for step { tile[column * pitch + row] = x[...]; }   threads along the rows of the tile
//   meet_all();
//   load_one(tile + (column * pitch + row))             threads along its columns
//
// A line of a tile is an odd number of banks long (staged_pitch), so neither way meets a bank twice.
#include <algorithm>

#include "codegen/gpu_lowering.h"

namespace tilefuse {
namespace {

constexpr CodeType kInt{DType::I32, CodeShape::Scalar};

Code at_line(const Code& column, int64_t pitch, const Code& row) {
  return add(operate(CodeOperator::Mul, {column, integer(pitch)}), row);
}

}  // namespace

bool GpuLowering::is_staged(TileValueId id) const {
  return std::find(region_.staged.begin(), region_.staged.end(), id) != region_.staged.end();
}

Computed GpuLowering::load(TileValueId id, const TileLoad& load) {
  return is_staged(id) ? load_staged(id) : GpuValues::load(id, load);
}

void GpuLowering::stage_tiles() {
  if (region_.staged.empty()) return;
  for (const TileValueId id : region_.staged) stage(id);
  scopes_.add({Effect{call("meet_all", {})}, ""});
  scopes_.blank();
}

// As many elements a thread as it has steps.
void GpuLowering::stage(TileValueId id) {
  const auto& load = std::get<TileLoad>(graph_[id].op);
  const DType dtype = graph_[load.buffer].dtype;
  const int64_t pitch = staged_pitch(dtype, schedule_.rows);
  const SymbolId tile = scopes_.symbol(graph_[load.buffer].name + "_tile", {dtype, CodeShape::Scalar});
  scopes_.add({Var{.symbol = tile,
                   .initial = std::nullopt,
                   .count = static_cast<int>(pitch * schedule_.width()),
                   .is_shared = true},
               ""});
  tiles_.emplace(id, tile);

  const SymbolId place = scopes_.symbol("place", kInt);
  const Code outer_column = column_;
  const Code outer_row = coordinates_.at(region_.turned);
  const int outer_depth = column_depth_;
  scopes_.open();
  column_depth_ = scopes_.depth();
  const Code rows = integer(schedule_.rows);
  const Code row =
      scopes_.let(scopes_.depth(), "tile_row", kInt, operate(CodeOperator::Mod, {reference(place), rows}));
  const Code line =
      scopes_.let(scopes_.depth(), "tile_line", kInt, operate(CodeOperator::Div, {reference(place), rows}));
  coordinates_[region_.turned] =
      scopes_.let(scopes_.depth(), graph_[region_.turned].name, index_type_, add(first_row_, row));
  column_ = add(first_column_, line);
  std::vector<Code> conditions;
  const auto inside = [&](AxisId axis, int64_t granule) {
    if (!is_multiple_of(graph_[axis].extent, granule))
      conditions.push_back(condition({graph_[axis].extent - 1 - Expr::index(static_cast<int>(axis.index))}));
  };
  inside(region_.turned, schedule_.rows);
  inside(region_.inner, schedule_.width());
  for (const Expr& guard : open_guards(load.guard)) conditions.push_back(condition({guard}));
  in_condition(conditions, [&] {
    const Code from = subscript(pointers_[load.buffer.index], index_code(load.offset));
    scopes_.add({Assign{subscript(reference(tile), at_line(line, pitch, row)), std::nullopt, from}, ""});
  });
  Block block = scopes_.close();
  const int64_t count = schedule_.width() * schedule_.rows;
  scopes_.add({For{place, call("thread_number", {}, {}, {schedule_.block_threads()}), integer(count),
                   schedule_.block_threads(), graph_[region_.turned].name, std::move(block), schedule_.steps},
               ""});
  column_ = outer_column;
  column_depth_ = outer_depth;
  coordinates_[region_.turned] = outer_row;
}

Computed GpuLowering::load_staged(TileValueId id) {
  const auto& load = std::get<TileLoad>(graph_[id].op);
  const int64_t pitch = staged_pitch(graph_[load.buffer].dtype, schedule_.rows);
  const Code own = call("thread_number", {}, {}, {schedule_.block_threads()});
  const Code row = operate(CodeOperator::Div, {own, integer(schedule_.threads)});
  Code line = thread_;
  if (step_) line = add(operate(CodeOperator::Mul, {*step_, integer(schedule_.threads)}), line);
  Code code = call("load_one", {add(reference(tiles_.at(id)), at_line(line, pitch, row))});
  const std::vector<Expr> guards = open_guards(load.guard);
  if (!guards.empty()) {
    const Code fill = literal(load.fill, info(graph_[id].dtype).compute);
    code = operate(CodeOperator::Choose, {condition(guards), code, fill});
  }
  return {code, 0, false};
}

}  // namespace tilefuse
