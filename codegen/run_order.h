// The order in which regions and Calls run: each behind what it reads, otherwise as in the program, so that
// values are made close to where they are read. Calls with effects keep their order among themselves.
#pragma once
#include <functional>
#include <vector>

#include "fusion/partition.h"

namespace tilefuse {

struct Unit {  // of work: a region of the partition, or a Call node
  bool is_region = false;
  uint32_t index = 0;
};

std::vector<Unit> run_order(const Graph& graph, const Partition& partition,
                            const std::function<bool(const Call&)>& is_ordered);

// The value in memory that `value` is a view of (itself, unless a View outside every region made it).
ValueId viewed_value(const Graph& graph, const IdMap<ValueId, bool>& in_memory, ValueId value);
// Graph inputs, results of Calls, outputs of regions.
IdMap<ValueId, bool> values_in_memory(const Graph& graph, const Partition& partition);

}  // namespace tilefuse
