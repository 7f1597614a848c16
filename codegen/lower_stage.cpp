// Staged loads: blocks of lanes x lanes are turned in registers into a scratch tile of the task, in which the
// lane axis is contiguous.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"

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

void LaunchLowering::fill_staged(const StagedLoad& staged) {
  const TileValue& v = graph_[staged.load];
  const AxisId lane_axis = *schedule_.lane_axis;
  std::vector<AxisId> others;  // looped over inside, besides those of the block
  for (const AxisId axis : v.axes) {
    const bool is_block_axis = axis == staged.contiguous || axis == lane_axis;
    if (!is_block_axis && !bound_.contains(axis)) others.push_back(axis);
  }
  ScratchRow row;
  row.dtype = info(v.dtype).compute;
  row.name = name_of(staged.load) + "_turned";
  Expr length = task_length(lane_axis, int64_t{schedule_.lanes} * schedule_.unroll);
  row.offset = task_coordinate(lane_axis) + task_coordinate(staged.contiguous) * length;
  length = length * task_length(staged.contiguous, schedule_.lanes);
  for (size_t i = others.size(); i-- > 0;) {
    row.offset = row.offset + task_coordinate(others[i]) * length;
    length = length * task_length(others[i], 1);
  }
  row.pointer = scratch_pointer(row.name, row.dtype, length);
  const std::function<void(size_t)> open_others = [&](size_t next) {
    if (next == others.size()) return fill_blocks(staged, row);
    open_plain(others[next], task_range(others[next]), 1, graph_[others[next]].name,
               [&] { open_others(next + 1); });
  };
  open_others(0);
  scopes_.blank();
  staged_rows_.emplace(staged.load, std::move(row));
}

// Rows of a block run along the lane axis, its columns along the contiguous one. At the ends of the task rows
// and columns outside are not read; the tile has room for whole blocks.
void LaunchLowering::fill_blocks(const StagedLoad& staged, const ScratchRow& row) {
  const TileValue& v = graph_[staged.load];
  const TileLoad& load = std::get<TileLoad>(v.op);
  const AxisId across = *schedule_.lane_axis, along = staged.contiguous;
  const int lanes = schedule_.lanes;
  const Buffer& buffer = graph_[load.buffer];
  // Bools are turned as bytes.
  const DType element = buffer.dtype == DType::Bool ? DType::U8 : buffer.dtype;
  const CodeType vector{info(element).compute, CodeShape::Vector};
  Code source_base = buffer_pointer(load.buffer), tile_base = row.pointer;
  if (buffer.dtype == DType::Bool) {
    const CodeType from{element, CodeShape::ConstPointer}, to{element, CodeShape::Pointer};
    source_base =
        scopes_.let(0, buffer.name + "_bytes", from, {PointerCast{from, {source_base, integer(0)}}});
    tile_base = scopes_.let(0, row.name + "_bytes", to, {PointerCast{to, {tile_base, integer(0)}}});
  }
  const LoopRange across_range = task_range(across), along_range = task_range(along);
  const auto body = [&] {
    const SymbolId block = scopes_.symbol("block", vector);
    scopes_.add({Var{block, std::nullopt, lanes}, ""});
    const auto left = [&](AxisId axis, const LoopRange& range) -> std::optional<Code> {
      if (range.granule % lanes == 0) return std::nullopt;
      return named(scopes_.depth(), graph_[axis].name + "_left",
                   operate(CodeOperator::Sub, {range.last, bound_.at(axis).index}));
    };
    const std::optional<Code> rows_left = left(across, across_range), columns_left = left(along, along_range);
    const auto each_row = [&](const std::function<void(const Code&)>& statement) {
      const SymbolId number = scopes_.symbol("row", kIndexType);
      scopes_.open();
      scopes_.remember("size row", {reference(number), scopes_.depth(), false});
      statement(subscript(reference(block), reference(number)));
      scopes_.add({For{number, integer(0), integer(lanes), 1, "", scopes_.close(), lanes}, ""});
    };
    const Expr number = Expr::symbol("row", {.low = 0});
    const auto shifted = [&](const Expr& e, AxisId axis) {
      const int index = static_cast<int>(axis.index);
      return substitute_index(e, index, Expr::index(index) + number);
    };
    each_row([&](const Code& target) {
      const Place place{source_base, buffer.name + " rows", shifted(load.offset, across), nullptr,
                        scopes_.depth()};
      std::vector<Code> arguments = {pointer_at(place, place.offset, {})};
      if (columns_left || rows_left) {
        Code count = columns_left ? *columns_left : integer(lanes);
        if (rows_left) {
          const Code is_inside = operate(CodeOperator::Less, {size_symbol("row"), *rows_left});
          count = operate(CodeOperator::Choose, {is_inside, count, integer(0)});
        }
        arguments.push_back(count);
      }
      scopes_.add({Assign{target, std::nullopt, call("load", std::move(arguments))}, ""});
    });
    scopes_.add({Effect{call("transpose_block", {reference(block)})}, ""});
    each_row([&](const Code& source) {
      const Place place{tile_base, row.name + " rows", shifted(row.offset, along), nullptr, scopes_.depth()};
      scopes_.add({Effect{call("store", {pointer_at(place, place.offset, {}), source})}, ""});
    });
  };
  open_plain(along, along_range, lanes, graph_[along].name,
             [&] { open_plain(across, across_range, lanes, graph_[across].name, body); });
}

}  // namespace tilefuse
