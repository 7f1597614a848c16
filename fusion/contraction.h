// Contractions, found by their algebra: a sum of products of two values that both vary along what is summed
// over, of which at least one stays the same along an axis of the result. What is loaded once then serves
// several results, so a block of results in registers pays; matrix products are the well-known case, and any
// broadcast-multiply-sum is another. A sum that every term of is scaled alike is none.
//
//   %p = mul(%x, %w) : f32[i, j, k];  %y = reduce.sum(%p) over k : f32[i, j]      %x[i, k], %w[k, j]
#pragma once
#include <optional>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct Contraction {
  TileValueId product;
};

// Absent where `value` is no such sum.
std::optional<Contraction> contraction_of(const TileGraph& graph, TileValueId value);
int count_contractions(const TileGraph& graph);
inline bool has_contraction(const TileGraph& graph) { return count_contractions(graph) > 0; }

// Whether the factor that stays the same along the vectors of stored results lies across the sum, contiguous
// along no axis that is summed over: what goes with each vector of the other lies a line apart.
bool has_rows_across(const TileGraph& graph, TileValueId sum);

}  // namespace tilefuse
