// Writes an online walk as values of a tile graph: what is carried from block to block, and how it moves.
//
//   %s1        = carry 0                        : f64[row]        what the blocks before have left
//   %s1_block  = reduce.sum(%exp) over col      : f32[row]        of this block, around the new anchor
//   %f0        = ...exp(%a0_used - %a0)         : f64[row]
//   %s1_next   = add(mul(%s1, %f0), %s1_block)  : f64[row]
//
// Runs between derive_online and lower_to_kernel, which then decides nothing about anchors: the rules of
// online_reductions.h (targets, unset anchors, factors, merging) are maps here. All values behind the block's
// reductions are f64; anchors have the type of the elements that stand under them, so that element and
// correction mean the same number. The values of the region keep their ids.
#pragma once
#include "fusion/online_walk.h"

namespace tilefuse {

struct CarriedValue {
  TileValueId carry, next;           // before and after a step
  std::optional<TileValueId> other;  // of a merge: the same in the part that is taken in
};

struct ExpandedPass {
  std::vector<CarriedValue> carried;  // states, then anchors
  // Reductions of one block, in groups: a group needs the values of the groups before it. None of a merge or
  // of parts.
  std::vector<std::vector<TileValueId>> groups;
  // A reduction of the region, and its value: at the end of the walk, of all parts. None of a first block.
  std::vector<std::pair<TileValueId, TileValueId>> results;
};

struct ExpandedOnline {
  TileGraph graph;
  std::vector<ExpandedPass> passes;
  // Set for every block, and not stepped; absent where nothing asks for them.
  std::optional<TileValueId> share;  // elements of the walk over those seen
  std::optional<TileValueId> count;  // elements of the block
};

enum class OnlineStep : uint8_t {
  Block,  // carried values take in a block of the walk
  Merge,  // carried values take in those of another part of the walk
  First,  // of a block by itself: nothing has been carried to it, and `next` is all there is
  Parts,  // the walked axis numbers parts of the walk: `carry` varies along it, and `next` is of all parts
};
// Blocks of a few vectors want wide states; where a block is long and its sum is stored and fetched again,
// the type of the elements is as good.
enum class StateWidth : uint8_t { Wide, AsElements };
ExpandedOnline expand_online(const TileGraph& graph, const OnlineReductions& derived, OnlineStep step,
                             StateWidth width = StateWidth::Wide);

}  // namespace tilefuse
