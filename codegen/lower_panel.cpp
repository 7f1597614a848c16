// Panels: operands of contractions copied to scratch for the vectors of one iteration over lanes, turned on
// the way where they are contiguous along a reduced axis.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "fusion/panels.h"

namespace tilefuse {

// The parallel axes as their loops stand, the lane axis last unless panels are packed outside of others.
std::vector<AxisId> LaunchLowering::loop_order() const {
  std::vector<AxisId> panel_axes;
  if (packs_panels(structure_, schedule_)) {
    for (const StagedLoad& staged : schedule_.staged) {
      const std::vector<AxisId>& axes = graph_[staged.load].axes;
      panel_axes.insert(panel_axes.end(), axes.begin(), axes.end());
    }
  }
  const std::optional<AxisId> lanes = schedule_.lane_axis;
  const auto lane_extent = lanes ? facts_.extents[lanes->index].constant() : std::nullopt;
  std::vector<AxisId> order = parallel_loop_order(structure_, schedule_, panel_axes, lane_extent);
  if (!facts_.lanes_are_parallel) std::erase(order, schedule_.lane_axis.value_or(AxisId{~0U}));
  return order;
}

// Row-major over the reduced axes of the load, each row the vectors of one iteration; the axis that is turned
// is whole blocks long. In dots a row holds all neighbours of each lane. Returns the number of rows, and
// adds to the offset.
Expr LaunchLowering::panel_rows(const StagedLoad& staged, Expr& offset) const {
  const TileValue& v = graph_[staged.load];
  const int64_t row = int64_t{schedule_.lanes} * schedule_.unroll;
  Expr rows = 1;
  for (size_t i = v.axes.size(); i-- > 0;) {
    const AxisId axis = v.axes[i];
    if (!structure_.is_reduced(axis)) continue;
    offset = offset + Expr::index(static_cast<int>(axis.index)) * rows * (row / panel_step());
    const int64_t multiple = axis == staged.contiguous || facts_.in_tiles ? schedule_.lanes : 1;
    rows = rows * simplify(ceildiv(scratch_length(axis), multiple * panel_step()) * multiple);
  }
  return rows;
}

DType LaunchLowering::panel_dtype(const StagedLoad& staged) const {
  return facts_.dots.empty() ? info(graph_[staged.load].dtype).compute : DType::I32;
}

LaunchLowering::ScratchRow LaunchLowering::panel_row(const StagedLoad& staged) {
  ScratchRow row;
  row.dtype = panel_dtype(staged);
  row.name = name_of(staged.load) + "_panel";
  row.holds_vector = true;
  const Expr rows = panel_rows(staged, row.offset) + (has_starts(staged) ? 1 : 0);
  row.pointer = scratch_pointer(row.name, row.dtype, rows * (int64_t{schedule_.lanes} * schedule_.unroll));
  return row;
}

bool LaunchLowering::is_packed_before(const StagedLoad& staged) const {
  return facts_.walked != nullptr && packs_panels(structure_, schedule_) &&
         is_same_in_all_blocks(graph_, staged.load, *facts_.walked);
}

bool LaunchLowering::is_walked_by_packs(AxisId axis) const {
  return axis == schedule_.lane_axis ||
         std::any_of(schedule_.staged.begin(), schedule_.staged.end(), [&](const StagedLoad& staged) {
           const std::vector<AxisId>& axes = graph_[staged.load].axes;
           return is_packed_before(staged) && std::binary_search(axes.begin(), axes.end(), axis);
         });
}

// In each iteration of the loop over lanes.
void LaunchLowering::fill_panels() {
  for (const StagedLoad& staged : schedule_.staged) {
    const bool is_kept = is_packed_once(graph_, structure_, staged.load),
               is_before = is_packed_before(staged);
    if (packs_only_ && !is_before) continue;
    if (!staged_rows_.contains(staged.load)) {
      staged_rows_.emplace(staged.load, is_kept || is_before ? packed_row(staged) : panel_row(staged));
    }
    if (is_kept || is_before) find_panel(staged);
    if ((is_kept && part_ != LaunchPart::Pack) || (is_before && !packs_only_)) continue;
    fill_panel(staged, staged_rows_.at(staged.load), 0);
    pad_panel(staged);
    if (has_starts(staged)) fill_starts(staged);
    scopes_.blank();
  }
}

// What a panel holds of a reduced axis.
LoopRange LaunchLowering::panel_range(AxisId axis) {
  return part_range_ && axis == structure_.reduced.front() ? *part_range_ : whole_range(axis);
}

void LaunchLowering::fill_panel(const StagedLoad& staged, const ScratchRow& row, size_t next) {
  const std::vector<AxisId>& axes = graph_[staged.load].axes;
  const bool turns = staged.contiguous != schedule_.lane_axis;
  while (next < axes.size() && (!structure_.is_reduced(axes[next]) || axes[next] == staged.contiguous))
    ++next;
  if (next < axes.size()) {
    const auto fill = [&] { fill_panel(staged, row, next + 1); };
    const bool in_dots = !facts_.dots.empty() && structure_.is_reduced(axes[next]);
    const std::string& name = graph_[axes[next]].name;
    in_dots ? open_dots(axes[next], panel_range(axes[next]), schedule_.dots, name, fill)
            : open_plain(axes[next], panel_range(axes[next]), 1, name, fill);
  } else if (turns) {
    for_each_lane_copy([&] {  // outside: no more streams than a prefetcher follows
      const LoopRange columns = panel_range(staged.contiguous);
      open_plain(staged.contiguous, columns, schedule_.lanes * panel_step(), graph_[staged.contiguous].name,
                 [&] {
                   BlockEnds ends{std::nullopt, block_end(staged.contiguous, columns)};
                   if (copies_.left)
                     ends.rows = BlockEnd{*copies_.left, std::nullopt};  // a row for each lane
                   fill_block(staged, row, ends);
                 });
    });
  } else {
    for_each_lane_copy([&] { copy_vector(staged, row); });
  }
}

// Lanes that are not there are zero.
void LaunchLowering::copy_vector(const StagedLoad& staged, const ScratchRow& row) {
  const TileLoad& load = std::get<TileLoad>(graph_[staged.load].op);
  const int depth = scopes_.depth();
  const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(load.offset), nullptr,
                    depth};
  const Code to = scratch_address(row, depth).pointer;
  const Code from = facts_.dots.empty() ? plain_load(address(place, {}), true) : join_neighbours(staged);
  scopes_.add({Effect{call("store", {to, from})}, ""});
}

}  // namespace tilefuse
