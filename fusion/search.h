// Searches a constraint system: propagation, branching in a fixed order, bounding by an admissible cost.
//
// The same system, costs and budget give the same answer, on any machine. Ties go to the assignment that
// comes first in the order of variables and domains.
#pragma once
#include <functional>

#include "fusion/constraints.h"

namespace tilefuse {

class Propagator {
 public:
  // Of all rules, or of those listed.
  explicit Propagator(const ConstraintSystem& system);
  Propagator(const ConstraintSystem& system, std::vector<size_t> rules);

  bool all(Domains& domains) const;                               // false: a domain is empty
  bool after_change(VariableId changed, Domains& domains) const;  // when all the rest is at its fixpoint

 private:
  void index();
  bool run(std::vector<size_t> waiting, Domains& domains) const;

  const ConstraintSystem& system_;
  std::vector<size_t> rules_;
  std::vector<std::vector<VariableId>> variables_;  // by position in rules_
  std::vector<std::vector<size_t>> watching_;       // by variable: positions in rules_
};

struct SearchOptions {
  size_t candidates = 1;
  int64_t node_budget = 20000;
  // So many variables are decided first, in every way there is; what is left of each is searched in the order
  // of the bounds, so that a bound that is good by then leaves little of it. 0: in the order of the
  // variables.
  size_t decided_first = 0;
};
struct RankedAssignment {
  double cost = 0;
  Domains assignment;
};
struct SearchResult {
  std::vector<RankedAssignment> ranked;  // the cheapest first
  int64_t nodes = 0;
  bool complete = true;  // false: the budget ended the search
};

using AssignmentCost = std::function<double(const Domains& assignment)>;
// No more than the cost of any assignment within the domains; infinite: none of them is of use.
using AssignmentBound = std::function<double(const Domains& domains)>;

SearchResult search(const ConstraintSystem& system, const SearchOptions& options, const AssignmentCost& cost,
                    const AssignmentBound& bound);

// The same without the system's preferences where they leave nothing: they are taken out of it.
SearchResult search_as_preferred(ConstraintSystem& system, const SearchOptions& options,
                                 const AssignmentCost& cost, const AssignmentBound& bound);

// Whether the listed rules leave any assignment; nullopt after `node_budget` nodes without an answer.
std::optional<bool> is_satisfiable(const ConstraintSystem& system, const std::vector<size_t>& rules,
                                   int64_t node_budget);

}  // namespace tilefuse
