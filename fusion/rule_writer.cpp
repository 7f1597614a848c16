#include "fusion/rule_writer.h"

#include "fusion/matrix_tiles.h"

namespace tilefuse {

Choice RuleWriter::is(VariableId variable, int64_t number) const {
  return where(variable, [number](int64_t value) { return value == number; });
}

Choice RuleWriter::is_not(VariableId variable, int64_t number) const {
  return where(variable, [number](int64_t value) { return value != number; });
}

Choice RuleWriter::lane_axis_is_parallel(const Structure& structure) const {
  return where(system_.lane_axis, [&](int64_t axis) {
    return axis >= 0 && !structure.is_reduced(AxisId{static_cast<uint32_t>(axis)});
  });
}

std::optional<VariableId> RuleWriter::tile_variable(AxisId axis) const {
  for (const auto& [candidate, variable] : system_.grid) {
    if (candidate == axis) return variable;
  }
  return std::nullopt;
}

std::optional<AxisId> RuleWriter::row_axis_beside(int64_t lane_axis, int skipped) const {
  for (size_t i = system_.grid.size(); i-- > 0;) {
    if (system_.grid[i].first.index != lane_axis && skipped-- == 0) return system_.grid[i].first;
  }
  return std::nullopt;
}

std::vector<RowOrder> RuleWriter::row_orders() const {
  if (!system_.rows_along) return {RowOrder{}};
  const VariableId variable = *system_.rows_along;
  std::vector<RowOrder> orders;
  for (const DecisionValue& value : domain(variable))
    orders.push_back({value.number, {is(variable, value.number)}, {is_not(variable, value.number)}});
  return orders;
}

std::vector<Choice> RuleWriter::or_staged(std::vector<Choice> choices) const {
  for (const auto& [load, stage] : system_.stage) choices.push_back(is_not(stage, -1));
  return choices;
}

Factor RuleWriter::number_of(VariableId variable) const {
  return factor(variable, [](int64_t number) { return double(number); });
}

Factor RuleWriter::if_equal(VariableId variable, int64_t number) const {
  return factor(variable, [number](int64_t value) { return value == number ? 1.0 : 0.0; });
}

Factor RuleWriter::rows_written_out() const {
  return factor(system_.rows, [](int64_t rows) { return takes_tile_rows(rows) ? 0.0 : double(rows); });
}

void RuleWriter::require(std::vector<Choice> choices, std::string origin) {
  for (const Choice& choice : choices) {
    if (choice.values == system_.constraints.all_values(choice.variable)) return;  // always holds
  }
  if (choices.size() > 1) std::erase_if(choices, [](const Choice& choice) { return choice.values == 0; });
  system_.constraints.constraints.push_back({AnyOf{std::move(choices)}, std::move(origin), kind_});
}

void RuleWriter::require(AtMost rule, std::string origin) {
  system_.constraints.constraints.push_back({std::move(rule), std::move(origin), kind_});
}

void RuleWriter::require(MultipleOf rule, std::string origin) {
  system_.constraints.constraints.push_back({std::move(rule), std::move(origin), kind_});
}

}  // namespace tilefuse
