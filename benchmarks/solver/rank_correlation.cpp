#include "benchmarks/solver/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tilefuse {
namespace {

std::vector<double> ranks_of(const std::vector<double>& numbers) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> ranks(numbers.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && numbers[order[end]] == numbers[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = double(first + end - 1) / 2;
    first = end;
  }
  return ranks;
}

}  // namespace

std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> ranks_a = ranks_of(a), ranks_b = ranks_of(b);
  const double mean = (double(a.size()) - 1) / 2;
  double both = 0, squares_a = 0, squares_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    squares_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    squares_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  if (squares_a == 0 || squares_b == 0) return std::nullopt;
  return both / std::sqrt(squares_a * squares_b);
}

}  // namespace tilefuse
