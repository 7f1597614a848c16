// The graph of a report, node by node: what a picture of it needs.
//
//   {"launches": [0, 1, 0],                        the region of each launch, by number in "regions"
//    "nodes": [{"name": "max", "kind": "operator", "op": "reduce.max", "origin": "aten._softmax.default",
//               "source": "model.py:17 in forward: ...", "type": "f32[s0]", "launch": 2}, ...],
//    "edges": [{"value": "sub", "from": 3, "to": 4, "bytes": 4096}, ...]}
//
// Nodes are the graph's inputs, the nodes that compute, and Calls, in an order in which they can run. Views,
// constants and iotas that each reader has a copy of are left out; edges lead through them.
#pragma once
#include <nlohmann/json.hpp>

#include "codegen/report.h"

namespace tilefuse {
nlohmann::json graph_of_report(const ReportFacts& facts);
double bytes_of(const TensorSpec& spec, const SizeHints& hints);  // unknown sizes: a usual one
}  // namespace tilefuse
