// Small words for writing rules over the variables of a schedule: `is(lanes, 1)`, `require({...}, "why")`.
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

// An axis that rows may go along; -1: the innermost one beside the lanes. No choices: there is no other.
struct RowOrder {
  int64_t axis = -1;
  std::vector<Choice> here, elsewhere;  // where rows go along it, and where they don't
};

class RuleWriter {
 public:
  RuleWriter(ScheduleSystem& system, ConstraintKind kind) : system_(system), kind_(kind) {}

  const std::vector<DecisionValue>& domain(VariableId variable) const {
    return system_.constraints.variables[variable.index].domain;
  }
  // The choice of all values whose number satisfies the predicate.
  template <class Predicate>
  Choice where(VariableId variable, const Predicate& predicate) const {
    Choice choice{variable, 0};
    for (size_t i = 0; i < domain(variable).size(); ++i) {
      if (predicate(domain(variable)[i].number)) choice.values |= ValueSet{1} << i;
    }
    return choice;
  }
  Choice is(VariableId variable, int64_t number) const;
  Choice is_not(VariableId variable, int64_t number) const;
  Choice is_not_streamed(VariableId store) const {
    return is_not(store, static_cast<int64_t>(StorePath::Streamed));
  }
  Choice lane_axis_is(AxisId axis) const { return is(system_.lane_axis, axis.index); }
  Choice lane_axis_is_not(AxisId axis) const { return is_not(system_.lane_axis, axis.index); }
  Choice lane_axis_is_parallel(const Structure& structure) const;

  // A factor that maps each value's number.
  template <class ValueOf>
  Factor factor(VariableId variable, const ValueOf& value_of) const {
    Factor result{variable, {}, {}};
    for (const DecisionValue& value : domain(variable)) result.by_value.push_back(value_of(value.number));
    return result;
  }
  Factor number_of(VariableId variable) const;
  Factor if_equal(VariableId variable, int64_t number) const;  // 1 or 0

  std::optional<VariableId> tile_variable(AxisId axis) const;
  // The `skipped`-th axis of the grid from inside that is not the lane axis; -1: there are no lanes.
  std::optional<AxisId> row_axis_beside(int64_t lane_axis, int skipped = 0) const;
  std::vector<RowOrder> row_orders() const;

  // Or some load is turned, or packed: what is walked lies in scratch then.
  std::vector<Choice> or_staged(std::vector<Choice> choices) const;

  Factor rows_written_out() const;  // those of matrix tiles are walked by a loop: 0

  // A rule that always holds is left out.
  void require(std::vector<Choice> choices, std::string origin);
  void require(AtMost rule, std::string origin);
  void require(MultipleOf rule, std::string origin);

 private:
  ScheduleSystem& system_;
  ConstraintKind kind_;
};

}  // namespace tilefuse
