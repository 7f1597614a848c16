// What the systems of GPU schedules have in common: decisions that are numbers, and limits on sums of
// products of them.
//
//   at_most({{2, {times(kRows), times(kStages)}}, {8, {over(kWarps)}}}, 1024, "bytes", "so much fits");
//                                                    2*rows*stages + 8/warps <= 1024
#pragma once
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "fusion/constraints.h"

namespace tilefuse {

class LimitSums {
 protected:
  LimitSums(std::string tile_graph, std::string target) {
    system_.tile_graph = std::move(tile_graph);
    system_.target = std::move(target);
  }

  void add_numbers(std::string name, const std::vector<int>& values) {
    Variable variable{std::move(name), {}};
    for (const int value : values) variable.domain.push_back({value, std::to_string(value)});
    system_.variables.push_back(std::move(variable));
  }
  void at_most(std::vector<Product> sum, double limit, std::string unit, std::string origin,
               ConstraintKind kind = ConstraintKind::Limit);
  void any_of(std::vector<Choice> choices, std::string origin);
  void add(decltype(Constraint::rule) rule, std::string origin, ConstraintKind kind);
  template <class Fn>
  ValueSet values_where(VariableId variable, const Fn& allows) const {
    ValueSet values = 0, bit = 1;
    for (const DecisionValue& value : system_.variables[variable.index].domain) {
      values |= allows(value.number) ? bit : 0;
      bit <<= 1U;
    }
    return values;
  }

  // What `of` makes of the number of each value of a variable.
  template <class Fn>
  Factor factor(VariableId variable, const Fn& of) const {
    Factor result{variable, {}, {}};
    for (const DecisionValue& value : system_.variables[variable.index].domain) {
      result.by_value.push_back(of(double(value.number)));
    }
    return result;
  }
  Factor times(VariableId variable) const {
    return factor(variable, [](double n) { return n; });
  }
  Factor over(VariableId variable) const {
    return factor(variable, [](double n) { return 1 / n; });
  }

  ConstraintSystem system_;
};

// Of a variable in an assignment, where every domain has one value.
inline const DecisionValue& value_in(const ConstraintSystem& system, const Domains& assignment,
                                     VariableId variable) {
  return system.variables[variable.index].domain[size_t(std::countr_zero(assignment[variable.index]))];
}
inline int number_in(const ConstraintSystem& system, const Domains& assignment, VariableId variable) {
  return static_cast<int>(value_in(system, assignment, variable).number);
}

}  // namespace tilefuse
