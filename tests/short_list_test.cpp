// What is timed beside the choice: little dearer than it, and unlike what is timed already.
#include "fusion/short_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tilefuse {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;

constexpr AxisId kRow{0};

Schedule priced(double us, int lanes, int rows, int64_t tile) {
  Schedule schedule;
  schedule.lanes = lanes;
  schedule.lane_axis = AxisId{1};
  schedule.rows = rows;
  schedule.grid = {{kRow, tile}};
  schedule.cost_us = us;
  return schedule;
}

std::vector<double> listed_us(const std::vector<Schedule>& candidates, size_t count,
                              int register_lanes = 16) {
  std::vector<double> us;
  for (const Schedule& schedule : short_list(candidates, register_lanes, count))
    us.push_back(schedule.cost_us);
  return us;
}

TEST(ShortList, has_no_doubt_between_the_same_decisions_and_more_for_each_doubling) {
  const Schedule choice = priced(10, 16, 8, 0);
  EXPECT_EQ(price_doubt(choice, priced(11, 16, 8, 0)), 0);
  const double half = price_doubt(choice, priced(10, 16, 4, 0));
  const double eighth = price_doubt(choice, priced(10, 16, 1, 0));
  EXPECT_GT(half, 0);
  EXPECT_GT(eighth, half);
  EXPECT_EQ(price_doubt(priced(10, 16, 1, 0), choice), eighth);
  EXPECT_GT(price_doubt(choice, priced(10, 8, 4, 0)), half);
}

// Another grid is hardly another schedule; half of the rows may well be faster though it costs more.
TEST(ShortList, prefers_what_differs_over_what_costs_a_little_less) {
  const std::vector<Schedule> candidates = {priced(10, 16, 8, 0), priced(10.1, 16, 8, 64),
                                            priced(10.5, 16, 4, 0), priced(10.6, 16, 4, 64)};
  EXPECT_THAT(listed_us(candidates, 2), ElementsAre(10, 10.5));
  EXPECT_THAT(listed_us(candidates, 8), ElementsAre(10, 10.5, 10.1, 10.6));
}

TEST(ShortList, has_none_twice_and_nothing_hopeless) {
  const std::vector<Schedule> candidates = {priced(10, 8, 8, 0), priced(10, 8, 8, 0), priced(25, 8, 1, 0),
                                            priced(10, 16, 8, 0)};
  EXPECT_THAT(listed_us(candidates, 8, 8), ElementsAre(10));  // wider lanes are several vectors
  EXPECT_THAT(listed_us(candidates, 8, 16), ElementsAre(10, 10));
}

std::vector<Schedule> of_many_rows_and_tiles() {
  std::vector<Schedule> candidates;
  for (const int rows : {8, 6, 4, 3, 2, 1}) {
    for (const int64_t tile : {0, 256, 64}) candidates.push_back(priced(10 + 8.0 / rows, 16, rows, tile));
  }
  return candidates;
}

// Whatever it passes over costs more, or is more like what stands in the list already.
TEST(ShortList, takes_the_cheapest_less_its_doubt) {
  const std::vector<Schedule> candidates = of_many_rows_and_tiles();
  const std::vector<Schedule> listed = short_list(candidates, 16, 8);
  ASSERT_EQ(listed.size(), 8);
  for (size_t place = 1; place < listed.size(); ++place) {
    const auto doubt = [&](const Schedule& schedule) {
      double least = price_doubt(listed[0], schedule);
      for (size_t i = 1; i < place; ++i) least = std::min(least, price_doubt(listed[i], schedule));
      return least;
    };
    const auto lowered = [&](const Schedule& schedule) {
      return std::log(schedule.cost_us * code_share(schedule)) - doubt(schedule);
    };
    for (const Schedule& other : candidates) {
      if (doubt(other) == 0) continue;  // it is there
      EXPECT_LE(lowered(listed[place]), lowered(other)) << place;
    }
  }
}

TEST(ShortList, begins_alike_whatever_its_length) {
  const std::vector<Schedule> candidates = of_many_rows_and_tiles();
  const std::vector<double> eight = listed_us(candidates, 8), three = listed_us(candidates, 3);
  EXPECT_THAT(three, ElementsAre(eight[0], eight[1], eight[2]));
  EXPECT_THAT(short_list(candidates, 16, 6), Each(Field(&Schedule::lanes, 16)));
}

}  // namespace
}  // namespace tilefuse
