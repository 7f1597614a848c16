// How alike two rows of numbers order the same things: Spearman's coefficient, which is that of Pearson over
// ranks. 1: in the same order, -1: in the opposite one, near 0: the one says nothing about the other.
#pragma once
#include <optional>
#include <vector>

namespace tilefuse {

// Equal numbers share the mean of their ranks. Absent: fewer than two things, or all numbers of a row are
// equal.
std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tilefuse
