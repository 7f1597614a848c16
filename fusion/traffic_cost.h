// What each pass of a schedule moves between the levels of memory.
//
// Data live where a whole call of the region leaves them: in the cache that holds everything it touches. A
// pass that reads again what an earlier pass of the same task has read finds it in the level that holds what
// was touched in between.
#pragma once
#include <vector>

#include "fusion/loop_nest.h"
#include "fusion/rate_tables.h"
#include "fusion/shared_looks.h"

namespace tilefuse {

struct Traffic {
  double l2_bytes = 0;     // between L1 and L2, all threads
  double l3_bytes = 0;     // between L2 and L3
  double l3_waited = 0;    // of l3_bytes, what multiplications wait for
  double dram_ns = 0;      // of all threads together
  double kept_beside = 0;  // of l2_bytes, kept values, where L2 takes in what lies beyond it at the same time
};

// The passes of a walk: what each computes, and its loads and stores.
struct WalkedPasses {
  std::vector<std::vector<TileValueId>> values;
  std::vector<std::vector<const Access*>> accesses;
};

// What a schedule's passes do to any cache, whatever the number of threads.
struct PassLooks {
  std::vector<const Access*> turned;
  std::vector<Access> panels;           // of what is staged
  std::vector<const Access*> accesses;  // the others, pointing at their panels
  Footprints footprints;                // of these
};
struct WalkLooks {
  std::vector<double> windows;  // bytes that each pass touches for one block of rows
  std::vector<PassLooks> passes;
  std::vector<NestLoop> nest;  // that all of them walk
};

class TrafficCost {
 public:
  struct Home {  // where data live, and the share of a walk that does not find them in L2
    MemoryLevel level = MemoryLevel::L1;
    double beyond_l2 = 0;
  };
  TrafficCost(const TileGraph& graph, const Target& target, const RegionFacts& facts, int threads);

  WalkedPasses walked(std::vector<std::vector<TileValueId>> values, const Structure& structure) const;
  WalkLooks looks(const WalkedPasses& passes, std::vector<NestLoop> nest, const Schedule& schedule) const;
  // looks: of these passes. Where a block of rows stays in L1 from the first pass to the last, memory sees
  // what all of them read and write at the same time: the last one has the time of it.
  std::vector<Traffic> passes(const WalkedPasses& passes, const WalkLooks& looks,
                              const Schedule& schedule) const;
  // What filling the panels of a contraction moves.
  Traffic packing(const std::vector<NestLoop>& nest, const Schedule& schedule) const;
  double lower_bound_ns() const;  // DRAM time of reading and writing everything once

 private:
  struct Moved {  // lines of DRAM
    double read = 0, written = 0, streamed = 0;
    double read_whole = 0;  // of `read`, by vectors of a line
    double ns = 0;          // of what jumps, priced apart
  };
  std::vector<const Access*> accesses_of_pass(size_t pass,
                                              const std::vector<std::vector<TileValueId>>& passes,
                                              const Structure& structure) const;
  bool reads_in(const Access& access, size_t pass, const std::vector<std::vector<TileValueId>>& passes) const;
  std::optional<size_t> last_read_before(const Access& access, size_t pass,
                                         const std::vector<std::vector<TileValueId>>& passes) const;
  double touched_bytes(const Access& access, const Schedule& schedule) const;
  double found_again(const Access& access, size_t pass, const std::vector<std::vector<TileValueId>>& passes,
                     const std::vector<double>& windows, double usable) const;
  bool is_streamed(const Access& access, const Schedule& schedule) const;
  bool walks_far_in_jumps(const Access& access, const Schedule& schedule) const;
  double piece_factor(const Access& access, const MemoryWalk& walk) const;
  Access row_access(const Access& access, const Schedule& schedule) const;
  Access panel_access(const Access& access, const Schedule& schedule) const;
  bool moves(const Access& access, size_t level, const Schedule& schedule) const;
  const Home& home_of_access(const Access& access) const;
  double read_in_l2(const Access& access, const Schedule& schedule) const;
  double moved_in_l3(const Access& access, const Schedule& schedule) const;
  double written_in_l2(const Home& home, const Schedule& schedule) const;
  bool misses(const Access& access, size_t level, const Schedule& schedule) const;
  std::vector<Access> read_from_panels(std::vector<const Access*>& accesses, const Schedule& schedule) const;
  // `moved` is added to; without its time.
  Traffic pass_traffic(size_t pass, const WalkedPasses& passes, const WalkLooks& looks,
                       const Schedule& schedule, Moved& moved) const;
  std::optional<size_t> writing_pass(TileValueId value, const Schedule& schedule) const;
  std::vector<double> spilled_shares(const std::vector<double>& windows) const;
  double spilled_bytes(size_t pass, const Schedule& schedule) const;
  void add_l3(const Access& access, double bytes, const std::vector<NestLoop>& nest, const Schedule& schedule,
              Traffic& traffic) const;
  void add_dram(const Access& access, double bytes, const std::vector<NestLoop>& nest,
                const Schedule& schedule, Moved& moved) const;
  void add_turned(const Access& access, bool is_again, const Schedule& schedule, Traffic& traffic,
                  Moved& moved) const;
  double dram_ns(const Moved& moved, const Schedule& schedule) const;

  const TileGraph& graph_;
  const RegionFacts& facts_;
  Home home_, own_home_;            // of what lies in memory; of the tiles of a task
  std::array<double, 3> usable_{};  // of L1, L2, L3
  DramTables tables_;
  struct {  // what a jump to another page costs from L3, one within it, and one in memory: as bytes more
    double far_bytes, near_bytes, dram_bytes;
  } restart_;
  double l2_write_share_;              // of what stays in L2, by how much writing is slower than reading
  double whole_line_reads_;            // of what is read from DRAM, by how much such vectors slow it
  double read_beside_;                 // of what is read, by how much rows side by side slow it
  double written_beside_;              // of what is written, by how much each other row slows it
  double moved_beside_;                // from L3 and to it, by how much long rows side by side slow it
  double walked_element_bytes_;        // of what most is loaded of
  std::vector<const Access*> access_;  // by value: of a load
  SharedLooks shared_looks_;
  double scratch_bytes(TileValueId value, const Schedule& schedule) const;
};

}  // namespace tilefuse
