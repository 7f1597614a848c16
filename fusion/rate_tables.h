// Reads a profile's rates at the thread counts and lengths between the measured ones.
#pragma once
#include <array>
#include <string>
#include <vector>

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

// Whether so many bytes come from memory, or from an L3 that is not much nearer.
bool lies_afar(const Target& target, double bytes);

// Whether rows of a page are walked more slowly from memory side by side than one after the other, as where a
// prefetcher follows few of them. So it is taken to be where that was not measured.
bool rows_defeat_prefetch(const Target& target);

// Times that overlap in part: their p-norm, between the sum (norm 1) and the maximum (infinity).
double overlap(double norm, std::initializer_list<double> times);

// Nanoseconds of a line of DRAM, all threads together, by how rows are walked. Tables hold what was measured;
// between, they are interpolated in the logarithm; without a table the plain bandwidth stands in.
class DramTables {
 public:
  DramTables(const Target& target, int threads);
  // `rows` rows of `run_bytes` side by side; kind: Read, Copy (a line read and one written), CopyStreamed.
  enum class Walked : uint8_t { Read, Copy, CopyStreamed };
  double interleaved_ns(Walked kind, double rows, double run_bytes) const;
  // Pieces of `run_bytes`, `rows` of them one under the other, each in a row of its own.
  enum class Jumped : uint8_t { Read, Write, WriteStreamed };
  double columns_ns(Jumped kind, double rows, double run_bytes) const;
  double write_ns(bool streamed) const { return write_ns_[streamed ? 1 : 0]; }
  double cheapest_ns() const;  // of any line read or written, however it is walked

 private:
  struct Grid {
    std::vector<double> rows, runs, cells;  // cells[row * runs.size() + run]; empty: not measured
    double at(double row, double run) const;
  };
  Grid read_grid(const Target& target, const std::string& key, std::vector<double> rows,
                 std::vector<double> runs, const std::string& threads) const;

  std::array<Grid, 3> interleaved_, columns_;
  std::array<double, 3> plain_ns_{};  // by Walked
  std::array<double, 2> write_ns_{};
};

}  // namespace tilefuse
