// Loads of one buffer that look at the same elements, some places apart: what one of them brings into a cache
// the others find there.
//
//   %0 = load %x[i*128 + j]         of each row, %1 looks at what %0 does 64 elements further on
//   %1 = load %x[i*128 + j + 64]
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "fusion/loop_nest.h"
#include "fusion/region_facts.h"

namespace tilefuse {

class SharedLooks {
 public:
  // Both outlive it.
  SharedLooks(const TileGraph& graph, const RegionFacts& facts);

  // The load that brings in what this one looks at; nullopt: it does so itself.
  std::optional<TileValueId> first(TileValueId load) const;
  // How many times as much a load brings into a cache of `usable` bytes as the tasks have elements, for
  // others look at what are other tasks' elements; where the cache holds what a task touches, the next one
  // finds them there.
  double beyond_tasks(const Access& access, const std::vector<NestLoop>& nest, const Footprints& footprints,
                      double usable) const;

 private:
  struct Spread {
    int64_t low = 0, high = 0;
  };
  void group(const Access& access);

  const TileGraph& graph_;
  const RegionFacts& facts_;
  std::vector<const Access*> firsts_;
  std::map<TileValueId, TileValueId> first_of_;        // of the other loads
  std::map<TileValueId, std::vector<Spread>> spread_;  // of firsts, by AxisId: how far others are away
};

}  // namespace tilefuse
