// Brings a graph into the form that the later stages expect: no dead nodes, no movement that moves nothing,
// no chain of movements that is one movement, nothing computed twice, nothing computed that is known already.
//
// Runs after import (whose expansions repeat themselves) and before partition (which would pay for every
// node). Ensures: inputs, outputs and mutations stand where they stood and keep names, types and strides; a
// value that a Call reads or that the graph returns is only replaced by one of the same strides; Calls are
// never merged or reordered, and removed only where nothing reads one that has a decomposition; floating
// point results are bit for bit the same.
//
//   %a = view(%x) {map = (i0, i1) -> (i1, i0) : [8, 4]}   : f32[8, 4]
//   %b = view(%a) {map = (i0, i1) -> (i1, i0) : [4, 8]}   : f32[4, 8]
//   %y = mul(%b, %one)                                    : f32[4, 8]
//   => every use of %y reads %x
#pragma once
#include "core/graph.h"

namespace tilefuse {

Graph canonicalize(const Graph& graph);

}  // namespace tilefuse
