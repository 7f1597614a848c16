#include "fusion/constraints.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Visit>
void for_each_value(ValueSet set, const Visit& visit) {
  for (; set != 0; set &= set - 1) visit(static_cast<size_t>(std::countr_zero(set)));
}

// ---------------------------------------------------------------- any of
bool narrow_any_of(const AnyOf& rule, Domains& domains) {
  const Choice* open = nullptr;
  for (const Choice& choice : rule.choices) {
    const ValueSet domain = domains[choice.variable.index];
    if ((domain & ~choice.values) == 0) return true;  // holds already
    if ((domain & choice.values) == 0) continue;
    if (open != nullptr) return true;  // two may still save it
    open = &choice;
  }
  if (open == nullptr) return false;
  domains[open->variable.index] &= open->values;
  return true;
}

// ---------------------------------------------------------------- at most
double smallest_number(const ConstraintSystem& system, VariableId variable, ValueSet domain) {
  double least = kInfinity;
  for_each_value(domain, [&](size_t value) {
    least = std::min(least, double(system.variables[variable.index].domain[value].number));
  });
  return least;
}

double smallest(const ConstraintSystem& system, const Factor& factor, const Domains& domains) {
  double least = kInfinity;
  for_each_value(domains[factor.variable.index], [&](size_t value) {
    double number = factor.by_value[value];
    if (!factor.times.empty()) {
      for (VariableId times : factor.times[value]) {
        number *= smallest_number(system, times, domains[times.index]);
      }
    }
    least = std::min(least, number);
  });
  return least;
}

double lower_bound(const ConstraintSystem& system, const Product& product, const Domains& domains) {
  double bound = product.constant;
  for (const Factor& factor : product.factors) bound *= smallest(system, factor, domains);
  return bound;
}

bool within_limit(const ConstraintSystem& system, const AtMost& rule, const Domains& domains) {
  return least_sum(system, rule, domains) <= rule.limit;
}

bool narrow_at_most(const ConstraintSystem& system, const AtMost& rule,
                    const std::vector<VariableId>& variables, Domains& domains) {
  if (!within_limit(system, rule, domains)) return false;
  for (VariableId variable : variables) {
    const ValueSet before = domains[variable.index];
    if (std::has_single_bit(before)) continue;
    ValueSet after = before;
    for_each_value(before, [&](size_t value) {
      domains[variable.index] = ValueSet{1} << value;
      if (!within_limit(system, rule, domains)) after &= ~(ValueSet{1} << value);
    });
    domains[variable.index] = after;
  }
  return true;  // no value of one domain alone can empty it: its smallest was within the limit
}

// ---------------------------------------------------------------- multiple of
bool narrow_multiple_of(const ConstraintSystem& system, const MultipleOf& rule, Domains& domains) {
  for (const Choice& condition : rule.when) {
    if ((domains[condition.variable.index] & ~condition.values) != 0) return true;  // may not apply
  }
  int64_t divisor = 1;
  for (VariableId factor : rule.factors) {
    const ValueSet domain = domains[factor.index];
    if (!std::has_single_bit(domain)) return true;
    divisor *= system.variables[factor.index].domain[static_cast<size_t>(std::countr_zero(domain))].number;
  }
  ValueSet& tiles = domains[rule.tile.index];
  for_each_value(tiles, [&](size_t value) {
    if (system.variables[rule.tile.index].domain[value].number % divisor != 0)
      tiles &= ~(ValueSet{1} << value);
  });
  return tiles != 0;
}

// ---------------------------------------------------------------- text
std::string number_text(double value) {
  if (value >= 1e300) return "unbounded";
  return std::to_string(static_cast<int64_t>(value));
}

std::string choice_text(const ConstraintSystem& system, const Choice& choice) {
  const Variable& variable = system.variables[choice.variable.index];
  std::string values;
  for_each_value(choice.values,
                 [&](size_t value) { values += (values.empty() ? "" : ", ") + variable.domain[value].text; });
  if (std::has_single_bit(choice.values)) return variable.name + " = " + values;
  return variable.name + " in {" + values + "}";
}

// "lane_axis{col: rows, row: lanes * unroll}"
std::string selected_text(const ConstraintSystem& system, const Factor& factor) {
  const Variable& variable = system.variables[factor.variable.index];
  std::string text;
  for (size_t value = 0; value < factor.by_value.size(); ++value) {
    text += (value == 0 ? "" : ", ") + variable.domain[value].text + ": ";
    if (factor.by_value[value] != 1 || factor.times[value].empty())
      text += number_text(factor.by_value[value]);
    for (size_t i = 0; i < factor.times[value].size(); ++i) {
      const bool first = i == 0 && factor.by_value[value] == 1;
      text += (first ? "" : " * ") + system.variables[factor.times[value][i].index].name;
    }
  }
  return variable.name + "{" + text + "}";
}

