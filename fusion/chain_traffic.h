// Where the operands of a chain's nests lie.
//
// The solver of a nest sees what one block touches, which fits a near cache, and would take it to lie there.
// But a block of keys is another one each time: it comes from where the task's keys are, and what only this
// task reads from where the whole region's operands are.
//
//   attention, 12 heads, q = 64, 2,048 keys:  %K, %V: 1 MiB a head, read by every task of it: L3
//                                             %Q, %y: the task's own, of 25 MiB in all:       DRAM
//
// So a nest is solved as if so many bytes were touched around it, and what single operands bring from further
// away is added.
#pragma once
#include <vector>

#include "fusion/chain.h"
#include "fusion/rate_tables.h"
#include "fusion/solve.h"

namespace tilefuse {

// What one run of a nest touches of every buffer; scratch tiles stay near.
struct NestTraffic {
  struct Touched {
    BufferId buffer;
    double bytes = 0;
    bool is_written = false;
  };
  std::vector<Touched> touched;
};
NestTraffic nest_traffic(const TileGraph& nest, const SizeHints& hints);

class ChainTraffic {
 public:
  ChainTraffic(const TileGraph& graph, const Target& target, const SizeHints& hints);

  // Of most of what a nest touches: the bytes that lie with it.
  double around_bytes(const NestTraffic& nest, const Schedule& task) const;
  // Microseconds of one run of a nest, on one of `threads` threads that all run tasks, beyond those of a nest
  // with so many bytes around it.
  struct Distant {
    double cache_us = 0, dram_us = 0;
  };
  Distant distant(const NestTraffic& nest, double around_bytes, const Schedule& task, int threads) const;

 private:
  struct Held {                               // where a buffer's part of a task lies
    double first_bytes = 0, again_bytes = 0;  // that lie with it when it is first read, and when again
    double share_first = 1;                   // of the tasks that are the first to read it
  };
  Held held(BufferId buffer, const Schedule& task) const;
  double task_bytes(const Schedule& task) const;
  double length(AxisId axis, const Schedule& task) const;
  bool varies_along(BufferId buffer, AxisId axis) const;

  struct Use {  // a load or a store of the region
    BufferId buffer;
    std::vector<AxisId> axes;
  };
  const TileGraph& graph_;
  const Target& target_;
  std::vector<double> extent_;  // by axis, at the hints
  std::vector<Use> uses_;
  double region_bytes_ = 0;
};

}  // namespace tilefuse
