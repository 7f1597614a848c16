// The coefficient that benchmarks/solver prints for predicted and measured times.
#include "benchmarks/solver/rank_correlation.h"

#include <gtest/gtest.h>

namespace tilefuse {
namespace {

TEST(RankCorrelation, looks_at_the_order_alone) {
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 3, 4}, {10, 20, 1000, 1001}), 1);
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 3, 4}, {9, 8, 7, -1}), -1);
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8);  // 1 - 6 * 4 / (5 * 24)
}

TEST(RankCorrelation, equal_numbers_share_their_rank) {
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 2, 3}, {1, 2, 2, 3}), 1);
  // Ranks 0, 1.5, 1.5, 3 beside 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
  EXPECT_NEAR(*rank_correlation({1, 2, 2, 3}, {1, 2, 3, 4}), 0.9486833, 1e-6);
}

TEST(RankCorrelation, is_absent_without_an_order) {
  EXPECT_FALSE(rank_correlation({}, {}));
  EXPECT_FALSE(rank_correlation({1}, {2}));
  EXPECT_FALSE(rank_correlation({1, 1, 1}, {1, 2, 3}));
}

}  // namespace
}  // namespace tilefuse
