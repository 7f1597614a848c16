#include "fusion/schedule_limits.h"

#include <algorithm>
#include <limits>

#include "fusion/contraction.h"
#include "fusion/dots.h"
#include "fusion/panels.h"
#include "fusion/row_limits.h"
#include "fusion/rule_writer.h"
#include "fusion/scan.h"
#include "fusion/scatter.h"
#include "fusion/tile_limits.h"

namespace tilefuse {
namespace {

constexpr int kLineBytes = 64;
constexpr double kUnbounded = 1e300;

double largest_extent(const TileGraph& graph, AxisId axis) {
  const int64_t high = bounds(graph[axis].extent).high;
  return high == std::numeric_limits<int64_t>::max() ? kUnbounded : double(high);
}

bool reads_nothing_twice(const TileGraph& graph, const Structure& structure,
                         const std::vector<TileValueId>& keep) {
  std::vector<bool> read(graph.values.size(), false);
  for (const std::vector<TileValueId>& pass : values_of_passes(graph, structure, keep)) {
    for (TileValueId value : pass) {
      if (!std::holds_alternative<TileLoad>(graph[value].op)) continue;
      if (read[value.index]) return false;
      read[value.index] = true;
    }
  }
  return true;
}

class LimitWriter : private RuleWriter {
 public:
  LimitWriter(const TileGraph& graph, const Target& target, const RegionFacts& facts, ScheduleSystem& system)
      : RuleWriter(system, ConstraintKind::Limit),
        graph_(graph),
        target_(target),
        structure_(facts.structure),
        facts_(facts),
        system_(system) {}

  void add_lanes();
  void add_registers();
  void add_grid();
  void add_walk();
  void add_online();
  void add_keep();
  void add_split();
  void add_accumulate();
  void add_stage();
  void add_stores();
  void add_scatter();

 private:
  bool has_reductions() const { return !structure_.reductions.empty(); }
  const std::string& name(AxisId axis) const { return graph_[axis].name; }
  bool varies(TileValueId value, AxisId axis) const {
    return std::binary_search(graph_[value].axes.begin(), graph_[value].axes.end(), axis);
  }
  void add_kept_bytes(TileValueId value, VariableId keep, AtMost& fits) const;
  std::string why_never_staged(TileValueId load) const;
  void add_staged_load(TileValueId load, VariableId stage, AxisId contiguous);
  void add_turned_columns(TileValueId load, const Choice& elsewhere, AxisId contiguous);
  void add_panel(TileValueId load, VariableId stage);
  Product panel_bytes(TileValueId load, VariableId stage) const;
  void add_streamed_store(BufferId buffer, VariableId store);
  bool has_aligned_rows(BufferId buffer, AxisId lane_axis) const;

