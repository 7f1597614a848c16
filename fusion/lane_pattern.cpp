#include "fusion/lane_pattern.h"

#include <algorithm>

#include "core/expr_terms.h"

namespace tilefuse {
namespace {

constexpr int kVector = 1 << 20;  // an index that no axis has: vectors are counted by it

// The coordinate of lane `lane` in vector `kVector` is kVector * granule + lane.
struct Vectors {
  int lane_index = 0;
  int64_t granule = 1, lanes = 1;
  Expr lane() const { return Expr::index(lane_index); }
};

// A block of whole vectors holds all lanes: (l // 64) is that of the vector, l % 64 goes on from it.
Expr settled(const Expr& e, const Vectors& vectors) {
  using enum Expr::AtomKind;
  return replace_nodes(e, [&](const Expr::Atom& atom) -> std::optional<Expr> {
    if (atom.kind != FloorDiv && atom.kind != Mod) return std::nullopt;
    const auto block = atom.args[1].constant();
    if (!block || *block % vectors.lanes != 0) return std::nullopt;
    const auto along = affine_in(atom.args[0], vectors.lane_index);
    if (!along || !along->coefficient.is_constant(1) || !is_multiple_of(along->rest, vectors.lanes)) {
      return std::nullopt;
    }
    if (atom.kind == FloorDiv) return floordiv(along->rest, atom.args[1]);
    return mod(along->rest, atom.args[1]) + vectors.lane();
  });
}

// By the coordinate of lane 0 again, a multiple of the granule.
Expr by_coordinate(const Expr& of_vector, const Vectors& vectors) {
  const Expr coordinate = vectors.lane();
  Expr sum;
  for (const Expr::Term& term : of_vector.terms()) {
    const Expr whole = make_expr({term});
    const auto affine = affine_in(whole, kVector);
    const auto even = affine ? exact_divide(affine->coefficient, vectors.granule) : std::nullopt;
    sum = sum + (even ? *even * coordinate + affine->rest
                      : substitute_index(whole, kVector, floordiv(coordinate, vectors.granule)));
  }
  return sum;
}

}  // namespace

int64_t LanePattern::lowest() const { return *std::ranges::min_element(lanes); }
int64_t LanePattern::highest() const { return *std::ranges::max_element(lanes); }

std::optional<int64_t> LanePattern::step() const {
  const int64_t first_step = lanes.size() > 1 ? lanes[1] - lanes[0] : 0;
  for (size_t lane = 1; lane < lanes.size(); ++lane) {
    if (lanes[lane] - lanes[lane - 1] != first_step) return std::nullopt;
  }
  return first_step == 0 ? std::nullopt : std::optional(first_step);
}

std::optional<LanePattern> lane_pattern(const Expr& offset, AxisId lane_axis, int lanes, int64_t granule) {
  const Vectors vectors{static_cast<int>(lane_axis.index), granule, lanes};
  const Expr coordinate = Expr::index(kVector) * granule + vectors.lane();
  const Expr apart = settled(substitute_index(offset, vectors.lane_index, coordinate), vectors);
  Expr of_lane, of_vector;
  for (const Expr::Term& term : apart.terms()) {
    const Expr whole = make_expr({term});
    if (!uses_index(whole, vectors.lane_index)) {
      of_vector = of_vector + whole;
      continue;
    }
    if (indices_of(whole) != std::vector{vectors.lane_index} || !symbols_of(whole).empty())
      return std::nullopt;
    of_lane = of_lane + whole;
  }
  LanePattern pattern{by_coordinate(of_vector, vectors), {}};
  std::vector<int64_t> coordinates(size_t(vectors.lane_index) + 1, 0);
  for (int number = 0; number < lanes; ++number) {
    coordinates.back() = number;
    pattern.lanes.push_back(evaluate(of_lane, coordinates, [](const std::string&) { return int64_t{0}; }));
  }
  return pattern;
}

}  // namespace tilefuse
