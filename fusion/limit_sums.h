// What the systems of GPU schedules have in common: decisions that are numbers, and limits on sums of
// products of them.
//
//   at_most({{2, {times(kRows), times(kStages)}}, {8, {over(kWarps)}}}, 1024, "bytes", "so much fits");
//                                                    2*rows*stages + 8/warps <= 1024
#pragma once
#include <bit>
#include <initializer_list>
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
  // One of a few, by the numbers of their enumeration and the names that name_of gives them.
  template <class Choices>
  void add_choice(std::string name, std::initializer_list<Choices> choices) {
    Variable variable{std::move(name), {}};
    for (const Choices known : choices)
      variable.domain.push_back({static_cast<int64_t>(known), std::string(name_of(known))});
    system_.variables.push_back(std::move(variable));
  }
  template <class Choices>
  Factor is(VariableId variable, Choices wanted) const {
    return factor(variable, [&](double n) { return n == static_cast<double>(wanted) ? 1 : 0; });
  }
  template <class Choices>
  ValueSet values_beside(VariableId variable, Choices choice) const {
    return values_where(variable, [&](int64_t n) { return static_cast<Choices>(n) != choice; });
  }

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
