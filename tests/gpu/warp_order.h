// What the warps of a cluster of blocks know to be over, by what they have waited for: of each other,
// everything before a number of events; of each barrier in shared memory, how many of its phases have ended.
//
//   a warp reads, then arrives; another one waits for that phase: it knows of the read, and may write there
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tilefuse {

struct WarpKnowledge {
  std::vector<int64_t> events;         // by warp: those before this number
  std::map<uint64_t, int64_t> phases;  // by barrier: so many have ended
  void join(const WarpKnowledge& other);
  int64_t phases_of(uint64_t barrier) const {
    const auto found = phases.find(barrier);
    return found == phases.end() ? 0 : found->second;
  }
};

class WarpOrder {
 public:
  explicit WarpOrder(size_t warps);
  static size_t warp_of(int64_t thread) { return static_cast<size_t>(thread / kThreads); }
  WarpKnowledge& of(int64_t thread) { return known_[warp_of(thread)]; }
  const WarpKnowledge& of(int64_t thread) const { return known_[warp_of(thread)]; }
  // The number of what the warp does now.
  int64_t now(int64_t thread) const { return of(thread).events[warp_of(thread)]; }
  // What it tells others covers what it has done before, not what it does from now on.
  void tell(int64_t thread, WarpKnowledge& to);
  void meet(const std::vector<size_t>& warps);
  WarpKnowledge of_all(const std::vector<size_t>& warps) const;  // what one or another knows
  size_t warps() const { return known_.size(); }

 private:
  static constexpr int64_t kThreads = 32;
  std::vector<WarpKnowledge> known_;
};

}  // namespace tilefuse
