// Takes reductions over a concatenation apart where all but one of its parts are single elements.
//
//   %c = concat(%s, %z) {dim = 1}   : f32[8, 257]      the scores of 256 keys, and a sink
//   %m = reduce.max(%c) {dims = 1}
//   %p = exp(sub(%c, expand(%m)))
//   %l = reduce.sum(%p) {dims = 1};   %q = view(%p) {the first 256}
//
//   => %m = max(reduce.max(%s), %z);   %q = exp(sub(%s, expand(%m)))
//      %l = add(reduce.sum(%q), exp(sub(%z, %m)))
//
// What is computed of the parts then walks the same elements as what they were computed of, a product of
// matrices for example, and can be made in one pass with it; nothing is copied behind each other. Only where
// nobody needs the parts behind each other: every way from the concatenation leads through maps and
// movements that leave its axis alone, to reductions over the axis or to slices of one part.
//
// After canonicalize, before decompose_calls. Floating point results differ by the order of additions.
#pragma once
#include "core/graph.h"

namespace tilefuse {

Graph reduce_concats(Graph graph);

}  // namespace tilefuse
