// Scratch: values kept between passes, and accumulators that are a row instead of a register.
#include <algorithm>
#include <limits>
#include <utility>

#include "codegen/launch_lowering.h"
#include "codegen/spell_reduce.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr int64_t kScratchAlignment = 64;

}  // namespace

Code LaunchLowering::scratch_pointer(const std::string& name, DType dtype, const Expr& elements) {
  const CodeType type{dtype, CodeShape::Pointer};
  const Code pointer{PointerCast{type, {reference(kScratch), index_code(scratch_bytes_)}}};
  const Expr bytes = elements * size_in_bytes(dtype);
  scratch_bytes_ = scratch_bytes_ + simplify(ceildiv(bytes, kScratchAlignment) * kScratchAlignment);
  return scopes_.let(0, name, type, pointer);
}

LaunchLowering::Address LaunchLowering::scratch_address(const ScratchRow& row, int depth) {
  Expr offset = at_copy(row.offset) + row.row_stride * copies_.row;
  if (row.holds_vector) offset = offset + int64_t{copies_.lane} * schedule_.lanes;
  Address result = address({row.pointer, row.name, offset, nullptr, depth}, {});
  if (row.holds_vector) result.stride = Expr(1);
  return result;
}

// Rows of scratch are whole vectors long, and so is their last one: what loads it after a store with a mask
// waits until everything before has left the store buffer.
LaunchLowering::Copies LaunchLowering::whole_in_scratch(const ScratchRow& row) const {
  Copies result = copies_;
  if (row.holds_vector || copies_.ends_rows) result.left.reset();
  return result;
}

Computed LaunchLowering::load_scratch(const ScratchRow& row, int depth) {
  const Copies outside = std::exchange(copies_, whole_in_scratch(row));
  const Address from = scratch_address(row, depth);
  const bool is_vector = from.varies_along_lanes();
  Code code = plain_load(from, is_vector);
  copies_ = outside;
  return {std::move(code), depth, is_vector};
}

void LaunchLowering::store_scratch(const ScratchRow& row, const Computed& value) {
  const Copies outside = std::exchange(copies_, whole_in_scratch(row));
  store_at(scratch_address(row, scopes_.depth()), value, {.dtype = row.dtype});
  copies_ = outside;
}

// Elements along an axis that scratch has room for: in a nest of a chain, those of a tile that is not cut
// short, because the host knows no task's count.
Expr LaunchLowering::scratch_length(AxisId axis) const {
  const Expr& extent = facts_.extents[axis.index];
  if (facts_.chain == nullptr) return extent;
  const int64_t most = bounds(extent).high;
  return most == std::numeric_limits<int64_t>::max() ? extent : Expr(most);
}

// Row-major over the reduced axes of the value, the lane axis last and whole vectors long.
const LaunchLowering::ScratchRow& LaunchLowering::kept_row(TileValueId id) {
  const auto found = kept_rows_.find(id);
  if (found != kept_rows_.end()) return found->second;
  const int64_t lanes = schedule_.lanes;
  const bool has_lanes = varies_along(id, schedule_.lane_axis);
  std::vector<AxisId> axes;
  for (const AxisId axis : structure_.reduced) {
    if (axis != schedule_.lane_axis && varies_along(id, axis)) axes.push_back(axis);
  }
  ScratchRow row;
  row.dtype = info(graph_[id].dtype).compute;
  row.name = name_of(id) + "_kept";
  Expr length = 1;
  if (has_lanes && lanes_are_reduced()) {
    length = simplify(ceildiv(scratch_length(*schedule_.lane_axis), lanes) * lanes);
    row.offset = Expr::index(static_cast<int>(schedule_.lane_axis->index));
  } else if (has_lanes) {
    length = lanes * schedule_.unroll;
    row.holds_vector = true;
  }
  for (size_t i = axes.size(); i-- > 0;) {
    row.offset = row.offset + Expr::index(static_cast<int>(axes[i].index)) * length;
    length = length * scratch_length(axes[i]);
  }
  row.row_stride = varies_along(id, facts_.row_axis) ? length : Expr(0);
  if (varies_along(id, facts_.row_axis)) length = length * facts_.rows;
  row.pointer = scratch_pointer(row.name, row.dtype, length);
  return kept_rows_.emplace(id, std::move(row)).first->second;
}

Expr LaunchLowering::task_coordinate(AxisId axis) const {
  Expr index = Expr::index(static_cast<int>(axis.index));
  if (!task_.contains(axis)) return index;
  return index - Expr::symbol("first " + graph_[axis].name, {.low = 0});
}

