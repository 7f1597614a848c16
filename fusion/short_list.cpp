#include "fusion/short_list.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>
#include <utility>

#include "fusion/matrix_tiles.h"

namespace tilefuse {
namespace {

// Of two schedules that cost the same, the smaller code: a share of the cost for each doubling of the body.
constexpr double kCodeShare = 0.002;
// Streaming a store that something else hides anyway loses a few per cent.
constexpr double kStreamShare = 0.03;
constexpr double kHopeless = 2;  // times the price of the choice: nothing to time while there is better
// Times that price: what costs more waits for the other doubts. Half of a vector that is added up in halves
// anyway costs as much as a whole one (Zen 4), others take twice as long by halves.
constexpr double kHardlyDearer = 1.1;

auto but_for_the_grid(const Schedule& s) {
  return std::tie(s.lanes, s.lane_axis, s.unroll, s.rows, s.columns, s.walk, s.keep, s.split, s.streamed,
                  s.accumulate_in_scratch, s.staged);
}

bool same_decisions(const Schedule& a, const Schedule& b) {
  return but_for_the_grid(a) == but_for_the_grid(b) && a.grid == b.grid;
}

bool has_larger_tasks(const Schedule& a, const Schedule& b) {
  if (but_for_the_grid(a) != but_for_the_grid(b)) return false;
  const auto [in_a, in_b] = std::mismatch(a.grid.begin(), a.grid.end(), b.grid.begin(), b.grid.end());
  if (in_a == a.grid.end()) return false;
  return in_a->tile == 0 || (in_b->tile != 0 && in_a->tile > in_b->tile);
}

bool keeps_nothing(const Schedule& schedule) {
  return schedule.keep.empty() && schedule.walk != Walk::Online;
}

bool walks_as(const Schedule& choice, const Schedule& other) {
  return other.walk == choice.walk && other.keep == choice.keep;
}

bool has_rows_of_two(const Schedule& choice, const Schedule& other, int rows) {
  const bool differs = choice.rows != rows || choice.unroll != 2;
  return other.rows == rows && other.unroll == 2 && differs && walks_as(choice, other);
}

bool keeps_other_values(const Schedule& choice, const Schedule& other) {
  return !other.keep.empty() && std::none_of(other.keep.begin(), other.keep.end(), [&](TileValueId kept) {
    return std::find(choice.keep.begin(), choice.keep.end(), kept) != choice.keep.end();
  });
}

// Where the choice was beaten most often, those first that gain most: chosen one after the other so that the
// best of three, then the best of eight lose least, over 74 regions of Zen 4 and 186 of Granite Rapids
// (benchmarks/solver). How many rows are too many depends on what a prefetcher follows and on registers,
// whatever the walk is; narrow lanes cross fewer lines, and add up fewer when a row ends; one row at a time
// reads one stream after the other; along another axis other accesses are in one piece; what is kept costs
// stores, and loads that wait for them; an online walk reads once.
using Doubt = bool (*)(const Schedule& choice, const Schedule& other);
constexpr Doubt kDoubts[] = {
    [](const Schedule& choice, const Schedule& other) {
      return other.rows < choice.rows && walks_as(choice, other);
    },
    [](const Schedule& choice, const Schedule& other) {
      return other.lane_axis == choice.lane_axis && other.lanes * 2 == choice.lanes;
    },
    [](const Schedule& choice, const Schedule& other) {
      return other.rows > choice.rows && walks_as(choice, other);
    },
    [](const Schedule& choice, const Schedule& other) {
      return choice.rows > 1 && other.rows == 1 && other.columns == 1 && walks_as(choice, other);
    },
    [](const Schedule& choice, const Schedule& other) {
      return other.lane_axis && other.lane_axis != choice.lane_axis;
    },
    [](const Schedule& choice, const Schedule& other) { return has_rows_of_two(choice, other, 4); },
    [](const Schedule& choice, const Schedule& other) { return choice.columns > 1 && other.columns == 1; },
    [](const Schedule& choice, const Schedule& other) { return has_rows_of_two(choice, other, 6); },
    [](const Schedule& choice, const Schedule& other) { return choice.unroll > 1 && other.unroll == 1; },
    [](const Schedule& choice, const Schedule& other) {
      return !choice.keep.empty() && keeps_nothing(other) && other.rows == choice.rows;
    },
    [](const Schedule& choice, const Schedule& other) {
      return other.walk != Walk::Online && keeps_other_values(choice, other);
    },
    [](const Schedule& choice, const Schedule& other) {
      return choice.walk != Walk::Online && other.walk == Walk::Online;
    },
    [](const Schedule& choice, const Schedule& other) { return has_larger_tasks(other, choice); },
};

template <class Hopeful>
std::vector<Schedule> by_price(const Candidates& candidates, const Hopeful& is_hopeful) {
  std::vector<Schedule> all;
  const auto add = [&](const std::vector<Schedule>& schedules) {
    std::copy_if(schedules.begin(), schedules.end(), std::back_inserter(all), is_hopeful);
  };
  add(candidates.ranked);
  for (const auto& [concern, schedules] : candidates.otherwise) add(schedules);
  add(candidates.two_otherwise);
  std::stable_sort(all.begin(), all.end(), is_cheaper);
  return all;
}

}  // namespace

double code_share(const Schedule& schedule) {
  const int rows = takes_tile_rows(schedule.rows) ? 1 : schedule.rows;  // those of tiles are walked by a loop
  const int doublings = std::countr_zero(static_cast<unsigned>(schedule.unroll)) +
                        std::countr_zero(static_cast<unsigned>(rows)) +
                        std::bit_width(static_cast<unsigned>(schedule.columns)) - 1;
  return 1 + kCodeShare * doublings + (schedule.streamed.empty() ? 0 : kStreamShare);
}

bool is_cheaper(const Schedule& a, const Schedule& b) {
  return a.cost_us * code_share(a) < b.cost_us * code_share(b);
}

std::vector<Schedule> short_list(const Candidates& candidates, size_t count) {
  const auto& [ranked, others, two_otherwise] = candidates;
  const Schedule& choice = ranked.front();
  std::vector<Schedule> chosen = {choice};
  const auto is_new = [&](const Schedule& schedule) {
    const auto is_same = [&](const Schedule& other) { return same_decisions(schedule, other); };
    return std::none_of(chosen.begin(), chosen.end(), is_same);
  };
  const auto take = [&](const Schedule& schedule) {
    if (chosen.size() < count && is_new(schedule)) chosen.push_back(schedule);
  };
  // Wider lanes are vectors side by side by another name.
  const auto is_hopeful = [&](const Schedule& schedule) {
    return schedule.cost_us <= kHopeless * choice.cost_us && schedule.lanes <= choice.lanes;
  };

  const std::vector<Schedule> all = by_price(candidates, is_hopeful);
  std::vector<Doubt> waiting;
  const auto take_for = [&](Doubt doubt, double most_us) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const Schedule& other) { return doubt(choice, other) && is_new(other); });
    if (found == all.end()) return;
    found->cost_us <= most_us ? take(*found) : waiting.push_back(doubt);
  };
  for (const Doubt doubt : kDoubts) take_for(doubt, kHardlyDearer * choice.cost_us);
  for (const Doubt doubt : std::exchange(waiting, {})) take_for(doubt, kHopeless * choice.cost_us);

  size_t longest = 0;
  for (const auto& [concern, schedules] : others) longest = std::max(longest, schedules.size());
  for (size_t place = 0; place < longest; ++place) {  // the best of each concern, then the second best
    std::vector<Schedule> next;
    for (const auto& [concern, schedules] : others) {
      if (place < schedules.size() && is_hopeful(schedules[place])) next.push_back(schedules[place]);
    }
    std::stable_sort(next.begin(), next.end(), is_cheaper);
    for (const Schedule& schedule : next) take(schedule);
  }
  for (const Schedule& schedule : two_otherwise) {
    if (is_hopeful(schedule)) take(schedule);
  }
  for (const Schedule& schedule : ranked) take(schedule);
  return chosen;
}

}  // namespace tilefuse
