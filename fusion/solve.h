// Solves a tile graph's schedule: collect_constraints builds the system, solve searches it.
//
//   ConstraintSystem system = collect_constraints(tile_graph, target, pins);
//   Result<Solution> solution = solve(system);      // ranked: the first is the choice
//
// A solution never breaks a limit of the target. Unsupported: the smallest clashing set of constraints, in a
// sentence with numbers, pins named.
#pragma once
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/result.h"
#include "fusion/schedule.h"
#include "fusion/target.h"

namespace tilefuse {

// Decisions given by the user, by variable name as the text form of the system prints them: "grid.row" = "4",
// "lanes" = "8", "walk" = "online", "store.y" = "streamed". An unknown name or value is a UserError.
struct Pins {
  std::map<std::string, std::string> decisions;
};

struct SolveOptions {
  int threads = 1;
  int candidates = 1;   // how many schedules to return: the choice, then what to time beside it
  int short_list = 48;  // how many the search finds, to be ranked for the threads
  int64_t node_budget =
      20000;                // search nodes; when spent the best found so far is returned and reported as such
  double around_bytes = 0;  // what the caller touches besides: operands come from where all of it lies
  bool rough = false;       // of a chain only the likeliest tiles are tried: for a price, not for a kernel
  // Schedules that cost more are of no use: where none costs less the search may end without a choice.
  double worth_us = std::numeric_limits<double>::infinity();
};

struct Solution {
  std::vector<Schedule> ranked;  // none only where all cost more than they are worth:
  double least_us = 0;           // then no less than this
  int64_t nodes = 0;
  bool complete = true;  // false: the budget ended the search
};

// Size symbols are read at `hint` when a cost needs a number (2048 where there is none); legality never uses
// hints.
using SizeHints = std::map<std::string, int64_t>;

Result<Solution> solve(const TileGraph& graph, const Target& target, const Pins& pins = {},
                       const SolveOptions& options = {}, const SizeHints& hints = {});

// What a schedule may be (of several launches the main one), in the text form of its constraints, without the
// preferences of the search. Refused where no nest and no chain of nests computes the graph.
Result<std::string> constraints_text(const TileGraph& graph, const Target& target, const Pins& pins = {},
                                     const SizeHints& hints = {});

// Read and written when every buffer is touched once.
double compulsory_bytes(const TileGraph& graph, const SizeHints& hints = {});

// Closed-form time of the region as one kernel: compulsory bytes, compute, launch. Cheap; partition ranks
// with it. `in_use`: bytes that pass through the caches between one use of a buffer and the next, its own
// where it is less. Kernels that would run in place of one have more in use together than each alone: three
// that move 12 MB each find in a cache of 16 MB what the one before left only if all of it fits.
double estimate_us(const TileGraph& graph, const Target& target, int threads, const SizeHints& hints = {},
                   double in_use = 0);

}  // namespace tilefuse
