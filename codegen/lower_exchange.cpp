// Loads whose lanes change places in every vector alike (lane_pattern.h): one load, and one exchange of
// lanes.
//
//   x = load_exchanged<1, 1, 3, 3, 5, 5, 7, 7>(x_row + l);        the second one of each pair, for both
#include <algorithm>

#include "codegen/executable.h"
#include "codegen/launch_lowering.h"
#include "core/expr_terms.h"
#include "fusion/lane_pattern.h"

namespace tilefuse {
namespace {

int64_t constant_term(const Expr& e) {
  for (const Expr::Term& term : e.terms()) {
    if (term.factors.empty()) return term.coefficient;
  }
  return 0;
}

}  // namespace

// Absent: the lanes are even, or differ from vector to vector.
std::optional<LanePattern> LaunchLowering::pattern_of_lanes(const Expr& e) const {
  if (!uses_lanes(e) || in_pairs()) return std::nullopt;
  if (affine_in(e, static_cast<int>(schedule_.lane_axis->index))) return std::nullopt;
  return lane_pattern(e, *schedule_.lane_axis, schedule_.lanes, copies_.lane_granule);
}

// What a vector reads is a whole one where the buffer holds it wherever it begins: if possible one that even
// loads read, too. Elsewhere it ends with the last element that is wanted.
std::optional<Code> LaunchLowering::load_exchanged(const TileLoad& load, int depth) {
  if (copies_.left || !load.gathered.empty()) return std::nullopt;
  const auto pattern = pattern_of_lanes(at_copy(load.offset));
  if (!pattern || !pattern->is_within_vector() || pattern->step()) return std::nullopt;
  const Buffer& buffer = graph_[load.buffer];
  const Expr size = storage_elements({buffer.name, buffer.dtype, buffer.shape, buffer.strides});
  const int64_t lanes = schedule_.lanes, lowest = pattern->lowest(), highest = pattern->highest();
  const int64_t most = lanes - 1 - highest;  // elements in front of lane 0's, so that the last one is wanted
  const auto holds_vectors = [&](int64_t before) {
    const Expr first = pattern->first - before;
    return (before == -lowest || is_nonnegative_for_lanes(first)) &&
           (before == most || is_nonnegative_for_lanes(size - first - lanes));
  };
  const int64_t granule = copies_.lane_granule;
  const int64_t like_even = (constant_term(pattern->first) % granule + granule) % granule;
  int64_t before = -lowest, elements = highest - lowest + 1;
  for (const int64_t candidate : {like_even, most, -lowest}) {
    if (candidate < -lowest || candidate > most || !holds_vectors(candidate)) continue;
    before = candidate;
    elements = lanes;
    break;
  }
  const Place place{buffer_pointer(load.buffer), buffer.name, {}, nullptr, depth};
  std::vector<Code> arguments = {pointer_at(place, pattern->first - before, {})};
  if (elements < lanes) arguments.push_back(integer(elements));
  std::vector<int64_t> numbers = pattern->lanes;
  for (int64_t& number : numbers) number += before;
  return call("load_exchanged", std::move(arguments), {}, std::move(numbers));
}

// Wherever a whole vector of the loop over lanes begins.
bool LaunchLowering::is_nonnegative_for_lanes(const Expr& e) const {
  return is_nonnegative(e, int64_t{schedule_.lanes} * copies_.lanes);
}

}  // namespace tilefuse