// A factor that is 0 or 1 prints as its condition: "[keep.e = yes]"; others by their values.
std::string factor_text(const ConstraintSystem& system, const Factor& factor) {
  const Variable& variable = system.variables[factor.variable.index];
  ValueSet ones = 0;
  bool indicator = true, identity = true;
  for (size_t value = 0; value < factor.by_value.size(); ++value) {
    const double number = factor.by_value[value];
    if (number == 1) ones |= ValueSet{1} << value;
    indicator &= number == 0 || number == 1;
    identity &= number == double(variable.domain[value].number);
  }
  if (!factor.times.empty()) return selected_text(system, factor);
  if (identity) return variable.name;
  if (indicator) return "[" + choice_text(system, {factor.variable, ones}) + "]";
  std::string text = variable.name + "{";
  for (size_t value = 0; value < factor.by_value.size(); ++value) {
    text +=
        (value == 0 ? "" : ", ") + variable.domain[value].text + ": " + number_text(factor.by_value[value]);
  }
  return text + "}";
}

std::string product_text(const ConstraintSystem& system, const Product& product) {
  std::string text = number_text(product.constant);
  for (const Factor& factor : product.factors) text += " * " + factor_text(system, factor);
  return text;
}

std::string rule_text(const ConstraintSystem& system, const AnyOf& rule) {
  std::string text;
  for (const Choice& choice : rule.choices)
    text += (text.empty() ? "" : " or ") + choice_text(system, choice);
  return text;
}

std::string rule_text(const ConstraintSystem& system, const AtMost& rule) {
  std::string text;
  for (const Product& product : rule.sum) text += (text.empty() ? "" : " + ") + product_text(system, product);
  return text + " <= " + number_text(rule.limit) + " " + rule.unit;
}

std::string rule_text(const ConstraintSystem& system, const MultipleOf& rule) {
  std::string text = system.variables[rule.tile.index].name + " is a multiple of ";
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    text += (i == 0 ? "" : " * ") + system.variables[rule.factors[i].index].name;
  }
  for (size_t i = 0; i < rule.when.size(); ++i) {
    text += (i == 0 ? " if " : " and ") + choice_text(system, rule.when[i]);
  }
  return text;
}

}  // namespace

std::optional<VariableId> ConstraintSystem::find(const std::string& name) const {
  for (uint32_t v = 0; v < variables.size(); ++v) {
    if (variables[v].name == name) return VariableId{v};
  }
  return std::nullopt;
}

ValueSet ConstraintSystem::all_values(VariableId variable) const {
  const size_t count = variables[variable.index].domain.size();
  TILEFUSE_CHECK(count >= 1 && count <= 64, "the domain of " + variables[variable.index].name);
  return count == 64 ? ~ValueSet{0} : (ValueSet{1} << count) - 1;
}

Domains ConstraintSystem::all_domains() const {
  Domains domains;
  for (uint32_t v = 0; v < variables.size(); ++v) domains.push_back(all_values(VariableId{v}));
  return domains;
}

std::vector<VariableId> variables_of(const Constraint& constraint) {
  std::vector<VariableId> found;
  match(
      constraint.rule,
      [&](const AnyOf& rule) {
        for (const Choice& choice : rule.choices) found.push_back(choice.variable);
      },
      [&](const AtMost& rule) {
        for (const Product& product : rule.sum) {
          for (const Factor& factor : product.factors) {
            found.push_back(factor.variable);
            for (const auto& times : factor.times) found.insert(found.end(), times.begin(), times.end());
          }
        }
      },
      [&](const MultipleOf& rule) {
        for (const Choice& choice : rule.when) found.push_back(choice.variable);
        found.push_back(rule.tile);
        found.insert(found.end(), rule.factors.begin(), rule.factors.end());
      });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool holds(const ConstraintSystem& system, const Constraint& constraint, const Domains& assignment) {
  return match(
      constraint.rule,
      [&](const AnyOf& rule) {
        return std::any_of(rule.choices.begin(), rule.choices.end(), [&](const Choice& choice) {
          return (assignment[choice.variable.index] & choice.values) != 0;
        });
      },
      [&](const AtMost& rule) { return within_limit(system, rule, assignment); },
      [&](const MultipleOf& rule) {
        Domains copy = assignment;
        return narrow_multiple_of(system, rule, copy);
      });
}

double least_sum(const ConstraintSystem& system, const AtMost& rule, const Domains& domains) {
  double sum = 0;
  for (const Product& product : rule.sum) sum += lower_bound(system, product, domains);
  return sum;
}

bool narrow(const ConstraintSystem& system, const Constraint& constraint,
            const std::vector<VariableId>& variables, Domains& domains) {
  return match(
      constraint.rule, [&](const AnyOf& rule) { return narrow_any_of(rule, domains); },
      [&](const AtMost& rule) { return narrow_at_most(system, rule, variables, domains); },
      [&](const MultipleOf& rule) { return narrow_multiple_of(system, rule, domains); });
}

std::string to_text(const ConstraintSystem& system, const Constraint& constraint) {
  return match(constraint.rule, [&](const auto& rule) { return rule_text(system, rule); });
}

std::string to_text(const ConstraintSystem& system) {
  std::string text = "constraints " + system.tile_graph + " for " + system.target + " {\n";
  for (const Variable& variable : system.variables) {
    text += "  " + variable.name + " in {";
    for (size_t i = 0; i < variable.domain.size(); ++i)
      text += (i == 0 ? "" : ", ") + variable.domain[i].text;
    text += "}\n";
  }
  text += "\n";
  for (const Constraint& constraint : system.constraints) {
    text += "  " + to_text(system, constraint) + "    // " + constraint.origin + "\n";
  }
  return text + "}\n";
}

}  // namespace tilefuse
