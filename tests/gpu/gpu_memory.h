// The memory of a simulated GPU, which knows who touched what.
//
//   GlobalMemory   buffers far apart from each other, so that an access beside one hits nothing
//   SharedMemory   of one block, with a race detector: between two barriers, no thread may touch what another
//                  one writes (between two of a warp, where both are of it); nobody may touch what a copy is
//                  under way to, or write what an instruction of a warpgroup may still read; boxes that the
//                  machine copies are ordered by barriers in shared memory (warp_order.h); threads of other
//                  blocks of a cluster read what was written before all of them met, and who writes there
//                  again has to know that they have
//   AsyncCopies    of one thread, from global to shared memory: they arrive when the thread waits for them
//
// A fault is a GpuFault that says what, where and by whom.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/gpu/warp_order.h"

namespace tilefuse {

constexpr uint64_t kGpuSectorBytes = 32;

class GpuFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct GpuBuffer {
  std::vector<unsigned char> bytes;
  bool is_output = false;       // nothing is in it before it is written, and every element is written once
  uint64_t address = 0;         // set by GlobalMemory
  int64_t sectors = 0;          // of 32 bytes, that warps asked for
  std::vector<int64_t> writer;  // by byte: the thread of the grid that wrote it, or kNobody
};

struct GpuAccess {
  int64_t thread = 0;  // of the grid; in shared memory, of the cluster
  uint64_t address = 0;
  int bytes = 0;
  bool is_store = false;
  bool is_read_only = false;
  const unsigned char* stored = nullptr;  // what a store writes, where it is known
};

class GlobalMemory {
 public:
  explicit GlobalMemory(std::vector<GpuBuffer> buffers);
  unsigned char* access(const GpuAccess& access);         // checks first
  void count_sectors(const std::set<uint64_t>& sectors);  // of one access of a warp, by address / 32
  const std::vector<GpuBuffer>& buffers() const { return buffers_; }
  // Sectors that are not in a cache of kCacheSectors, the least recently used of which goes. It stands for
  // the cache that blocks share, made small as the tests' tensors are small: what is wanted again soon is
  // there, a row that is read again for another pass is not.
  int64_t missed_sectors() const { return missed_sectors_; }
  int64_t touched_sectors() const { return static_cast<int64_t>(touched_.size()); }

 private:
  static constexpr size_t kCacheSectors = (128 << 10) / kGpuSectorBytes;
  void take_from_cache(uint64_t sector);

  std::list<uint64_t> recent_;  // in the cache, the most recent first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> cached_;
  int64_t missed_sectors_ = 0;
  std::unordered_set<uint64_t> touched_;
  std::vector<GpuBuffer> buffers_;
};

class SharedMemory {
 public:
  // Of the block that has `warps` of those of its cluster.
  SharedMemory(int64_t bytes, WarpOrder& order, std::vector<size_t> warps);
  unsigned char* access(const GpuAccess& access);               // threads of the block
  const unsigned char* load_of_cluster(const GpuAccess& load);  // threads of another one
  // A copy may write any time from `begin_copy` to `end_copy`, where it is a store of the thread that waited.
  void begin_copy(const GpuAccess& store);
  unsigned char* end_copy(const GpuAccess& store);
  // An instruction of a warpgroup may read any time from `begin_matrix_read` to `end_matrix_read`. It sees
  // what a thread wrote that went through a fence of the async proxy after that, then through a barrier
  // ("Async proxy"; that a fence of another thread does, too, is not taken into account).
  const unsigned char* begin_matrix_read(const GpuAccess& load);
  void end_matrix_read(const GpuAccess& load);
  void fence_of_async_proxy(int64_t thread) { fences_[thread].push_back({writes_, epoch_}); }
  // A part of a box that the thread has asked for may come any time from `begin_box` to `end_box`. A warp may
  // touch it when it knows that this phase of the barrier has ended, and the next one may be asked for by a
  // warp that knows what others have read of it.
  void begin_box(const GpuAccess& store);
  unsigned char* end_box(const GpuAccess& store, uint64_t barrier, int64_t phase);
  // From the first barrier in shared memory on there may be boxes, and reads count that they must not come
  // to.
  void watch_reads() { watches_reads_ = true; }
  void barrier();
  void cluster_barrier() { cluster_epoch_ = ++epoch_; }  // whose warps meet in the WarpOrder, too
  void warp_barrier(size_t warp) { ++meetings_[warp]; }
  void end_warp(size_t warp) { ended_in_[warp] = epoch_; }
  // What a thread of the block did before so many barriers is over for thread `by` of the cluster: both have
  // come to one since.
  bool is_over(int64_t thread, int64_t epoch, int64_t by) const {
    return epoch < std::min(epoch_, ended_in_[WarpOrder::warp_of(thread)]) &&
           (has(by) || epoch < cluster_epoch_);
  }
  bool has(int64_t thread) const {
    const size_t warp = WarpOrder::warp_of(thread);
    return warp >= warps_.front() && warp <= warps_.back();
  }
  bool has_met_cluster() const { return cluster_epoch_ > 0; }
  int64_t epoch() const { return epoch_; }
  WarpOrder& order() { return order_; }
  const WarpOrder& order() const { return order_; }
  const std::vector<size_t>& warps() const { return warps_; }
  // Of the barrier at that place, in WarpKnowledge.
  uint64_t name_in_cluster(uint64_t barrier) const { return uint64_t{warps_.front()} << 32 | barrier; }

