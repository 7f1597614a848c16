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

constexpr double kLineBytes = 64;
// Without measured tables: rows of 1 to 32 KiB side by side defeat the prefetcher, and short pieces cost a
// page walk each.
constexpr double kSideBySidePenalty = 1.6, kShortPiecePenalty = 2.5;

constexpr double kNearL3 = 1.5;  // times as fast as memory
constexpr double kPageBytes = 4096;
constexpr double kDefeated = 1.15;  // times as long as one row after the other

// Position of `value` in an ascending grid, as the lower index and the share of the way to the next.
std::pair<size_t, double> position(const std::vector<double>& grid, double value) {
  value = std::clamp(value, grid.front(), grid.back());
  size_t i = 0;
  while (i + 2 < grid.size() && grid[i + 1] <= value) ++i;
  return {i, std::log(value / grid[i]) / std::log(grid[i + 1] / grid[i])};
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

bool lies_afar(const Target& target, double bytes) {
  const auto read_gbs = [&](MemoryLevel level) { return bandwidth_gbs(target, level, "read", 1); };
  const bool is_near = read_gbs(MemoryLevel::L3) > kNearL3 * read_gbs(MemoryLevel::Dram);
  return bytes > (is_near ? usable_bytes(target, MemoryLevel::L3, 1) : double(target.l2_bytes));
}

bool rows_defeat_prefetch(const Target& target) {
  const DramTables tables(target, 1);
  using Walked = DramTables::Walked;
  return std::ranges::any_of(std::array{Walked::Read, Walked::Copy, Walked::CopyStreamed}, [&](Walked kind) {
    const auto ns = [&](double rows) { return tables.interleaved_ns(kind, rows, kPageBytes); };
    return std::min(ns(2), ns(4)) > kDefeated * ns(1);
  });
}

double overlap(double norm, std::initializer_list<double> times) {
  const double largest = std::max(times);
  if (largest <= 0) return 0;
  double sum = 0;
  for (double time : times) sum += std::pow(time / largest, norm);
  return largest * std::pow(sum, 1 / norm);
}

double DramTables::Grid::at(double row, double run) const {
  const auto [i, a] = position(rows, row);
  const auto [j, b] = position(runs, run);
  const auto cell = [&](size_t r, size_t c) { return cells[r * runs.size() + c]; };
  return (1 - a) * ((1 - b) * cell(i, j) + b * cell(i, j + 1)) +
         a * ((1 - b) * cell(i + 1, j) + b * cell(i + 1, j + 1));
}

DramTables::Grid DramTables::read_grid(const Target& target, const std::string& key, std::vector<double> rows,
                                       std::vector<double> runs, const std::string& threads) const {
  Grid grid{std::move(rows), std::move(runs), {}};
  for (double row : grid.rows) {
    for (double run : grid.runs) {
      std::string name = key;
      for (double number : {row, run}) name.append(".").append(std::to_string(static_cast<int>(number)));
      const auto found = target.rates.find(name.append(".").append(threads));
      if (found == target.rates.end()) return Grid{};
      grid.cells.push_back(found->second);
    }
  }
  return grid;
}

DramTables::DramTables(const Target& target, int threads) {
  const std::string measured = std::to_string(measured_threads(target, "bandwidth.DRAM.read.", threads));
  const auto plain = [&](const std::string& kind) {
    return kLineBytes / target.rate("bandwidth.DRAM." + kind + "." + measured);
  };
  plain_ns_ = {plain("read"), 2 * plain("copy"), 2 * plain("copy_streamed")};
  write_ns_ = {plain("write"), plain("write_streamed")};
  const std::array<std::string, 3> walked = {"read", "copy", "copy_streamed"};
  const std::array<std::string, 3> jumped = {"read", "write", "write_streamed"};
  for (size_t kind = 0; kind < 3; ++kind) {
    interleaved_.at(kind) = read_grid(target, "interleaved." + walked.at(kind), {1, 2, 4, 8},
                                      {256, 512, 2048, 4096, 65536}, measured);
    columns_.at(kind) = read_grid(target, "columns." + jumped.at(kind), {16, 64, 256, 4096},
                                  {64, 256, 1024, 15360}, measured);
  }
}

double DramTables::interleaved_ns(Walked kind, double rows, double run_bytes) const {
  const Grid& grid = interleaved_.at(static_cast<size_t>(kind));
  if (!grid.cells.empty()) return grid.at(rows, run_bytes);
  const bool defeats_prefetch = rows > 1 && run_bytes >= 1024 && run_bytes <= 32768;
  return plain_ns_.at(static_cast<size_t>(kind)) * (defeats_prefetch ? kSideBySidePenalty : 1);
}

double DramTables::columns_ns(Jumped kind, double rows, double run_bytes) const {
  const Grid& grid = columns_.at(static_cast<size_t>(kind));
  if (!grid.cells.empty()) return grid.at(rows, run_bytes);
  const double plain = kind == Jumped::Read ? plain_ns_[0] : write_ns_.at(kind == Jumped::Write ? 0 : 1);
  return plain * (run_bytes < 1024 ? kShortPiecePenalty : 1);
}

double DramTables::cheapest_ns() const {
  // A copy's cell holds two lines.
  double cheapest = std::min({plain_ns_[0], plain_ns_[1] / 2, plain_ns_[2] / 2, write_ns_[0], write_ns_[1]});
  for (size_t kind = 0; kind < 3; ++kind) {
    for (double cell : interleaved_.at(kind).cells)
      cheapest = std::min(cheapest, kind == 0 ? cell : cell / 2);
    for (double cell : columns_.at(kind).cells) cheapest = std::min(cheapest, cell);
  }
  return cheapest;
}

}  // namespace tilefuse
