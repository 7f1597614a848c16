// Reads a profile's rates at the thread counts and lengths between the measured ones.
#pragma once
#include <string>

#include "fusion/target.h"

namespace tilefuse {

enum class MemoryLevel : uint8_t { L1, L2, L3, Dram };

// Bytes of a level that one of `threads` threads can count on: what is usable of a cache, L3 shared out.
double usable_bytes(const Target& target, MemoryLevel level, int threads);
// The nearest level that holds `bytes` of one thread.
MemoryLevel level_holding(const Target& target, double bytes, int threads);

// GB/s of all threads together; kind: "read", "write", "copy", "write_streamed", "copy_streamed". Caches
// scale with the threads; DRAM stays at the largest measured count.
double bandwidth_gbs(const Target& target, MemoryLevel level, const std::string& kind, int threads);

double overlap(const Target& target, std::initializer_list<double> times);  // p-norm: neither sum nor maximum

}  // namespace tilefuse