  const TileGraph& graph_;
  const Target& target_;
  const Structure& structure_;
  const RegionFacts& facts_;
  ScheduleSystem& system_;
};

void LimitWriter::add_lanes() {
  const std::string together = "a lane axis goes with more than one lane";
  require({is_not(system_.lanes, 1), is(system_.lane_axis, -1)}, together);
  require({is(system_.lanes, 1), is_not(system_.lane_axis, -1)}, together);
  require({is_not(system_.lane_axis, -1), is(system_.unroll, 1)}, "unroll needs a lane axis");
  for (TileValueId reduction : structure_.reductions) {
    const auto* scan = std::get_if<TileScan>(&graph_[reduction].op);
    if (scan == nullptr || may_have_lanes(graph_[reduction])) continue;
    require({lane_axis_is_not(scan->axis)}, "%" + graph_[reduction].name + " is a logical scan along " +
                                                name(scan->axis) + ", which cannot be the lane axis");
  }
}

void LimitWriter::add_registers() {
  const auto single = double(structure_.reductions.size());
  if (single == 0) return;
  AtMost fits{{}, std::max(single, double(target_.vector_registers - 1)), "registers"};
  fits.sum.push_back({single,
                      {if_equal(system_.accumulate, 0), rows_written_out(), number_of(system_.columns),
                       number_of(system_.unroll),
                       factor(system_.lanes, [](int64_t lanes) { return lanes > 1 ? 1.0 : 0.0; })}});
  if (has_contraction(graph_)) {  // of one operand a vector for each column, of the other one at a time
    fits.sum.push_back({1, {if_equal(system_.accumulate, 0), number_of(system_.unroll)}});
  }
  require(std::move(fits), "accumulators of " + std::to_string(structure_.reductions.size()) +
                               " reductions fit the vector registers");
}

void LimitWriter::add_grid() {
  for (const auto& [axis, tile] : system_.grid) {
    require(MultipleOf{{lane_axis_is(axis)}, tile, {system_.lanes, system_.unroll}},
            "the tile of the lane axis " + name(axis) + " is whole vectors");
  }
}

void LimitWriter::add_walk() {
  const auto walk = [&](Walk kind) { return static_cast<int64_t>(kind); };
  if (!has_reductions()) {
    require({is(system_.walk, walk(Walk::None))}, "there is no reduction to walk");
    return;
  }
  require({is_not(system_.walk, walk(Walk::None))}, "a region with reductions needs a walk");
  add_online();
  if (structure_.passes <= 1) {
    require({is_not(system_.walk, walk(Walk::Resident))},
            "resident needs a second pass over the reduced axes");
    return;
  }
  const std::vector<TileValueId> resident = resident_values(graph_, structure_);
  if (!reads_nothing_twice(graph_, structure_, resident)) {
    require({is_not(system_.walk, walk(Walk::Resident))},
            "resident would read again what a later pass computes something else of");
  }
  for (const auto& [value, keep] : system_.keep) {
    if (std::find(resident.begin(), resident.end(), value) == resident.end()) continue;
    require({is_not(system_.walk, walk(Walk::Resident)), is(keep, 1)},
            "a resident walk keeps %" + graph_[value].name + ", which a later pass reads");
  }
}

void LimitWriter::add_online() {
  const Choice other = is_not(system_.walk, static_cast<int64_t>(Walk::Online));
  if (!facts_.online) {
    require({other}, "no online walk: " + facts_.why_not_online);
    return;
  }
  require({other, is(system_.rows, 1)}, "an online walk corrects one row at a time");
  for (const auto& [value, keep] : system_.keep) {
    require({other, is(keep, 0)}, "an online walk reads %" + graph_[value].name + " again, nothing is kept");
  }
}

// Bytes of a kept value in one task: all of its reduced axes, one block of rows, or the vectors of one
// iteration where the lane axis is parallel.
void LimitWriter::add_kept_bytes(TileValueId value, VariableId keep, AtMost& fits) const {
  double bytes = held_bytes(graph_[value].dtype);
  for (AxisId axis : graph_[value].axes) {
    if (structure_.is_reduced(axis)) bytes = std::min(kUnbounded, bytes * largest_extent(graph_, axis));
  }
  Factor held{system_.lane_axis, {}, {}};
  for (const DecisionValue& lane : domain(system_.lane_axis)) {
    std::vector<VariableId> times;
    const std::optional<AxisId> row = row_axis_beside(lane.number);
    if (row && varies(value, *row)) times.push_back(system_.rows);
    const AxisId axis{static_cast<uint32_t>(std::max<int64_t>(lane.number, 0))};
    if (lane.number >= 0 && !structure_.is_reduced(axis) && varies(value, axis)) {
      times.insert(times.end(), {system_.lanes, system_.unroll});
    }
    held.by_value.push_back(1);
    held.times.push_back(std::move(times));
  }
  fits.sum.push_back({bytes, {if_equal(keep, 1), std::move(held)}});
}

void LimitWriter::add_keep() {
  if (system_.keep.empty()) return;
  AtMost fits{{}, double(target_.l2_bytes) / 2, "B"};
  for (const auto& [value, keep] : system_.keep) {
    double elements = 1;
    std::string axes;
    for (AxisId axis : graph_[value].axes) {
      if (!structure_.is_reduced(axis)) continue;
      elements *= largest_extent(graph_, axis);
      if (largest_extent(graph_, axis) == kUnbounded) axes = name(axis);
    }
    if (elements < kUnbounded) {
      add_kept_bytes(value, keep, fits);
    } else {
      require({is(keep, 0)}, "%" + graph_[value].name + " has no known size along " + axes +
                                 " and cannot be kept in scratch");
    }
  }
  if (!fits.sum.empty()) require(std::move(fits), "kept values fit half of L2");
}

void LimitWriter::add_split() {
  std::string why;
  if (!has_reductions()) why = "there is no reduction to split";
  const bool merges = facts_.online && facts_.online->can_split;
  if (structure_.passes > 1 && !merges) why = "the reductions of one level are wanted by a later pass";
  if (structure_.passes > 1 && merges) {
    require({is(system_.walk, static_cast<int64_t>(Walk::Online)), is(system_.split, 1)},
            "the reductions of one level are wanted by a later pass: only an online walk merges parts");
  }
  if (facts_.has_scan) why = "a scan runs through its axis in order";
  if (facts_.has_index_reduction) why = "a reduction finds a position";
  if (!why.empty()) require({is(system_.split, 1)}, "no split: " + why);
}

void LimitWriter::add_accumulate() {
  std::string why;
  if (!has_reductions()) why = "there is no reduction";
  if (structure_.passes > 1) why = "a later pass walks the reduced axes again";
  if (facts_.has_scan) why = "a scan runs through its axis in order";
  if (facts_.has_index_reduction) why = "a reduction finds a position";
  if (!why.empty()) {
    require({is(system_.accumulate, 0)}, "accumulators stay in registers: " + why);
    return;
  }
  require({is(system_.accumulate, 0), lane_axis_is_parallel(structure_)},
          "accumulators in scratch need a parallel lane axis");
}

void LimitWriter::add_staged_load(TileValueId load, VariableId stage, AxisId contiguous) {
  const std::string what = "%" + graph_[load].name;
  const auto& op = std::get<TileLoad>(graph_[load].op);
  const Choice elsewhere = is_not(stage, contiguous.index);
  if (!guarded_span(op, contiguous)) return require({elsewhere}, what + " is guarded");
  const Choice across = where(system_.lane_axis, [&](int64_t number) {
    const AxisId axis{static_cast<uint32_t>(std::max<int64_t>(number, 0))};
    if (number < 0 || axis == contiguous) return false;
    const std::optional<Expr> stride = stride_along(graph_, op, axis);
    return stride && !stride->is_constant(0);
  });
  require({elsewhere, across},
          what + " is turned from " + name(contiguous) + " to a lane axis that it walks in even steps");
  const Choice here = is(stage, contiguous.index);
  require(MultipleOf{{here}, *tile_variable(contiguous), {system_.lanes}},
          "the tile of " + name(contiguous) + " is whole blocks of " + what);
  if (has_reductions()) {
    const std::string whole = what + " is turned for whole walks that add in registers";
    require({elsewhere, is(system_.split, 1)}, whole);
    require({elsewhere, is(system_.accumulate, 0)}, whole);
    require({elsewhere, is_not(system_.walk, static_cast<int64_t>(Walk::Online))}, whole);
  }
  add_turned_columns(load, elsewhere, contiguous);
  double element_bytes = 4;
  for (const AxisId axis : structure_.reduced) {
    if (varies(load, axis)) element_bytes *= largest_extent(graph_, axis);
  }
  element_bytes = std::min(kUnbounded, element_bytes);
  AtMost fits{{{element_bytes, {if_equal(stage, contiguous.index)}}}, double(target_.l2_bytes) / 2, "B"};
  for (const auto& [axis, tile] : system_.grid) {
    if (!varies(load, axis)) continue;
    const double all = largest_extent(graph_, axis);
    fits.sum[0].factors.push_back(
        factor(tile, [all](int64_t number) { return number == 0 ? all : double(number); }));
  }
  require(std::move(fits), "the turned tile of " + what + " fits half of L2");
}

// The tile is turned inside the loop over columns, where one of them is bound.
void LimitWriter::add_turned_columns(TileValueId load, const Choice& elsewhere, AxisId contiguous) {
  for (const DecisionValue& lane : domain(system_.lane_axis)) {
    const std::optional<AxisId> column = row_axis_beside(lane.number, 1);
    if (lane.number < 0 || row_axis_beside(lane.number) != contiguous || !column) continue;
    if (!varies(load, *column)) continue;
    require({elsewhere, is_not(system_.lane_axis, lane.number), is(system_.columns, 1)},
            "%" + graph_[load].name + " is turned for one column at a time");
  }
}

// All of the reduced axes, or a part of the outermost one, for the vectors of one iteration.
Product LimitWriter::panel_bytes(TileValueId load, VariableId stage) const {
  const bool in_dots = is_panel_of_dots(graph_, structure_, load, system_.dots);
  double column_bytes = in_dots ? 4.0 / info(system_.dots).count : 4;
  for (AxisId axis : structure_.reduced) {
    if (varies(load, axis)) column_bytes = std::min(kUnbounded, column_bytes * largest_extent(graph_, axis));
  }
  const Factor is_packed = factor(stage, [](int64_t axis) { return axis >= 0 ? 1.0 : 0.0; });
  Product bytes{column_bytes, {is_packed, number_of(system_.lanes), number_of(system_.unroll)}};
  if (varies(load, structure_.reduced.front())) {
    bytes.factors.push_back(factor(system_.split, [](int64_t parts) { return 1 / double(parts); }));
  }
  return bytes;
}

// A panel is read by every row of a task, and lies in scratch as vectors of the lane axis.
void LimitWriter::add_panel(TileValueId load, VariableId stage) {
  const std::string what = "%" + graph_[load].name;
  const auto& op = std::get<TileLoad>(graph_[load].op);
  const Choice direct = is(stage, -1);
  for (const DecisionValue& lane : domain(system_.lane_axis)) {
    const AxisId axis{static_cast<uint32_t>(std::max<int64_t>(lane.number, 0))};
    const std::optional<AxisId> row = row_axis_beside(lane.number);
    const bool is_parallel = lane.number >= 0 && !structure_.is_reduced(axis);
    const Choice along = where(stage, [&](int64_t number) {
      if (number < 0) return true;
      const AxisId contiguous{static_cast<uint32_t>(number)};
      const auto stride = is_parallel ? stride_along(graph_, op, axis) : std::nullopt;
      const bool has_lanes = stride && !stride->is_constant(0);
      return has_lanes && (contiguous == axis || structure_.is_reduced(contiguous));
    });
    const Choice elsewhere = is_not(system_.lane_axis, lane.number);
    require({elsewhere, along}, "a panel of " + what + " is contiguous along its lanes or a reduced axis");
    if (along.values == direct.values || !row || !varies(load, *row)) continue;
    require({elsewhere, direct}, what + " is not shared by rows of " + name(*row));
  }
  require({direct, is(system_.accumulate, 0)}, "a panel of " + what + " goes with accumulators in registers");
  require({direct, is_not(system_.walk, static_cast<int64_t>(Walk::Online))},
          "a panel of " + what + " lies outside the blocks of an online walk");
}

std::string LimitWriter::why_never_staged(TileValueId load) const {
  const auto& op = std::get<TileLoad>(graph_[load].op);
  const std::string what = "%" + graph_[load].name;
  if (structure_.contracts && !is_shared_by_rows(graph_, structure_, load)) {
    return what + " is turned only where nothing is multiplied, and no rows share it";
  }
  if (!op.gathered.empty() || (structure_.contracts && !op.guard.empty()))
    return what + " is gathered or guarded";
  if (held_bytes(graph_[load].dtype) > 4) return what + " has elements of more than 4 bytes";
  return "";
}

void LimitWriter::add_stage() {
  AtMost panels{{}, double(target_.l2_bytes) / 2, "B"};
  for (const auto& [load, stage] : system_.stage) {
    const std::string why = why_never_staged(load);
    if (!why.empty()) {
      require({is(stage, -1)}, why);
      continue;
    }
    if (structure_.contracts) {
      add_panel(load, stage);
      if (!is_packed_once(graph_, structure_, load)) panels.sum.push_back(panel_bytes(load, stage));
      continue;
    }
    for (const DecisionValue& value : domain(stage)) {
      if (value.number >= 0) add_staged_load(load, stage, AxisId{static_cast<uint32_t>(value.number)});
    }
  }
  if (!panels.sum.empty()) require(std::move(panels), "packed panels fit half of L2");
}

bool LimitWriter::has_aligned_rows(BufferId buffer, AxisId lane_axis) const {
  const int line = kLineBytes / size_in_bytes(graph_[buffer].dtype);
  for (const TileStore& store : graph_.stores) {
    if (store.buffer != buffer) continue;
    const std::optional<Affine> along = affine_in(store.offset, static_cast<int>(lane_axis.index));
    if (!along || !along->coefficient.is_constant(1) || !is_multiple_of(along->rest, line)) return false;
  }
  return true;
}

void LimitWriter::add_streamed_store(BufferId buffer, VariableId store) {
  const std::string what = "%" + graph_[buffer].name;
  const Choice cached = is_not_streamed(store);
  const Choice aligned = where(system_.lane_axis, [&](int64_t axis) {
    return axis >= 0 && has_aligned_rows(buffer, AxisId{static_cast<uint32_t>(axis)});
  });
  require({cached, aligned}, "a streamed " + what + " has rows of whole lines along the lane axis");
  const int bytes = size_in_bytes(graph_[buffer].dtype);
  for (const DecisionValue& lanes : domain(system_.lanes)) {
    const Choice whole = where(
        system_.unroll, [&](int64_t unroll) { return lanes.number * unroll * bytes % kLineBytes == 0; });
    require({cached, is_not(system_.lanes, lanes.number), whole},
            "a streamed " + what + " is written in whole lines");
  }
}

void LimitWriter::add_stores() {
  for (const auto& [buffer, store] : system_.store) add_streamed_store(buffer, store);
}

// Elements that may meet in one place are written by one task, in order.
void LimitWriter::add_scatter() {
  if (!scatters(graph_)) return;
  for (const MeetingAxis& meeting : meeting_axes(graph_)) {
    const std::string meets = "elements of a scatter may meet along " + name(meeting.axis);
    require({lane_axis_is_not(meeting.axis)}, meets + ", which cannot be the lane axis");
    const auto tile = tile_variable(meeting.axis);
    if (!tile) continue;
    const int64_t within = meeting.within;
    const Choice whole =
        where(*tile, [&](int64_t number) { return number == 0 || (within > 0 && number % within == 0); });
    require({whole}, meets + (within > 0 ? " within " + std::to_string(within) + ": a task takes whole pieces"
                                         : ": a task takes all of it"));
  }
  for (const MeetingAxis& meeting : meeting_axes(graph_)) {
    if (meeting.within == 0) continue;
    const Choice of_one = where(system_.rows, [&](int64_t rows) { return meeting.within % rows == 0; });
    for (const DecisionValue& lane : domain(system_.lane_axis)) {
      if (row_axis_beside(lane.number) != meeting.axis) continue;
      require({is_not(system_.lane_axis, lane.number), of_one},
              "rows side by side go to one of the pieces of " + std::to_string(meeting.within));
    }
  }
  require({is(system_.split, 1)}, "no split: a scatter writes element after element");
  require({is(system_.columns, 1)}, "a scatter walks blocks of columns in another order");
  for (const TileStore& store : graph_.stores) {
    if (!store.scatter) continue;
    for (const auto& [buffer, path] : system_.store) {
      const std::string why = "%" + graph_[buffer].name + " is scattered into, which reads what is there";
      if (buffer == store.buffer) require({is_not_streamed(path)}, why);
    }
  }
}

}  // namespace

std::vector<TileValueId> resident_values(const TileGraph& graph, const Structure& structure) {
  std::vector<TileValueId> keep = crossing_values(graph, structure);
  for (size_t i = keep.size(); i-- > 0;) {  // drop what the others make superfluous, the latest first
    std::vector<TileValueId> without = keep;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (reads_nothing_twice(graph, structure, without)) keep = std::move(without);
  }
  return keep;
}

void add_limits(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                ScheduleSystem& system) {
  LimitWriter writer(graph, target, facts, system);
  writer.add_lanes();
  writer.add_registers();
  writer.add_grid();
  writer.add_walk();
  writer.add_keep();
  add_row_limits(graph, facts, system);
  writer.add_split();
  writer.add_accumulate();
  writer.add_stage();
  writer.add_stores();
  writer.add_scatter();
  add_tile_limits(graph, facts, system);
}

}  // namespace tilefuse
