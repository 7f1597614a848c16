// Finds the regions that are equal but for their names, so that each is compiled once.
//
// Equal: same structural hash, same size symbols in the same places (a kernel's sizes are passed by symbol),
// same pins.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "fusion/partition.h"

namespace tilefuse {

struct DistinctRegions {
  std::vector<int> region_of;       // by region of the partition: which distinct one it is
  std::vector<int> representative;  // by distinct one: a region of the partition
  std::vector<std::string> hash;    // by distinct one: 16 hexadecimal digits
};

DistinctRegions find_distinct_regions(const Graph& graph, const Partition& partition,
                                      const std::map<std::string, Pins>& pins);

}  // namespace tilefuse
