// What the views and gathers of a graph might read, and its scatters write, outside of their operands, as far
// as cannot be ruled out.
//
//   %y = view(%x) {map = (i0) -> (i0) : [s1]}  with %x: f32[s0]      ->  {%y, s0 - s1}: has to be >= 0
//
// A graph that the framework captured is right by construction; one from a file may say anything. Sizes that
// the guards of the capture made equal may be spelled in two ways: such a requirement holds at run time. A
// literal one never does. Where there is none, none was found.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/graph.h"

namespace tilefuse {

struct UnprovenRead {
  NodeId node;
  std::optional<Expr> requirement;  // over sizes: not to be negative
  std::string text;                 // "%y reads %x at i0, which may be outside of 0 to s0 - 1"
};

std::vector<UnprovenRead> unproven_reads(const Graph& graph);
std::vector<UnprovenRead> unproven_reads(const Graph& graph, std::span<const NodeId> nodes);

}  // namespace tilefuse
