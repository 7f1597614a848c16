// Tile graphs from a short notation, for tests that need many: types and domains are inferred.
//
//   %m = reduce.max(%x[q,k]) over k
//   %l = reduce.add(exp(sub(%x, %m))) over k
//   %o = contract(%p, %V[k,v]) over k             a sum of products
//
// Axes q: 5, k: 45, d: 6, v: 4, n: 3. %name[axes] is an input buffer with those dimensions; %mask and names
// that begin with it are bool. iota(k) and extent(k) are floats.
#pragma once
#include <string>
#include <vector>

#include "core/tensor.h"
#include "fusion/structure.h"

namespace tilefuse {

struct FormulaCase {
  TileGraph graph;
  Structure structure;  // the walk along k
};

FormulaCase formula_case(const std::string& text);

// Masks leave one row empty and start another with nothing; "temp" is near one, "label" a position along k;
// Q, K and x are scaled.
std::vector<Tensor> formula_inputs(const TileGraph& graph, double scale, uint64_t seed);

}  // namespace tilefuse
