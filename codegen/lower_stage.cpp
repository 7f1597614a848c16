// Staged loads: blocks of lanes x lanes are turned in registers into a scratch tile of the task, in which the
// lane axis is contiguous.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"
#include "fusion/panels.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};

}  // namespace

// Before the outermost loop over one of the two axes of a block.
void LaunchLowering::stage_loads(AxisId opening) {
  for (const StagedLoad& staged : schedule_.staged) {
    const bool is_block_axis = opening == staged.contiguous || opening == *schedule_.lane_axis;
    const bool is_bound = bound_.contains(staged.contiguous);
    if (is_block_axis && !is_bound && !staged_rows_.contains(staged.load)) fill_staged(staged);
  }
}

// Looped over inside, besides the axes of a block.
std::vector<AxisId> LaunchLowering::axes_beside_block(const StagedLoad& staged) const {
  std::vector<AxisId> others;
  for (const AxisId axis : graph_[staged.load].axes) {
    const bool is_block_axis = axis == staged.contiguous || axis == *schedule_.lane_axis;
    if (!is_block_axis && !bound_.contains(axis)) others.push_back(axis);
  }
  return others;
}

LaunchLowering::ScratchRow LaunchLowering::turned_row(const StagedLoad& staged,
                                                      const std::vector<AxisId>& others) {
  const TileValue& v = graph_[staged.load];
  const AxisId lane_axis = *schedule_.lane_axis;
  ScratchRow row;
  row.dtype = info(v.dtype).compute;
  row.name = name_of(staged.load) + "_turned";
  Expr length = task_length(lane_axis, int64_t{schedule_.lanes} * schedule_.unroll);
  row.offset = task_coordinate(lane_axis) + task_coordinate(staged.contiguous) * length;
  // What begins behind the first row ends as far behind the last one.
  const bool is_shifted = guarded_span(std::get<TileLoad>(v.op), staged.contiguous)->low > 0;
  length = length * (task_length(staged.contiguous, schedule_.lanes) + (is_shifted ? schedule_.lanes : 0));
  for (size_t i = others.size(); i-- > 0;) {
    row.offset = row.offset + task_coordinate(others[i]) * length;
    length = length * task_length(others[i], 1);
  }
  row.pointer = scratch_pointer(row.name, row.dtype, length);
  return row;
}

void LaunchLowering::fill_staged(const StagedLoad& staged) {
  const std::vector<AxisId> others = axes_beside_block(staged);
  if (!turned_rows_.contains(staged.load)) turned_rows_.emplace(staged.load, turned_row(staged, others));
  const ScratchRow& row = turned_rows_.at(staged.load);
  const std::function<void(size_t)> open_others = [&](size_t next) {
    if (next == others.size()) return fill_blocks(staged, row);
    open_plain(others[next], task_range(others[next]), 1, graph_[others[next]].name,
               [&] { open_others(next + 1); });
  };
  open_others(0);
  scopes_.blank();
  staged_rows_.emplace(staged.load, row);
}

// As many rows of what is read as a block has, from one end to the other, before the next ones: a prefetcher
// can follow them, which it cannot from row to row down a tile.
void LaunchLowering::fill_blocks(const StagedLoad& staged, const ScratchRow& row) {
  const AxisId across = *schedule_.lane_axis, along = staged.contiguous;
  const LoopRange columns = turned_range(staged);
  for (const LoopRange& rows : whole_and_rest(task_range(across))) {
    open_blocks(across, rows, [&] {
      for (const LoopRange& piece : whole_and_rest(columns)) {
        open_blocks(along, piece,
                    [&] { fill_block(staged, row, {block_end(across, rows), block_end(along, piece)}); });
      }
    });
  }
}

// Where both ends are numbers: the blocks that are all there, and the one that is not.
std::vector<LoopRange> LaunchLowering::whole_and_rest(const LoopRange& range) const {
  if (!range.first_value || !range.last_value) return {range};
  const int64_t length = *range.last_value - *range.first_value, rest = length % schedule_.lanes;
  if (length <= 0) return {};
  if (rest == 0 || rest == length) return {range};
  LoopRange whole = range, last = range;
  whole.last_value = last.first_value = *range.last_value - rest;
  whole.last = last.first = integer(*last.first_value);
  return {whole, last};
}

