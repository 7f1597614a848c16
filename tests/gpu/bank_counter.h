// Accesses of a warp to shared memory over again, because two lanes want different words of one bank.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace tilefuse {

// Shared memory gives a warp one word of each of its 32 banks at a time. Accesses of 8 and 16 bytes go in two
// and four parts of the warp.
class BankCounter {
 public:
  explicit BankCounter(int bytes) : words_((bytes + 3) / 4) {}

  void take(int lane, uint64_t address) {
    const int part = lane * words_ / kWarpLanes;
    for (int word = 0; word < words_; ++word) {
      const uint64_t number = address / 4 + static_cast<uint64_t>(word);
      wanted_[{part, number % kBanks}].insert(number);
    }
  }
  int64_t conflicts() const {
    std::map<int, size_t> most;
    for (const auto& [place, words] : wanted_) most[place.first] = std::max(most[place.first], words.size());
    int64_t again = 0;
    for (const auto& [part, words] : most) again += static_cast<int64_t>(words) - 1;
    return again;
  }

 private:
  static constexpr uint64_t kBanks = 32;
  static constexpr int kWarpLanes = 32;
  int words_;
  std::map<std::pair<int, uint64_t>, std::set<uint64_t>> wanted_;  // words by part and bank
};

}  // namespace tilefuse
