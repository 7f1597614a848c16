// A stable 128-bit hash of what nodes of a graph compute, for finding equal regions and naming kernels.
//
// Counts: operators with their attributes, who uses whose result, dtypes, shapes, strides seen from outside,
// which values come from outside (in order of first use) and which go out, symbol ranges. Does not count:
// names, source lines, origins, and the names of symbols, which are renumbered by first use. Equal across
// processes and machines. (Two regions that differ in symbol names only can still hash differently when an
// expression of several symbols is the first use of each, as their order inside it follows their names.)
//
//   structural_hash(graph, region.nodes, region.outputs) == structural_hash(graph, other.nodes,
//   other.outputs)
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/graph.h"

namespace tilefuse {

struct Hash128 {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Hash128&) const = default;
};

// `nodes` in topological order; `outputs` are the results that are used elsewhere.
Hash128 structural_hash(const Graph& graph, std::span<const NodeId> nodes, std::span<const ValueId> outputs);
Hash128 structural_hash(const Graph& graph);  // all of it, with its inputs, outputs and mutations
Hash128 hash_bytes(std::string_view bytes);
std::string to_text(const Hash128& hash);  // 32 hexadecimal digits

}  // namespace tilefuse

template <>
struct std::hash<tilefuse::Hash128> {
  size_t operator()(const tilefuse::Hash128& hash) const noexcept { return hash.low; }
};
