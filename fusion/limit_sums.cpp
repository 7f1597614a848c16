#include "fusion/limit_sums.h"

namespace tilefuse {

void LimitSums::add(decltype(Constraint::rule) rule, std::string origin, ConstraintKind kind) {
  system_.constraints.push_back({std::move(rule), std::move(origin), kind});
}

void LimitSums::at_most(std::vector<Product> sum, double limit, std::string unit, std::string origin,
                        ConstraintKind kind) {
  add(AtMost{std::move(sum), limit, std::move(unit)}, std::move(origin), kind);
}

void LimitSums::any_of(std::vector<Choice> choices, std::string origin) {
  add(AnyOf{std::move(choices)}, std::move(origin), ConstraintKind::Limit);
}

}  // namespace tilefuse
