// Packs: all panels of a constant one behind the other, row-major over the parallel axes of the operand, the
// lane axis innermost. The kernel that makes them has a tile for each panel.
#include "codegen/lower_pack.h"

#include <algorithm>

#include "codegen/launch_lowering.h"
#include "fusion/panels.h"

namespace tilefuse {
namespace {

std::string panel_symbol(const std::string& name) { return "panel of " + name; }

}  // namespace

// Behind the workspaces.
Code LaunchLowering::pack_pointer(const StagedLoad& staged) {
  size_t position = graph_.buffers.size() + facts_.workspaces.size() + size_t(facts_.first_pack);
  for (const StagedLoad& earlier : schedule_.staged) {
    if (earlier.load == staged.load) break;
    position += is_packed_once(graph_, structure_, earlier.load) ? 1 : 0;
  }
  const bool is_written = part_ == LaunchPart::Pack;
  const CodeType type{panel_dtype(staged), is_written ? CodeShape::Pointer : CodeShape::ConstPointer};
  const Code slot = subscript(reference(kBuffers), integer(int64_t(position)));
  return scopes_.let(0, name_of(staged.load) + "_panels", type, {PointerCast{type, {slot, integer(0)}}});
}

// A panel for each iteration over lanes, one behind the other: of a constant in its pack, of what is packed
// before a loop over blocks in scratch.
LaunchLowering::ScratchRow LaunchLowering::packed_row(const StagedLoad& staged) {
  ScratchRow row;
  row.dtype = panel_dtype(staged);
  row.name = name_of(staged.load) + "_panels";
  row.holds_vector = true;
  const int64_t width = int64_t{schedule_.lanes} * schedule_.unroll;
  Expr length = panel_rows(staged, row.offset) + (has_starts(staged) ? 1 : 0);
  length = length * width * ceildiv(scratch_length(*schedule_.lane_axis), width);
  const std::vector<AxisId>& axes = graph_[staged.load].axes;
  for (size_t i = axes.size(); i-- > 0;) {
    if (structure_.is_reduced(axes[i]) || axes[i] == schedule_.lane_axis) continue;
    row.offset = row.offset + Expr::index(static_cast<int>(axes[i].index)) * length;
    length = length * scratch_length(axes[i]);
  }
  row.offset = simplify(row.offset + Expr::symbol(panel_symbol(row.name), {.low = 0}));
  row.pointer = is_packed_once(graph_, structure_, staged.load)
                    ? pack_pointer(staged)
                    : scratch_pointer(row.name, row.dtype, length);
  return row;
}

// The panel of the open iteration over lanes. Whole blocks of vectors begin a panel; what is left behind them
// lies side by side in the last one.
void LaunchLowering::find_panel(const StagedLoad& staged) {
  const int64_t width = int64_t{schedule_.lanes} * schedule_.unroll;
  Expr unused;
  const Expr rows = panel_rows(staged, unused) + (has_starts(staged) ? 1 : 0);
  const Expr at = Expr::index(static_cast<int>(schedule_.lane_axis->index));
  const Expr start =
      copies_.lanes == schedule_.unroll ? at * rows : floordiv(at, width) * rows * width + mod(at, width);
  const std::string name = panel_symbol(staged_rows_.at(staged.load).name);
  const Code code = named(scopes_.depth(), name_of(staged.load) + "_panel", index_code(start));
  scopes_.remember("size " + name, {code, scopes_.depth(), false});
}

namespace {

// Of the coordinates in the panels' order, whatever their axes are called in this region.
std::string source_text(const TileGraph& graph, TileValueId load) {
  std::vector<Expr> places(graph.axes.size());
  int place = 0;
  for (const AxisId axis : graph[load].axes) places[axis.index] = Expr::index(place++);
  return to_text(substitute_indices(std::get<TileLoad>(graph[load].op).offset, places));
}

std::string dots_text(DotKind kind, DType dtype, bool has_starts) {
  return std::string(info(kind).name) + " of " + info(dtype).name +
         (has_starts ? " and what sums start from" : "");
}

}  // namespace

Schedule pack_schedule(const TileGraph& graph, const Structure& structure, const Schedule& schedule,
                       const StagedLoad& staged) {
  Schedule pack;
  pack.tile_graph = schedule.tile_graph;
  pack.target = schedule.target;
  pack.lanes = schedule.lanes;
  pack.lane_axis = schedule.lane_axis;
  pack.unroll = schedule.unroll;
  pack.walk = schedule.walk;
  pack.staged = {staged};
  pack.dots = schedule.dots;
  for (const AxisId axis : graph[staged.load].axes) {
    const bool is_lane_axis = axis == schedule.lane_axis;
    const int64_t tile = is_lane_axis ? int64_t{schedule.lanes} * schedule.unroll : 1;
    if (!structure.is_reduced(axis)) pack.grid.push_back({axis, tile});
  }
  return pack;
}

Pack pack_of(const LoweringFacts& packing) {
  const TileGraph& graph = packing.graph;
  const Schedule& pack = packing.schedule;
  const StagedLoad& staged = pack.staged.front();
  const bool in_dots = !packing.dots.empty(), has_starts = starts_from_panel(packing, staged.load);
  const auto& load = std::get<TileLoad>(graph[staged.load].op);
  Pack result;
  result.input = static_cast<int>(load.buffer.index);
  result.dtype = in_dots ? DType::I32 : info(graph[staged.load].dtype).compute;
  result.elements = 1;
  result.layout = source_text(graph, staged.load) + " as " +
                  (in_dots ? dots_text(pack.dots, graph[load.buffer].dtype, has_starts)
                           : std::string(info(result.dtype).name));
  for (const AxisId axis : graph[staged.load].axes) {
    const int64_t extent = graph[axis].extent.constant().value();
    const bool is_lane_axis = axis == pack.lane_axis;
    const bool is_summed = in_dots && packing.structure.is_reduced(axis);
    const int64_t step = is_summed ? info(pack.dots).count : 1;
    const int64_t multiple = is_lane_axis ? int64_t{pack.lanes} * pack.unroll
                             : axis == staged.contiguous || (packing.in_tiles && is_summed)
                                 ? int64_t{pack.lanes}
                                 : 1;
    result.elements *=
        (extent + multiple * step - 1) / (multiple * step) * multiple + (is_summed && has_starts ? 1 : 0);
    result.layout += ", " + std::to_string(extent) +
                     (is_lane_axis                         ? " panels of "
                      : packing.structure.is_reduced(axis) ? " rows by "
                                                           : " by ") +
                     std::to_string(multiple);
  }
  return result;
}

}  // namespace tilefuse