// Coordinates a task covers at most, rounded up.
Expr LaunchLowering::task_length(AxisId axis, int64_t multiple) const {
  Expr length = scratch_length(axis);
  for (const AxisTile& task : schedule_.grid) {
    if (task.axis == axis && task_.contains(axis)) length = task.tile;
  }
  return simplify(ceildiv(length, multiple) * multiple);
}

void LaunchLowering::update_scratch(TileValueId reduction, const ScratchRow& row,
                                    const std::vector<Code>& elements) {
  const ReduceSpelling spelling = spelling_of(reduction);
  Code sum = load_scratch(row, scopes_.depth()).code;
  for (const Code& element : elements) sum = combined(spelling, sum, element);
  store_scratch(row, {sum, 0, true});
}

// The elements of the rows side by side, into one vector of the accumulators.
void LaunchLowering::accumulate_rows(TileValueId reduction, const std::vector<Computed>& rows) {
  std::vector<Code> elements;
  elements.reserve(rows.size());
  for (const Computed& row : rows) elements.push_back(element_of(reduction, row));
  const auto block = block_rows_.find(reduction);
  const ScratchRow& target = block == block_rows_.end() ? total_rows_.at(reduction) : block->second;
  update_scratch(reduction, target, elements);
}

void LaunchLowering::for_each_lane_copy(const Body& body) {
  for (copies_.lane = 0; copies_.lane < copies_.lanes; ++copies_.lane) body();
  copies_.lane = 0;
}

LaunchLowering::ScratchRow LaunchLowering::accumulator_row(TileValueId id, AccumulatorRole role) {
  const AxisId lane_axis = *schedule_.lane_axis;
  ScratchRow row;
  row.dtype = info(graph_[id].dtype).compute;
  if (role == AccumulatorRole::Total && needs_blocks(id)) row.dtype = DType::F64;
  row.name = name_of(id) + (role == AccumulatorRole::Total ? "_total" : "_block");
  row.pointer = scratch_pointer(row.name, row.dtype,
                                task_length(lane_axis, int64_t{schedule_.lanes} * schedule_.unroll));
  row.offset = task_coordinate(lane_axis);
  return row;
}

void LaunchLowering::clear_rows(const std::map<TileValueId, ScratchRow>& rows) {
  open_lanes(*schedule_.lane_axis, task_range(*schedule_.lane_axis), [&] {
    for (const auto& [id, row] : rows) {
      const Code identity = spelling_of(id).identity;
      for_each_lane_copy([&] { store_scratch(row, {identity, 0, false}); });
    }
  });
}

void LaunchLowering::add_block_rows(const std::map<TileValueId, ScratchRow>& rows) {
  open_lanes(*schedule_.lane_axis, task_range(*schedule_.lane_axis), [&] {
    for (const auto& [id, row] : rows) {
      for_each_lane_copy([&] {
        const ScratchRow& total = total_rows_.at(id);
        const Code block = call("convert", {load_scratch(row, scopes_.depth()).code}, {total.dtype});
        update_scratch(id, total, {block});
      });
    }
  });
}

// The walk over the reduced axes goes outside the loop over vectors: accumulators are rows in scratch.
void LaunchLowering::accumulate_in_scratch() {
  const AxisId lane_axis = *schedule_.lane_axis;
  const LoopRange lanes = task_range(lane_axis);
  const std::vector<Root> roots = roots_of_pass(0);
  std::map<TileValueId, ScratchRow> block_rows;
  for (const TileValueId id : reductions_of_pass(0)) {
    if (!total_rows_.contains(id)) total_rows_.emplace(id, accumulator_row(id, AccumulatorRole::Total));
    if (needs_blocks(id)) block_rows.emplace(id, accumulator_row(id, AccumulatorRole::Block));
  }
  clear_rows(total_rows_);
  ReducedWalk walk;
  walk.leaf = [&] { open_axis(lane_axis, lanes, [&] { emit_roots(roots); }); };
  walk.in_blocks = !block_rows.empty();
  walk.begin_block = [&] {
    clear_rows(block_rows);
    block_rows_ = block_rows;
  };
  walk.end_block = [&] {
    block_rows_.clear();
    add_block_rows(block_rows);
  };
  reduced_loops(0, walk);
  scopes_.blank();
  open_lanes(lane_axis, lanes, [&] { part_ == LaunchPart::Partial ? store_partials() : final_stores(); });
}

}  // namespace tilefuse
