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
  fetch_beside_tiles();
  for (const TileValueId id : region_.staged) stage(id);
  scopes_.add({Effect{call("meet_all", {})}, ""});
  scopes_.blank();
}

// What else is read is under way with the tiles, before the barrier.
void GpuLowering::fetch_beside_tiles() {
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const bool is_load = std::holds_alternative<TileLoad>(graph_.values[v].op);
    if (is_load && varies_along(graph_, {v}, region_.inner) && !is_staged({v})) fetched_.push_back({v});
  }
  if (fetched_.empty()) return;
  const int pass = pass_--;
  for_each_step([&] {
    for (const TileValueId id : fetched_) value(id);
  });
  pass_ = pass;
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

  const int chunk = staged_chunk(graph_, region_, id, schedule_.rows);
  const int64_t chunks = schedule_.rows / chunk, count = schedule_.width() * chunks;
  const int threads = schedule_.block_threads();
  const bool takes_all_threads = count % threads == 0;  // the same number of places for each
  const SymbolId turn = scopes_.symbol(takes_all_threads ? "turn" : "place", kInt);
  const Code outer_row = coordinates_.at(region_.turned);
  scopes_.open();
  const Code own = call("thread_number", {}, {}, {threads});
  const Code place = takes_all_threads ? scopes_.let(scopes_.depth(), "place", kInt,
                                                     add(times(reference(turn), threads), own))
                                       : reference(turn);
  const Code row = scopes_.let(scopes_.depth(), "tile_row", kInt, times(rest_of(place, chunks), chunk));
  const Code line = scopes_.let(scopes_.depth(), "tile_line", kInt, divided(place, chunks));
  coordinates_[region_.turned] =
      scopes_.let(scopes_.depth(), graph_[region_.turned].name, index_type_, add(first_row_, row));
  const Code column =
      scopes_.let(scopes_.depth(), graph_[region_.inner].name, index_type_, add(first_column_, line));
  scopes_.remember("column", {column, scopes_.depth(), false});  // rather than the thread's own
  std::vector<Code> conditions;
  const auto inside = [&](AxisId axis, int64_t granule) {
    if (!is_multiple_of(graph_[axis].extent, granule))
      conditions.push_back(condition({graph_[axis].extent - 1 - Expr::index(static_cast<int>(axis.index))}));
  };
  inside(region_.turned, schedule_.rows);
  inside(region_.inner, schedule_.width());
  for (const Expr& guard : open_guards(load.guard)) conditions.push_back(condition({guard}));
  in_condition(conditions, [&] {
    const Code from = pointers_[load.buffer.index], offset = index_code(load.offset);
    const Code to = at_line(line, pitch, row);
    if (chunk > 1) {
      scopes_.add({Effect{call("spread", {add(reference(tile), to), add(from, offset)})}, ""});
    } else {
      scopes_.add({Assign{subscript(reference(tile), to), std::nullopt, subscript(from, offset)}, ""});
    }
  });
  Block block = scopes_.close();
  const std::string& name = graph_[region_.turned].name;
  if (takes_all_threads) {
    const int64_t turns = count / threads;
    scopes_.add(
        {For{turn, integer(0), integer(turns), 1, name, std::move(block), static_cast<int>(turns)}, ""});
  } else {
    scopes_.add({For{turn, own, integer(count), threads, name, std::move(block), schedule_.steps}, ""});
  }
  coordinates_[region_.turned] = outer_row;
}

Computed GpuLowering::load_staged(TileValueId id) {
  const auto& load = std::get<TileLoad>(graph_[id].op);
  const int64_t pitch = staged_pitch(graph_[load.buffer].dtype, schedule_.rows);
  const Code own = call("thread_number", {}, {}, {schedule_.block_threads()});
  const Code row = operate(CodeOperator::Div, {own, integer(schedule_.threads)});
  Code line = thread_;
  if (step_) line = add(operate(CodeOperator::Mul, {*step_, integer(schedule_.threads)}), line);
  line = times(line, schedule_.vector);
  const Code from = add(reference(tiles_.at(id)), at_line(line, pitch, row));
  const bool is_vector = schedule_.vector > 1;
  Code code = is_vector ? call("load_apart", {from, integer(pitch)}) : call("load_one", {from});
  const std::vector<Expr> guards = open_guards(load.guard);
  if (!guards.empty()) {
    const DType compute = info(graph_[id].dtype).compute;
    Code fill = literal(load.fill, compute);
    if (is_vector) fill = call("splat", {fill}, {compute});
    code = operate(CodeOperator::Choose, {condition(guards), code, fill});
  }
  return {code, 0, is_vector};
}

}  // namespace tilefuse
