// Dots of two: where both factors of a contraction are bf16, two neighbours along the summed axis lie in 32
// bits, and one instruction multiplies both with their counterparts and adds the products to a sum in f32.
//
//   %x[i*512 + k], %w[j*512 + k] : bf16, %w staged along k:   y[i, j] += x[i, k]*w[j, k] + x[i, k+1]*w[j,
//   k+1]
//
// The panel then holds bf16, a row of it two neighbours of each lane, in half of the bytes of f32; the other
// factor is read two at a time and widened nowhere. Schedules for targets on which the instruction is
// missing, or no faster than two multiply-adds, widen to f32 where they pack instead; a kernel made for
// another processor that lacks it multiplies and adds twice. Sums are in f32 either way, in another order.
#pragma once
#include <optional>

#include "fusion/schedule.h"
#include "fusion/structure.h"
#include "fusion/target.h"

namespace tilefuse {

// Whether one instruction for two products beats two multiply-adds, by the rates of the profile.
bool multiplies_in_pairs(const Target& target);

struct DotPair {
  // A load that stays the same along the lanes: contiguous along the summed axis, or of a tile of neighbours
  // (neighbour_tiles.h).
  TileValueId row;
  TileValueId panel;  // a staged load
};

// An axis of whole pairs: of even length, and nowhere cut.
bool has_whole_pairs(const TileGraph& graph, AxisId axis);

// Whether the value has bf16's precision by its type, or by that of what it is a cast of.
bool is_declared_narrow(const TileGraph& graph, TileValueId value);

// Whether `sum` is one of products of two factors of bf16's precision, in memory or not: what is computed of
// them may be rounded to it, as whoever computes value by value does.
bool sums_narrow_products(const TileGraph& graph, TileValueId sum);

// What a factor is loaded by, bf16 as it lies in memory.
std::optional<TileValueId> narrow_load(const TileGraph& graph, TileValueId factor);

// Whether `sum` is one of products of bf16 that both lie in memory pair by pair: whoever computes it needs
// nothing that was laid out or widened before.
bool may_sum_pairs(const TileGraph& graph, TileValueId sum);

// Whether some schedule may walk the region so: one walk over one axis of an even length, that sums products
// of bf16 and does nothing else.
bool may_walk_dots(const TileGraph& graph, const Structure& structure);

// The factors of each reduction's products, in the order of structure.reductions; empty: this schedule does
// not walk the region so.
std::vector<DotPair> dot_pairs(const TileGraph& graph, const Structure& structure, const Schedule& schedule);
inline bool walks_dots(const TileGraph& graph, const Structure& structure, const Schedule& schedule) {
  return !dot_pairs(graph, structure, schedule).empty();
}

}  // namespace tilefuse
