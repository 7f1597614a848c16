#include "fusion/row_limits.h"

#include <algorithm>

#include "fusion/rule_writer.h"

namespace tilefuse {
namespace {

constexpr const char* kRowsShareNothing = "there is no reduction, and nothing that rows would share";

class RowLimitWriter : private RuleWriter {
 public:
  RowLimitWriter(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system)
      : RuleWriter(system, ConstraintKind::Limit),
        graph_(graph),
        facts_(facts),
        structure_(facts.structure),
        system_(system) {}

  void add_rows();
  void add_columns();

 private:
  bool has_reductions() const { return !structure_.reductions.empty(); }
  const std::string& name(AxisId axis) const { return graph_[axis].name; }
  std::optional<AxisId> row_axis(int64_t lane_axis, const RowOrder& order) const;
  bool rows_share(int64_t lane_axis, std::optional<AxisId> row) const;
  void add_rows_beside(const DecisionValue& lane, const RowOrder& order);
  void add_rows_along();

  const TileGraph& graph_;
  const RegionFacts& facts_;
  const Structure& structure_;
  ScheduleSystem& system_;
};

std::optional<AxisId> RowLimitWriter::row_axis(int64_t lane_axis, const RowOrder& order) const {
  if (order.axis < 0) return row_axis_beside(lane_axis);
  return AxisId{static_cast<uint32_t>(order.axis)};
}

bool RowLimitWriter::rows_share(int64_t lane_axis, std::optional<AxisId> row) const {
  if (has_reductions() || lane_axis < 0 || !row) return has_reductions();
  const AxisId lanes{static_cast<uint32_t>(lane_axis)};
  return rows_share_work(graph_, lanes, *row) || facts_.shared_reads.any_along(*row, lanes);
}

void RowLimitWriter::add_rows_beside(const DecisionValue& lane, const RowOrder& order) {
  const std::optional<AxisId> row = row_axis(lane.number, order);
  std::vector<Choice> one_row = order.elsewhere, when = order.here;
  one_row.insert(one_row.end(), {is_not(system_.lane_axis, lane.number), is(system_.rows, 1)});
  when.push_back(is(system_.lane_axis, lane.number));
  if (!row) {
    require(std::move(one_row), "there is no parallel axis to take rows from");
  } else if (!rows_share(lane.number, row)) {
    require(std::move(one_row), kRowsShareNothing);
  } else {
    require(MultipleOf{std::move(when), *tile_variable(*row), {system_.rows}},
            "the tile of " + name(*row) + " is whole blocks of rows");
  }
}

void RowLimitWriter::add_rows_along() {
  if (!system_.rows_along) return;
  const VariableId along = *system_.rows_along;
  require({is(along, -1), is_not(system_.rows, 1)},
          "rows side by side go along another axis, not a single one");
  for (const DecisionValue& value : domain(along)) {
    if (value.number < 0) continue;
    require({is_not(along, value.number), is_not(system_.lane_axis, value.number)},
            "rows do not go along the lanes");
  }
}

void RowLimitWriter::add_rows() {
  add_rows_along();
  const std::vector<DecisionValue>& lanes = domain(system_.lane_axis);
  const std::vector<RowOrder> orders = row_orders();
  const bool any = std::ranges::any_of(orders, [&](const RowOrder& order) {
    return std::ranges::any_of(lanes, [&](const DecisionValue& lane) {
      return rows_share(lane.number, row_axis(lane.number, order));
    });
  });
  if (!any) return require({is(system_.rows, 1)}, kRowsShareNothing);
  if (has_reductions())
    require({is(system_.accumulate, 0), is(system_.rows, 1)}, "accumulators in scratch are a row already");
  for (const RowOrder& order : orders) {
    for (const DecisionValue& lane : lanes) {
      if (order.axis < 0 || lane.number != order.axis) add_rows_beside(lane, order);
    }
  }
}

void RowLimitWriter::add_columns() {
  if (!has_reductions() || structure_.passes > 1 || facts_.has_scan || facts_.has_index_reduction) {
    require({is(system_.columns, 1)}, "columns are sums of one pass that rows share");
    return;
  }
  const Choice reduced = where(system_.lane_axis, [&](int64_t axis) {
    return axis >= 0 && structure_.is_reduced(AxisId{static_cast<uint32_t>(axis)});
  });
  require({is(system_.columns, 1), reduced}, "columns beside rows need lanes along a reduced axis");
  for (const DecisionValue& lane : domain(system_.lane_axis)) {
    const std::optional<AxisId> column = row_axis_beside(lane.number, 1);
    if (!column) {
      require({is_not(system_.lane_axis, lane.number), is(system_.columns, 1)},
              "there is no second parallel axis to take columns from");
      continue;
    }
    require(MultipleOf{{is(system_.lane_axis, lane.number)}, *tile_variable(*column), {system_.columns}},
            "the tile of " + name(*column) + " is whole blocks of columns");
  }
}

}  // namespace

void add_row_limits(const TileGraph& graph, const RegionFacts& facts, ScheduleSystem& system) {
  RowLimitWriter writer(graph, facts, system);
  writer.add_rows();
  writer.add_columns();
}

}  // namespace tilefuse