 private:
  struct Cell {
    int64_t writer = -1, reader = -1;
    int64_t copier = -1;                    // of a copy under way
    int64_t written_in = -1, read_in = -1;  // epochs: numbers of barriers before
    int64_t written_at = 0, read_at = 0;    // meetings of the warp of that thread before
    bool has_readers = false;               // more than one in that epoch
    bool has_warps = false;                 // and not of one warp
    int64_t write = 0;                      // its number
    int matrix_readers = 0;                 // under way
    uint64_t box_barrier = 0;               // of what came in a box, and ...
    int64_t box_phase = -1;                 // ... the phase that ends with it; -1: nothing did
  };
  struct Fence {
    int64_t writes, epoch;  // before it
  };
  // Since the thread did that, its warp has met, which is the warp of the access.
  bool has_met(int64_t thread, int64_t meetings, const GpuAccess& access) const {
    const size_t warp = WarpOrder::warp_of(thread);
    return warp == WarpOrder::warp_of(access.thread) && meetings_[warp] > meetings;
  }
  void check_bounds(const GpuAccess& access) const;
  void take_store(Cell& cell, const GpuAccess& access, uint64_t byte) const;
  void take_load(Cell& cell, const GpuAccess& access, uint64_t byte) const;
  void take_matrix_read(const Cell& cell, const GpuAccess& access, uint64_t byte) const;
  void demand_fence(const Cell& cell, const std::string& reader, const GpuAccess& access,
                    uint64_t byte) const;
  void demand_phase(const Cell& cell, const GpuAccess& access, uint64_t byte) const;
  void demand_others_are_done(const GpuAccess& store, uint64_t byte) const;
  void remember_read(const GpuAccess& access);
  void write(Cell& cell, int64_t thread);
  std::vector<unsigned char> bytes_;
  std::vector<Cell> cells_;
  int64_t epoch_ = 0, cluster_epoch_ = 0, writes_ = 0;
  std::unordered_map<int64_t, std::vector<Fence>> fences_;  // by thread, in order
  std::vector<int64_t> meetings_, ended_in_;  // by warp of the cluster; the epoch, if it has ended
  WarpOrder& order_;
  std::vector<size_t> warps_;
  bool watches_reads_ = false;
  static constexpr uint64_t kBoxPart = 16;                     // bytes
  using ReadsByWarp = std::vector<int64_t>;                    // the last one of each
  std::unordered_map<uint64_t, ReadsByWarp> reads_;            // of parts of boxes
  std::unordered_map<uint64_t, ReadsByWarp> reads_of_others_;  // of bytes, by other blocks
};

class AsyncCopies {
 public:
  void begin(const GpuAccess& store, std::vector<unsigned char> bytes, SharedMemory& shared);
  void commit();                                      // those since the last commit are a group
  void wait(size_t most_left, SharedMemory& shared);  // of groups

 private:
  struct Copy {
    GpuAccess store;
    std::vector<unsigned char> bytes;
  };
  std::vector<Copy> open_;
  std::deque<std::vector<Copy>> groups_;
};

}  // namespace tilefuse
