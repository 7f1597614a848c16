#include "fusion/lane_pattern.h"

#include <algorithm>

#include "core/expr_terms.h"

namespace tilefuse {
namespace {

constexpr int kVector = 1 << 20;  // an index that no axis has: vectors are counted by it

// Of a multiple of the granule, by the coordinate again.
Expr by_coordinate(const Expr& of_vector, int lane_index, int64_t granule) {
  const Expr coordinate = Expr::index(lane_index);
  const auto affine = affine_in(of_vector, kVector);
  const auto of_coordinate = affine ? exact_divide(affine->coefficient, granule) : std::nullopt;
  if (of_coordinate) return *of_coordinate * coordinate + affine->rest;
  return substitute_index(of_vector, kVector, floordiv(coordinate, granule));
}

}  // namespace

int64_t LanePattern::lowest() const { return *std::ranges::min_element(lanes); }
int64_t LanePattern::highest() const { return *std::ranges::max_element(lanes); }

std::optional<LanePattern> lane_pattern(const Expr& offset, AxisId lane_axis, int lanes, int64_t granule) {
  const int lane_index = static_cast<int>(lane_axis.index);
  const Expr lane = Expr::index(lane_index);
  const Expr apart = substitute_index(offset, lane_index, Expr::index(kVector) * granule + lane);
  Expr of_lane, of_vector;
  for (const Expr::Term& term : apart.terms()) {
    const Expr whole = make_expr({term});
    if (!uses_index(whole, lane_index)) {
      of_vector = of_vector + whole;
      continue;
    }
    if (indices_of(whole) != std::vector{lane_index} || !symbols_of(whole).empty()) return std::nullopt;
    of_lane = of_lane + whole;
  }
  LanePattern pattern{by_coordinate(of_vector, lane_index, granule), {}};
  std::vector<int64_t> coordinates(static_cast<size_t>(lane_index) + 1, 0);
  for (int number = 0; number < lanes; ++number) {
    coordinates.back() = number;
    pattern.lanes.push_back(evaluate(of_lane, coordinates, [](const std::string&) { return int64_t{0}; }));
  }
  return pattern;
}

}  // namespace tilefuse
