#include "fusion/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/result.h"

namespace tilefuse {
namespace {

std::optional<VariableId> first_open(const Domains& domains) {
  for (uint32_t v = 0; v < domains.size(); ++v) {
    if (!std::has_single_bit(domains[v])) return VariableId{v};
  }
  return std::nullopt;
}

// Of equal ones the first in the order of variables and domains.
bool comes_before(const RankedAssignment& a, const RankedAssignment& b) {
  return a.cost != b.cost ? a.cost < b.cost : a.assignment < b.assignment;
}

class Search {
 public:
  Search(const ConstraintSystem& system, const SearchOptions& options, const AssignmentCost& cost,
         const AssignmentBound& bound)
      : propagator_(system), options_(options), cost_(cost), bound_(bound) {}

  SearchResult run(Domains domains) {
    if (propagator_.all(domains)) {
      if (options_.decided_first > 0) {
        decide_first(domains);
        visit_begun();
      } else {
        visit(domains);
      }
    }
    return std::move(result_);
  }

 private:
  struct Begun {
    double bound = 0;
    Domains domains;
  };
  template <class Visit>
  void branch(const Domains& domains, VariableId variable, const Visit& visit);
  void decide_first(const Domains& domains);
  void visit_begun();
  void visit(const Domains& domains);
  void record(const Domains& assignment);
  bool is_full() const { return result_.ranked.size() >= options_.candidates; }
  bool is_hopeless(double bound) const {
    return std::isinf(bound) || (is_full() && bound > result_.ranked.back().cost);
  }

  Propagator propagator_;
  const SearchOptions& options_;
  const AssignmentCost& cost_;
  const AssignmentBound& bound_;
  std::vector<Begun> begun_;
  SearchResult result_;
};

void Search::record(const Domains& assignment) {
  const RankedAssignment found{cost_(assignment), assignment};
  if (is_full() && !comes_before(found, result_.ranked.back())) return;
  const auto place = std::upper_bound(result_.ranked.begin(), result_.ranked.end(), found, comes_before);
  result_.ranked.insert(place, found);
  if (result_.ranked.size() > options_.candidates) result_.ranked.pop_back();
}

template <class Visit>
void Search::branch(const Domains& domains, VariableId variable, const Visit& visit) {
  for (ValueSet left = domains[variable.index]; left != 0; left &= left - 1) {
    Domains branch = domains;
    branch[variable.index] = left & (~left + 1);
    if (propagator_.after_change(variable, branch)) visit(branch);
  }
}

// Half of the budget is left for what was begun.
void Search::decide_first(const Domains& domains) {
  const std::optional<VariableId> variable = first_open(domains);
  if (!variable || variable->index >= options_.decided_first) {
    if (const double bound = bound_(domains); !is_hopeless(bound)) begun_.push_back({bound, domains});
    return;
  }
  if (result_.nodes >= options_.node_budget / 2) {
    result_.complete = false;
    return;
  }
  ++result_.nodes;
  branch(domains, *variable, [this](const Domains& branch) { decide_first(branch); });
}

void Search::visit_begun() {
  std::stable_sort(begun_.begin(), begun_.end(),
                   [](const Begun& a, const Begun& b) { return a.bound < b.bound; });
  for (const Begun& begun : begun_) {
    if (is_hopeless(begun.bound)) return;
    visit(begun.domains);
  }
}

void Search::visit(const Domains& domains) {
  if (result_.nodes >= options_.node_budget) {
    result_.complete = false;
    return;
  }
  ++result_.nodes;
  const std::optional<VariableId> variable = first_open(domains);
  if (!variable) {
    record(domains);
    return;
  }
  if (is_full() && is_hopeless(bound_(domains))) return;
  branch(domains, *variable, [this](const Domains& branch) { visit(branch); });
}

// Depth first, without costs.
std::optional<bool> any_solution(const Propagator& propagator, const Domains& domains, int64_t& budget) {
  if (--budget < 0) return std::nullopt;
  const std::optional<VariableId> variable = first_open(domains);
  if (!variable) return true;
  for (ValueSet left = domains[variable->index]; left != 0; left &= left - 1) {
    Domains branch = domains;
    branch[variable->index] = left & (~left + 1);
    if (!propagator.after_change(*variable, branch)) continue;
    const std::optional<bool> found = any_solution(propagator, branch, budget);
    if (!found || *found) return found;
  }
  return false;
}

}  // namespace

Propagator::Propagator(const ConstraintSystem& system)
    : system_(system), rules_(system.constraints.size()), watching_(system.variables.size()) {
  std::iota(rules_.begin(), rules_.end(), size_t{0});
  index();
}

Propagator::Propagator(const ConstraintSystem& system, std::vector<size_t> rules)
    : system_(system), rules_(std::move(rules)), watching_(system.variables.size()) {
  index();
}

void Propagator::index() {
  for (size_t i = 0; i < rules_.size(); ++i) {
    variables_.push_back(variables_of(system_.constraints[rules_[i]]));
    for (VariableId variable : variables_.back()) watching_[variable.index].push_back(i);
  }
}

bool Propagator::all(Domains& domains) const {
  std::vector<size_t> waiting(rules_.size());
  std::iota(waiting.begin(), waiting.end(), size_t{0});
  return run(std::move(waiting), domains);
}

bool Propagator::after_change(VariableId changed, Domains& domains) const {
  return run(watching_[changed.index], domains);
}

bool Propagator::run(std::vector<size_t> waiting, Domains& domains) const {
  std::vector<bool> queued(rules_.size(), false);
  for (size_t rule : waiting) queued[rule] = true;
  std::vector<ValueSet> before;
  for (size_t next = 0; next < waiting.size(); ++next) {
    const size_t rule = waiting[next];
    queued[rule] = false;
    before.clear();
    for (VariableId variable : variables_[rule]) before.push_back(domains[variable.index]);
    if (!narrow(system_, system_.constraints[rules_[rule]], variables_[rule], domains)) return false;
    for (size_t i = 0; i < before.size(); ++i) {
      const VariableId variable = variables_[rule][i];
      if (domains[variable.index] == before[i]) continue;
      for (size_t affected : watching_[variable.index]) {
        if (queued[affected]) continue;
        queued[affected] = true;
        waiting.push_back(affected);
      }
    }
  }
  return true;
}

SearchResult search(const ConstraintSystem& system, const SearchOptions& options, const AssignmentCost& cost,
                    const AssignmentBound& bound) {
  TILEFUSE_CHECK(options.candidates >= 1, "a search for no candidates");
  return Search(system, options, cost, bound).run(system.all_domains());
}

SearchResult search_as_preferred(ConstraintSystem& system, const SearchOptions& options,
                                 const AssignmentCost& cost, const AssignmentBound& bound) {
  SearchResult found = search(system, options, cost, bound);
  if (!found.ranked.empty()) return found;
  std::erase_if(system.constraints, [](const Constraint& c) { return c.kind == ConstraintKind::Preference; });
  return search(system, options, cost, bound);
}

std::optional<bool> is_satisfiable(const ConstraintSystem& system, const std::vector<size_t>& rules,
                                   int64_t node_budget) {
  const Propagator propagator(system, rules);
  Domains domains = system.all_domains();
  if (!propagator.all(domains)) return false;
  return any_solution(propagator, domains, node_budget);
}

}  // namespace tilefuse
