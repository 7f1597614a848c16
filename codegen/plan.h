// Plans how a partitioned graph runs: the order of regions and Calls, a slot per tensor in memory, aliases
// for views that strides can express, an arena for what nobody outside sees, frees for the rest.
//
// Requires: every value that a Call, an output or a region reads is a graph input, a Call's result, a
// region's output, or a strided view of one of these. Ensures: every slot is written before it is read and
// no arena byte is reused while a slot, or an alias that an operator may have made of it, is still read.
#pragma once
#include <functional>
#include <vector>

#include "codegen/executable.h"
#include "fusion/partition.h"

namespace tilefuse {

// What the framework knows about an operator.
struct CallFacts {
  bool results_may_alias = false;  // a result may share memory with an operand
  bool writes_results = false;     // has an out= form that writes into given memory
  bool is_ordered = false;         // draws random numbers or has effects: keeps its place among such
};
using CallFactsOf = std::function<CallFacts(const Call&)>;

// On a GPU there is no arena: what an arena saves there, the framework's own allocator does, and every tensor
// has memory of its own.
//
// regions: the distinct programs; region_of[i]: which of them region i of the partition runs.
Executable plan(const Graph& graph, const Partition& partition, std::vector<CompiledRegion> regions,
                const std::vector<int>& region_of, const CallFactsOf& facts, const Place& place = {});

// The input and output tensors of a region, as its buffers see them.
TensorSpec spec_of(const Graph& graph, ValueId value);

}  // namespace tilefuse