void LaunchLowering::open_blocks(AxisId axis, const LoopRange& range, const Body& body) {
  const bool is_known = range.first_value && range.last_value;
  if (is_known && *range.last_value - *range.first_value <= schedule_.lanes) {
    open_once(axis, range, body);
  } else {
    open_plain(axis, range, schedule_.lanes, graph_[axis].name, body);
  }
}

// The coordinates of the task along the contiguous axis at which there is something to read.
LoopRange LaunchLowering::turned_range(const StagedLoad& staged) {
  LoopRange range = task_range(staged.contiguous);
  const Span span = *guarded_span(std::get<TileLoad>(graph_[staged.load].op), staged.contiguous);
  const auto cut = [&](Code& end, std::optional<int64_t>& value, int64_t bound, bool is_low) {
    range.granule = 1;
    if (value) {
      value = is_low ? std::max(*value, bound) : std::min(*value, bound);
      end = integer(*value);
      return;
    }
    const Code limit = integer(bound);
    const Code inside =
        is_low ? operate(CodeOperator::Less, {end, limit}) : operate(CodeOperator::Less, {limit, end});
    const std::string name = name_of(staged.load) + (is_low ? "_first" : "_last");
    end = named(scopes_.depth(), name, operate(CodeOperator::Choose, {inside, limit, end}));
    range.depth = scopes_.depth();
  };
  if (span.low > 0) cut(range.first, range.first_value, span.low, true);
  const Expr& extent = facts_.extents[staged.contiguous.index];
  if (!proves_nonnegative(Expr(span.high) - extent)) cut(range.last, range.last_value, span.high, false);
  return range;
}

// What is left of an axis in the current block; nullopt: always a whole block.
std::optional<LaunchLowering::BlockEnd> LaunchLowering::block_end(AxisId axis, const LoopRange& range) {
  const bool is_panel = packs_panels(structure_, schedule_);
  const int64_t step = is_panel && structure_.is_reduced(axis) ? panel_step() : 1;
  if (range.granule % (schedule_.lanes * step) == 0) return std::nullopt;
  if (step == 1 && range.first_value && range.last_value) {
    const int64_t length = *range.last_value - *range.first_value;
    if (length % schedule_.lanes == 0) return std::nullopt;
    if (length < schedule_.lanes) return BlockEnd{integer(length), length};
  }
  const int depth = bound_.at(axis).depth;
  const std::string key = "left of " + std::to_string(axis.index);
  if (scopes_.find(key) == nullptr) {
    const Code rest = operate(CodeOperator::Sub, {range.last, bound_.at(axis).index});
    scopes_.remember(key, {named(depth, graph_[axis].name + "_left", rest), depth, false});
  }
  return BlockEnd{scopes_.find(key)->code, std::nullopt};
}

// Rows of a block run along the lane axis, its columns along the contiguous one. At the ends of the task rows
// and columns outside are not read; the tile has room for whole blocks. Where a block may have ends, whole
// ones are turned by code of their own, in registers, and so is one whose ends are numbers or that lacks
// columns alone:
//
//   if (16 <= k_left && 16 <= j_left) { for row, unrolled: block[row] = load(w + ...); ... }
//   if (!(16 <= k_left && 16 <= j_left)) {
//     for row: block[row] = load(w + ..., row < j_left ? k_left : 0);
//     ...
//   }
void LaunchLowering::fill_block(const StagedLoad& staged, const ScratchRow& row, const BlockEnds& ends) {
  const bool is_last = ends.rows && packs_panels(structure_, schedule_);  // of a panel: never a whole one
  if (is_last || ends.are_known()) return turn_block(staged, row, ends);
  std::vector<Code> limits;
  const auto limit = [&](const std::optional<BlockEnd>& end, int64_t whole) {
    if (end) limits.push_back(operate(CodeOperator::LessEqual, {integer(whole), end->left}));
  };
  limit(ends.columns, schedule_.lanes * panel_step());
  limit(ends.rows, schedule_.lanes);
  Code is_whole = limits.front();
  if (limits.size() > 1) is_whole = operate(CodeOperator::And, limits);
  is_whole = named(scopes_.depth(), "is_whole", is_whole);
  scopes_.open();
  turn_block(staged, row, {});
  scopes_.add({If{is_whole, scopes_.close()}, ""});
  scopes_.open();
  turn_block(staged, row, ends);
  scopes_.add({If{operate(CodeOperator::Not, {is_whole}), scopes_.close()}, ""});
}

