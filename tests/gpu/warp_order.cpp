#include "tests/gpu/warp_order.h"

#include <algorithm>

namespace tilefuse {

void WarpKnowledge::join(const WarpKnowledge& other) {
  events.resize(std::max(events.size(), other.events.size()));
  for (size_t w = 0; w < other.events.size(); ++w) events[w] = std::max(events[w], other.events[w]);
  for (const auto& [barrier, count] : other.phases) phases[barrier] = std::max(phases_of(barrier), count);
}

WarpOrder::WarpOrder(size_t warps) : known_(warps) {
  for (size_t w = 0; w < known_.size(); ++w) {
    known_[w].events.resize(known_.size());
    known_[w].events[w] = 1;
  }
}

void WarpOrder::tell(int64_t thread, WarpKnowledge& to) {
  to.join(of(thread));
  ++of(thread).events[warp_of(thread)];
}

WarpKnowledge WarpOrder::of_all(const std::vector<size_t>& warps) const {
  WarpKnowledge all;
  for (const size_t w : warps) all.join(known_[w]);
  return all;
}

void WarpOrder::meet(const std::vector<size_t>& warps) {
  const WarpKnowledge all = of_all(warps);
  for (const size_t w : warps) {
    known_[w] = all;
    ++known_[w].events[w];
  }
}

}  // namespace tilefuse
