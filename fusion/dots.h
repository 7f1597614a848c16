// Dots: where both factors of a contraction are narrow, so many neighbours along the summed axis as fill 32
// bits are multiplied with their counterparts and added to a sum by one instruction.
//
//   pairs   of bf16 into f32, 2     y[i, j] += x[i, k]*w[j, k] + x[i, k+1]*w[j, k+1]
//   quads   of i8 or u8 into i32, 4
//
// With %x[i*512 + k] and %w[j*512 + k], %w staged along k, the panel then holds narrow elements, a row of it
// the neighbours of each lane, in a half or a quarter of the bytes; the other factor is read so many at a
// time and widened nowhere. Schedules for targets on which the instruction is missing, or no faster than as
// many multiply-adds, widen where they pack instead; a kernel made for another processor that lacks it
// multiplies and adds one by one. Sums of bf16 are in f32 either way, in another order; sums of integers
// wrap, as theirs in any order do.
//
// The instruction for quads takes one factor with a sign and one without. Where both have one, or neither,
// the row is read as of the other sign, its sign bits turned over: 128 more, or less, of each. What that adds
// to a sum is the same for all rows, 128 times a sum along the panel, so that sums start from its negative.
// Those of matrix tiles (matrix_tiles.h) take every sign.
//
// Behind the last whole dot of a sum of odd length, say, the elements that are missing are zero in both
// factors: in panels and in tiles of neighbours they lie so, of a row in memory no more is read than there
// is.
//
// Where lanes stand along the summed axis, and both factors lie along it in memory, every lane takes the next
// neighbours of both and nothing is packed or widened: "lanes k = 16 in pairs" reads 32 elements at a time.
#pragma once
#include <array>
#include <optional>
#include <string_view>

#include "fusion/schedule.h"
#include "fusion/structure.h"
#include "fusion/target.h"

namespace tilefuse {

struct DotInfo {
  std::string_view name;  // "quads"
  int count;              // neighbours of a dot
  DType sum;              // what they are added up in
  std::string_view rate;  // cycles of the instruction
};
const DotInfo& info(DotKind kind);  // None: one element at a time

// Whether one instruction for all beats as many multiply-adds, by the rates of the profile.
bool multiplies_in(DotKind kind, const Target& target);

struct Dot {
  // A load that stays the same along the lanes: contiguous along the summed axis, or of a tile of neighbours
  // (neighbour_tiles.h).
  TileValueId row;
  TileValueId panel;         // a staged load, or, where lanes stand along the summed axis, one like the other
  bool turns_signs = false;  // of the row: sums start from what that adds
};

// Whether dots can walk the axis: it is nowhere cut, and how many elements its last dot has, if that is not a
// whole one, is known when the kernel is made.
bool falls_into_dots(const TileGraph& graph, AxisId axis, DotKind kind);

// Elements of the last dot of such an axis if its length is no multiple of their count; 0: every one is
// whole.
int64_t elements_of_last_dot(const TileGraph& graph, AxisId axis, DotKind kind);

// Whether the value has bf16's precision by its type, or by that of what it is a cast of.
bool is_declared_narrow(const TileGraph& graph, TileValueId value);

// Whether `sum` is one of products of two factors of bf16's precision, in memory or not: what is computed of
// them may be rounded to it, as whoever computes value by value does.
bool sums_narrow_products(const TileGraph& graph, TileValueId sum);

// What a factor is loaded by, of a type that dots of this kind take as it lies in memory.
std::optional<TileValueId> narrow_load(const TileGraph& graph, TileValueId factor, DotKind kind);

// The loads that `sum` adds up products of, where both are narrow; kind None: it does not.
struct NarrowFactors {
  DotKind kind = DotKind::None;
  std::array<TileValueId, 2> loads = {};
};
NarrowFactors narrow_factors(const TileGraph& graph, TileValueId sum);

// The kind of dots that some schedule may have for `sum`, if both factors lie in memory, in whatever order.
DotKind dots_of_products(const TileGraph& graph, TileValueId sum);

// The kind of dots that `sum` adds up, if both factors lie in memory dot by dot: whoever computes it needs
// nothing that was laid out or widened before.
DotKind dots_of_sum(const TileGraph& graph, TileValueId sum);

// In which dots some schedule may walk the region: one walk over one axis that falls into dots, that sums
// products of such factors and does nothing else.
DotKind dots_of_region(const TileGraph& graph, const Structure& structure);

// Of which kind some sum in the graph has a factor in memory, if the target is faster so.
DotKind dots_in(const TileGraph& graph, const Target& target);

// The factors of each reduction's products, in the order of structure.reductions; empty: this schedule does
// not walk the region so.
std::vector<Dot> find_dots(const TileGraph& graph, const Structure& structure, const Schedule& schedule);
inline bool walks_dots(const TileGraph& graph, const Structure& structure, const Schedule& schedule) {
  return !find_dots(graph, structure, schedule).empty();
}

// Whether every schedule that stages this factor walks dots of the kind: the region sums products with one
// other, which never lies along the lanes and holds its neighbours as they are read.
bool is_panel_of_dots(const TileGraph& graph, const Structure& structure, TileValueId load, DotKind kind);

}  // namespace tilefuse