// Bools are turned as bytes.
void LaunchLowering::turn_block(const StagedLoad& staged, const ScratchRow& row, const BlockEnds& ends) {
  const TileLoad& load = std::get<TileLoad>(graph_[staged.load].op);
  const Buffer& buffer = graph_[load.buffer];
  Code source = buffer_pointer(load.buffer), target = row.pointer;
  DType element = row.dtype;
  if (buffer.dtype == DType::Bool) {
    element = DType::U8;
    const CodeType from{element, CodeShape::ConstPointer}, to{element, CodeShape::Pointer};
    source = scopes_.let(0, buffer.name + "_bytes", from, {PointerCast{from, {source, integer(0)}}});
    target = scopes_.let(0, row.name + "_bytes", to, {PointerCast{to, {target, integer(0)}}});
  }
  const SymbolId block = scopes_.symbol("block", {element, CodeShape::Vector});
  const int lanes = schedule_.lanes;
  scopes_.add({Var{block, std::nullopt, lanes}, ""});
  const auto for_rows = [&](int64_t first, int64_t end, const std::function<void(const Code&)>& statement) {
    const SymbolId number = scopes_.symbol("row", kIndexType);
    scopes_.open();
    scopes_.remember("size block row", {reference(number), scopes_.depth(), false});
    statement(subscript(reference(block), reference(number)));
    const int unroll = ends.are_known() || !ends.rows ? int(end - first) : 1;  // of the same length, all
    scopes_.add({For{number, integer(first), integer(end), 1, "", scopes_.close(), unroll}, ""});
  };
  const auto columns_of_row = [&]() -> std::optional<Code> {
    auto columns = ends.columns ? std::optional(ends.columns->left) : std::nullopt;
    if (!ends.rows || ends.rows->count) return columns;
    const Code is_inside = operate(CodeOperator::Less, {size_symbol("block row"), ends.rows->left});
    return operate(CodeOperator::Choose,
                   {is_inside, columns.value_or(integer(lanes * panel_step())), integer(0)});
  };
  const auto at_row = [&](const Expr& e, AxisId axis) {
    const int index = static_cast<int>(axis.index);
    const int64_t step = structure_.is_reduced(axis) ? panel_step() : 1;
    return substitute_index(e, index, Expr::index(index) + Expr::symbol("block row", {.low = 0}) * step);
  };
  const int64_t rows_there = ends.rows ? ends.rows->count.value_or(lanes) : lanes;
  for_rows(0, rows_there, [&](const Code& vector) {
    const Expr offset = at_copy(at_row(load.offset, *schedule_.lane_axis));
    std::vector<Code> arguments = {
        pointer_at({source, buffer.name + " rows", offset, nullptr, scopes_.depth()}, offset, {})};
    if (const auto count = columns_of_row()) arguments.push_back(*count);
    scopes_.add({Assign{vector, std::nullopt,
                        call(facts_.dots.empty() ? "load" : "load_neighbours", std::move(arguments))},
                 ""});
  });
  const auto clear = [&](const Code& vector) {
    scopes_.add({Assign{vector, std::nullopt, call("splat", {integer(0)}, {element})}, ""});
  };
  if (rows_there < lanes) for_rows(rows_there, lanes, clear);
  scopes_.add({Effect{call("transpose_block", {reference(block)})}, ""});
  for_rows(0, lanes, [&](const Code& vector) {
    Expr offset = at_row(row.offset, staged.contiguous);
    if (row.holds_vector) offset = offset + int64_t{copies_.lane} * schedule_.lanes;
    const Code to = pointer_at({target, row.name + " rows", offset, nullptr, scopes_.depth()}, offset, {});
    scopes_.add({Effect{call("store", {to, vector})}, ""});
  });
}

}  // namespace tilefuse
