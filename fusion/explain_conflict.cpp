#include "fusion/explain_conflict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "fusion/search.h"

namespace tilefuse {
namespace {

constexpr int64_t kNodeBudget = 2000;  // of one question; a clash is found by propagation, mostly
constexpr size_t kMostExact = 3;

bool clash(const ConstraintSystem& system, const std::vector<size_t>& rules) {
  const std::optional<bool> satisfiable = is_satisfiable(system, rules, kNodeBudget);
  return satisfiable && !*satisfiable;
}

// Extends `chosen` by rules from `next` on to `size` rules that clash.
bool find_clash(const ConstraintSystem& system, const std::vector<size_t>& rules, size_t next, size_t size,
                std::vector<size_t>& chosen) {
  if (chosen.size() == size) return clash(system, chosen);
  for (size_t i = next; i < rules.size(); ++i) {
    chosen.push_back(rules[i]);
    if (find_clash(system, rules, i + 1, size, chosen)) return true;
    chosen.pop_back();
  }
  return false;
}

// A sum of extents can be beyond any integer: the text of a graph may say so.
std::string whole_number(double value) {
  constexpr double kExact = 1e15;
  std::array<char, 32> text{};
  const int length =
      std::snprintf(text.data(), text.size(), value < kExact ? "%.0f" : "%.3g", std::floor(value));
  return {text.data(), static_cast<size_t>(length)};
}

// Numbers for a limit: the least its sum can be under the rest of the clash.
std::string with_numbers(const ConstraintSystem& system, const std::vector<size_t>& rules, size_t rule) {
  const Constraint& constraint = system.constraints[rule];
  const auto* limit = std::get_if<AtMost>(&constraint.rule);
  if (limit == nullptr) return constraint.origin;
  ConstraintSystem others = system;
  others.constraints.clear();
  for (size_t other : rules) {
    if (other != rule) others.constraints.push_back(system.constraints[other]);
  }
  const auto sum = [&](const Domains& domains) { return least_sum(system, *limit, domains); };
  const SearchResult least = search(others, {1, kNodeBudget}, sum, sum);
  if (least.ranked.empty()) return constraint.origin;
  return constraint.origin + ": at least " + whole_number(least.ranked.front().cost) + " of " +
         whole_number(limit->limit) + " " + limit->unit;
}

}  // namespace

std::vector<size_t> smallest_clash(const ConstraintSystem& system) {
  std::vector<size_t> rules;
  for (size_t i = 0; i < system.constraints.size(); ++i) {
    if (system.constraints[i].kind != ConstraintKind::Preference) rules.push_back(i);
  }
  for (size_t size = 1; size <= std::min(kMostExact, rules.size()); ++size) {
    std::vector<size_t> chosen;
    if (find_clash(system, rules, 0, size, chosen)) return chosen;
  }
  for (size_t i = rules.size(); i-- > 0;) {
    std::vector<size_t> without = rules;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (clash(system, without)) rules = std::move(without);
  }
  return rules;
}

std::string explain_conflict(const ConstraintSystem& system) {
  const std::vector<size_t> rules = smallest_clash(system);
  std::string limits, pins;
  for (size_t rule : rules) {
    const Constraint& constraint = system.constraints[rule];
    std::string& text = constraint.kind == ConstraintKind::Pin ? pins : limits;
    text += (text.empty() ? "" : "; ") + with_numbers(system, rules, rule);
  }
  const std::string join = limits.empty() || pins.empty() ? "" : "; ";
  return "no schedule of " + system.tile_graph + " on " + system.target + ": " + limits + join + pins;
}

}  // namespace tilefuse
