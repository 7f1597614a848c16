// Lanes that lie apart in memory: what their loads take, and when they push each other out of L1.
#include <algorithm>
#include <bit>
#include <numeric>

#include "core/expr_terms.h"
#include "fusion/compute_cost.h"
#include "fusion/lane_pattern.h"

namespace tilefuse {
namespace {

// Of half a vector: times what a lane of f32 takes, where the element goes into one that is wider.
constexpr double kNarrowLaneLoads = 2;
// Of an element whose line lies in L2, because the lines of one iteration are more than their sets of L1
// hold.
constexpr double kCrowdedLoadCycles = 1.7;
// Of a coordinate in each lane: 64 bits wide they are divided one by one (Zen 4: 13.8 cycles an element for a
// quotient, a remainder and the gather behind them).
constexpr double kDivisionCycles = 5;
// Of lanes of two registers, where no instruction takes any of both: one for each, and one that joins them.
constexpr double kExchangesOfTwo = 3;
constexpr int64_t kLineBytes = 64, kPageBytes = 4096;  // L1 tells lines apart by their place in a page

// Divisions of a coordinate in an offset, but for those that are shifts.
int divisions_along(const Expr& e, AxisId axis) {
  int count = 0;
  for (const Expr::Term& term : e.terms()) {
    for (const Expr::Atom& atom : term.factors) {
      if (atom.args.empty() || !uses_index(atom.args[0], static_cast<int>(axis.index))) continue;
      const auto divisor = atom.args[1].constant();
      const bool divides = atom.kind == Expr::AtomKind::FloorDiv || atom.kind == Expr::AtomKind::Mod;
      const bool is_shift = divisor && *divisor > 0 && std::has_single_bit(static_cast<uint64_t>(*divisor));
      count += (divides && !is_shift ? 1 : 0) + divisions_along(atom.args[0], axis);
    }
  }
  return count;
}

// Of elements along an axis that a walk strides along, as L1 tells lines apart: a page is no distance.
int64_t distance_in_page(const Access& access, AxisId axis) {
  const AxisAccess& along = access.along[axis.index];
  if (along.kind != AxisAccess::Kind::Strided) return 0;
  return std::gcd(along.stride * access.element_bytes, kPageBytes);
}

// Backwards: one load and one exchange of lanes.
bool runs_backwards(const Access& access, AxisId lane_axis) {
  return access.load && access.along[lane_axis.index].stride == -1 && access.element_bytes <= 4;
}

}  // namespace

// One load and some exchanges where that gives all lanes, else an element after the other.
void ComputeCost::add_apart(const Access& access, const TileLoad& load, const Lanes& lanes,
                            PortCycles& cycles) const {
  if (runs_backwards(access, *lanes.axis)) {
    cycles.shuffle += 1 / rates_.permute;
    return;
  }
  if (const int pieces = pieces_of(access, load, lanes)) {
    const bool takes_any_lane =
        target_.vector_bytes >= 64 || pieces == 2;  // of two registers, in one exchange
    cycles.load *= pieces;
    cycles.shuffle += (pieces - 1) * (takes_any_lane ? 1 : kExchangesOfTwo) / rates_.permute;
    return;
  }
  if (exchanges_lanes(load, lanes)) {
    cycles.shuffle += 1 / rates_.permute;
    return;
  }
  const double each_lane = cycles_apart(access, load, lanes);
  // Where guards leave part of an axis, the other part computes beside nothing.
  const bool is_everywhere = access.share_read == 1;
  const bool has_stride = access.along[lanes.axis->index].kind == AxisAccess::Kind::Strided;
  const double elements = lanes.count * access.share_read;
  const double waits = has_stride && is_everywhere ? rates_.strided_beside : 1;
  cycles.shuffle += (1 - waits) * elements * each_lane;
  cycles.whole += waits * elements * each_lane;
  if (has_stride) cycles.load = std::max(cycles.load, elements * rates_.element_load);
}

// Of vectors that are alike, with no guard that asks a lane.
bool ComputeCost::exchanges_lanes(const TileLoad& load, const Lanes& lanes) const {
  if (!load.gathered.empty() || asks_each_lane(load, *lanes.axis)) return false;
  if (affine_in(load.offset, static_cast<int>(lanes.axis->index))) return false;
  const auto pattern = lane_pattern(load.offset, *lanes.axis, lanes.count, lanes.count);
  return pattern && pattern->is_within_vector();
}

// Of an element that is loaded by itself into its lane.
double ComputeCost::cycles_apart(const Access& access, const TileLoad& load, const Lanes& lanes) const {
  const AxisAccess& along = access.along[lanes.axis->index];
  const double divided = kDivisionCycles * divisions_along(load.offset, *lanes.axis);
  const double crowded = crowds_sets(access, lanes) ? kCrowdedLoadCycles : 0;
  if (along.kind != AxisAccess::Kind::Strided || asks_each_lane(load, *lanes.axis))
    return divided + crowded + (along.is_uneven ? rates_.gather_near : rates_.gather);
  const bool is_half = lanes.count * 8 <= target_.vector_bytes;  // exchanges of half vectors go to more ports
  const bool is_narrow = access.element_bytes < 4;
  const double of_half = (is_narrow ? kNarrowLaneLoads : 1) * rates_.strided_load_half;
  // Beside positions that are read and checked, the insertion costs nothing.
  const bool is_inserted = is_narrow && load.gathered.empty();
  const double of_whole = is_inserted ? rates_.strided_load_narrow : rates_.strided_load;
  return divided + crowded + (is_half ? std::min(of_half, of_whole) : of_whole);
}

// Of every second, third, ... element, at places that nobody computes: as many loads, whose lanes are put
// together; under guards, only of every second. 0: not so.
int ComputeCost::pieces_of(const Access& access, const TileLoad& load, const Lanes& lanes) const {
  const int64_t stride = access.along[lanes.axis->index].stride;
  if (stride < 2 || !load.gathered.empty()) return 0;
  const bool is_short = access.element_bytes == 4 || access.element_bytes == 2;
  const bool is_one_register =
      lanes.count <= 16 && lanes.count * access.element_bytes <= target_.vector_bytes;
  const bool is_guarded = std::any_of(load.guard.begin(), load.guard.end(), [&](const Expr& guard) {
    return uses_index(guard, static_cast<int>(lanes.axis->index));
  });
  const bool is_near = stride == 2 || (2 * stride <= lanes.count && !is_guarded);
  return is_short && is_one_register && is_near ? static_cast<int>(stride) : 0;
}

// Whether lines that are walked side by side push each other out of L1 before their other elements are
// wanted: those of all that lies as far apart, or farther, as a tensor and what is stored like it.
bool ComputeCost::crowds_sets(const Access& access, const Lanes& lanes) const {
  const int64_t distance = distance_in_page(access, *lanes.axis);
  if (distance == 0) return false;
  const auto streams = std::ranges::count_if(
      facts_.accesses, [&](const Access& other) { return distance_in_page(other, *lanes.axis) >= distance; });
  const double places = double(kPageBytes) / double(std::max(distance, kLineBytes));
  return double(streams) * lanes.at_once > places * double(target_.l1_bytes) / double(kPageBytes);
}

}  // namespace tilefuse
