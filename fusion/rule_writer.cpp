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
