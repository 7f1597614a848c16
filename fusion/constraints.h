// Decisions with finite domains, and the rules between them: what a schedule may be.
//
//   constraints softmax_0 for x86-zen4 {
//     lane_axis in {col, row, none}
//     lanes     in {16, 1}
//     ...
//     lanes in {1} or lane_axis in {col, row}        // a lane axis goes with more than one lane
//     4096 * keep.e + ... <= 524288 B                // kept values fit half of L2
//   }
//
// Every rule carries its origin in words; a refusal quotes them. Rules are of three closed kinds, so that
// they can be printed, propagated, and checked by brute force.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/id.h"

namespace tilefuse {

using VariableId = Id<struct VariableTag>;
using ValueSet = uint64_t;  // bit i: the i-th value of a domain

struct DecisionValue {
  int64_t number = 0;
  std::string text;  // "16", "col", "all", "streamed"
};
struct Variable {
  std::string name;                   // "lanes", "grid.row", "keep.e"
  std::vector<DecisionValue> domain;  // at most 64, the preferred first
};

struct Choice {  // the variable has one of these values
  VariableId variable;
  ValueSet values = 0;
};
struct AnyOf {  // at least one choice holds
  std::vector<Choice> choices;
};
struct Factor {
  VariableId variable;
  std::vector<double> by_value;  // not negative
  // Empty, or for each value the variables whose numbers multiply it: "lane_axis{col: rows, row: lanes}".
  std::vector<std::vector<VariableId>> times;
};
struct Product {
  double constant = 1;
  std::vector<Factor> factors;
};
struct AtMost {  // sum of the products <= limit
  std::vector<Product> sum;
  double limit = 0;
  std::string unit;  // "B", "registers"
};
struct MultipleOf {  // tile % (product of the factors' numbers) == 0, when all conditions hold
  std::vector<Choice> when;
  VariableId tile;
  std::vector<VariableId> factors;
};

enum class ConstraintKind : uint8_t {
  Limit,       // of the target, or of what kernels can do
  Preference,  // never better broken; not set up for a decision that the user has made
  Pin,
};
struct Constraint {
  std::variant<AnyOf, AtMost, MultipleOf> rule;
  std::string origin;
  ConstraintKind kind = ConstraintKind::Limit;
};

using Domains = std::vector<ValueSet>;  // by VariableId: what is still possible

struct ConstraintSystem {
  std::string tile_graph, target;
  std::vector<Variable> variables;
  std::vector<Constraint> constraints;

  std::optional<VariableId> find(const std::string& name) const;
  ValueSet all_values(VariableId variable) const;
  Domains all_domains() const;
};

std::vector<VariableId> variables_of(const Constraint& constraint);  // sorted, unique
// Over an assignment: every domain has one value.
bool holds(const ConstraintSystem& system, const Constraint& constraint, const Domains& assignment);
// Removes values that no choice of the other variables can save; false: a domain is empty. `variables` are
// those of the constraint.
bool narrow(const ConstraintSystem& system, const Constraint& constraint,
            const std::vector<VariableId>& variables, Domains& domains);
// For AtMost: the least the sum can be within these domains.
double least_sum(const ConstraintSystem& system, const AtMost& rule, const Domains& domains);

std::string to_text(const ConstraintSystem& system);
std::string to_text(const ConstraintSystem& system, const Constraint& constraint);  // without the origin

}  // namespace tilefuse
