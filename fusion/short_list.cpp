#include "fusion/short_list.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/contains.h"
#include "fusion/matrix_tiles.h"

namespace tilefuse {
namespace {

// Of two schedules that cost the same, the smaller code: a share of the cost for each doubling of the body.
constexpr double kCodeShare = 0.002;
// Streaming a store that something else hides anyway loses a few per cent.
constexpr double kStreamShare = 0.03;
constexpr double kHopeless = 2;  // times the price of the choice: nothing to time while there is better

// Variances of the logarithm of measured over predicted time, of one schedule against another of the same
// region that differs in this alone: for each doubling of lanes, vectors, rows and columns, for each value
// that one of them keeps, and for each axis that is cut otherwise. From 28,000 kernels of 400 regions (Zen 4,
// benchmarks/solver); rounded, of those that make the best of eight best.
constexpr double kOfLaneAxis = 0.02, kOfLanes = 0.08, kOfUnroll = 0.003, kOfRows = 0.07, kOfColumns = 0.02,
                 kOfWalk = 0.006, kOfKept = 0.004, kOfSplit = 0.001, kOfStaged = 0.001, kOfStores = 0.0002,
                 kOfTiles = 0.0001;

double doublings(int a, int b) { return std::abs(std::log2(double(a) / double(b))); }

template <class Item>
double differences(const std::vector<Item>& a, const std::vector<Item>& b) {
  const auto lacking = [](const std::vector<Item>& items, const std::vector<Item>& others) {
    return std::ranges::count_if(items, [&](const Item& item) { return !contains(others, item); });
  };
  return double(lacking(a, b) + lacking(b, a));
}

double tiles_apart(const Schedule& a, const Schedule& b) {  // an axis is in the grid of both
  return differences(a.grid, b.grid) / 2;
}

}  // namespace

double code_share(const Schedule& schedule) {
  const int rows = takes_tile_rows(schedule.rows) ? 1 : schedule.rows;  // those of tiles are walked by a loop
  const int doublings = std::countr_zero(static_cast<unsigned>(schedule.unroll)) +
                        std::countr_zero(static_cast<unsigned>(rows)) +
                        std::bit_width(static_cast<unsigned>(schedule.columns)) - 1;
  return 1 + kCodeShare * doublings + (schedule.streamed.empty() ? 0 : kStreamShare);
}

bool is_cheaper(const Schedule& a, const Schedule& b) {
  return a.cost_us * code_share(a) < b.cost_us * code_share(b);
}

double price_doubt(const Schedule& a, const Schedule& b) {
  double variance = kOfLanes * doublings(a.lanes, b.lanes) + kOfUnroll * doublings(a.unroll, b.unroll) +
                    kOfRows * doublings(a.rows, b.rows) + kOfColumns * doublings(a.columns, b.columns) +
                    kOfKept * differences(a.keep, b.keep) + kOfStaged * differences(a.staged, b.staged) +
                    kOfTiles * tiles_apart(a, b);
  if (a.lane_axis != b.lane_axis) variance += kOfLaneAxis;
  if (a.walk != b.walk || a.accumulate_in_scratch != b.accumulate_in_scratch) variance += kOfWalk;
  if (a.split != b.split) variance += kOfSplit;
  if (a.streamed != b.streamed) variance += kOfStores;
  return std::sqrt(variance);
}

std::vector<Schedule> short_list(const std::vector<Schedule>& candidates, int register_lanes, size_t count) {
  const Schedule& choice = candidates.front();
  const int most_lanes = std::max(register_lanes, choice.lanes);
  std::vector<const Schedule*> waiting;
  for (const Schedule& schedule : candidates) {
    if (schedule.cost_us <= kHopeless * choice.cost_us && schedule.lanes <= most_lanes)
      waiting.push_back(&schedule);
  }
  std::vector<double> doubt(waiting.size(), std::numeric_limits<double>::infinity());
  std::vector<Schedule> chosen;
  const auto take = [&](const Schedule& schedule) {
    chosen.push_back(schedule);
    for (size_t i = 0; i < waiting.size(); ++i) {
      doubt[i] = std::min(doubt[i], price_doubt(schedule, *waiting[i]));
    }
  };
  take(choice);
  while (chosen.size() < count) {
    const Schedule* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (doubt[i] == 0) continue;  // it is there
      const double price = std::log(waiting[i]->cost_us * code_share(*waiting[i])) - doubt[i];
      if (price < least) {
        least = price;
        best = waiting[i];
      }
    }
    if (best == nullptr) break;
    take(*best);
  }
  return chosen;
}

}  // namespace tilefuse
