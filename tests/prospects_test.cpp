// What to time next, given what was timed.
#include "fusion/prospects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tilefuse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Schedule priced(double us, int lanes, int rows, int unroll) {
  Schedule schedule;
  schedule.lanes = lanes;
  schedule.lane_axis = AxisId{1};
  schedule.rows = rows;
  schedule.unroll = unroll;
  schedule.grid = {{AxisId{0}, 0}};
  schedule.cost_us = us;
  return schedule;
}

// Rows from eight down, in whole and half vectors, the latter a little dearer.
std::vector<Schedule> candidates() {
  std::vector<Schedule> found;
  for (const int lanes : {16, 8}) {
    for (const int rows : {8, 4, 2, 1}) {
      for (const int unroll : {1, 2}) found.push_back(priced(lanes == 16 ? 10 : 10.5, lanes, rows, unroll));
    }
  }
  return found;
}

TEST(Prospects, gives_the_choice_first_and_every_other_once) {
  Prospects prospects(candidates());
  EXPECT_THAT(prospects.next(1), ElementsAre(0));
  std::set<size_t> given;
  for (std::vector<size_t> next = prospects.next(3); !next.empty(); next = prospects.next(3)) {
    for (const size_t place : next) EXPECT_TRUE(given.insert(place).second) << place;
  }
  EXPECT_EQ(given.size(), candidates().size() - 1);
  EXPECT_THAT(prospects.next(1), IsEmpty());
}

TEST(Prospects, look_beside_what_was_fast_and_away_from_what_was_slow) {
  const std::vector<Schedule> all = candidates();
  const auto lanes_behind =
      [&](double share) {  // of the sixth, where half vectors took that share of their price
        Prospects prospects(all);
        for (const size_t place : prospects.next(5))
          prospects.observe(place, all[place].cost_us / all[0].cost_us * (all[place].lanes == 8 ? share : 1));
        return all[prospects.next(1)[0]].lanes;
      };
  EXPECT_EQ(lanes_behind(0.7), 8);
  EXPECT_EQ(lanes_behind(1.4), 16);
}

TEST(Prospects, are_not_moved_by_what_costs_as_it_was_priced) {
  const std::vector<Schedule> all = candidates();
  Prospects blind(all), told(all);
  std::vector<size_t> given = blind.next(2);
  EXPECT_EQ(told.next(2), given);
  told.observe(given[1], all[given[1]].cost_us / all[0].cost_us);
  EXPECT_EQ(told.next(3), blind.next(3));
}

// Found within eight of thirty, wherever the one fast neighbourhood is.
TEST(Prospects, find_the_fast_corner) {
  const std::vector<Schedule> all = candidates();
  for (const int lanes : {16, 8}) {
    for (const int rows : {8, 4, 2, 1}) {
      const auto share = [&](size_t place) {
        return all[place].cost_us / 10 *
               (1 + 0.1 * (all[place].lanes != lanes) +
                0.1 * std::abs(std::log2(double(all[place].rows) / rows)));
      };
      Prospects prospects(all);
      double least = 1e9, best = 1e9;
      for (size_t place = 0; place < all.size(); ++place) best = std::min(best, share(place));
      for (int tried = 0; tried < 8; ++tried) {
        const size_t place = prospects.next(1)[0];
        prospects.observe(place, share(place) / share(0));
        least = std::min(least, share(place));
      }
      EXPECT_LE(least, 1.03 * best) << lanes << " lanes, " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace tilefuse
