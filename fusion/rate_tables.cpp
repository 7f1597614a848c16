#include "fusion/rate_tables.h"

#include <algorithm>
#include <cmath>

#include "core/result.h"

namespace tilefuse {
namespace {

// The largest measured thread count that is no more than `threads`, for keys that end in ".<threads>".
int measured_threads(const Target& target, const std::string& key, int threads) {
  int best = 1;
  for (int t = 2; t <= threads && target.rates.contains(key + std::to_string(t)); t *= 2) best = t;
  return best;
}

}  // namespace

double usable_bytes(const Target& target, MemoryLevel level, int threads) {
  const double usable = target.rate("cache.usable");
  switch (level) {
    case MemoryLevel::L1:
      return usable * double(target.l1_bytes);
    case MemoryLevel::L2:
      return usable * double(target.l2_bytes);
    case MemoryLevel::L3:
      return usable * double(target.l3_bytes) / threads;
    case MemoryLevel::Dram:
      return 1e300;
  }
  TILEFUSE_CHECK(false, "a memory level outside its enum");
}

MemoryLevel level_holding(const Target& target, double bytes, int threads) {
  for (MemoryLevel level : {MemoryLevel::L1, MemoryLevel::L2, MemoryLevel::L3}) {
    if (bytes <= usable_bytes(target, level, threads)) return level;
  }
  return MemoryLevel::Dram;
}

double bandwidth_gbs(const Target& target, MemoryLevel level, const std::string& kind, int threads) {
  if (level == MemoryLevel::L1) return 2 * bandwidth_gbs(target, MemoryLevel::L2, "read", threads);
  if (level == MemoryLevel::Dram) {
    const std::string key = "bandwidth.DRAM." + kind + ".";
    return target.rate(key + std::to_string(measured_threads(target, key, threads)));
  }
  const std::string key = level == MemoryLevel::L2 ? "bandwidth.L2.read." : "bandwidth.L3.read.";
  const int measured = measured_threads(target, key, threads);
  return target.rate(key + std::to_string(measured)) * threads / measured;
}

double overlap(const Target& target, std::initializer_list<double> times) {
  const double norm = target.rate("overlap.norm"), largest = std::max(times);
  if (largest <= 0) return 0;
  double sum = 0;
  for (double time : times) sum += std::pow(time / largest, norm);
  return largest * std::pow(sum, 1 / norm);
}

}  // namespace tilefuse
