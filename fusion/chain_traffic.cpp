#include "fusion/chain_traffic.h"

#include <algorithm>
#include <cmath>

#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr double kMostlyFirst = 0.5;

std::vector<AxisId> axes_in(const Expr& e) {
  std::vector<AxisId> axes;
  for (const int index : indices_of(e)) axes.push_back({static_cast<uint32_t>(index)});
  return axes;
}

}  // namespace

NestTraffic nest_traffic(const TileGraph& nest, const SizeHints& hints) {
  NestTraffic traffic;
  const Result<RegionFacts> facts = collect_region_facts(nest, hints);
  if (!facts) return traffic;
  for (const Access& access : facts->accesses) {
    if (nest[access.buffer].role == Buffer::Role::Scratch) continue;
    double bytes = access.element_bytes;
    for (uint32_t a = 0; a < nest.axes.size(); ++a) {
      if (access.varies_along({a})) bytes *= facts->extent[a];
    }
    const double most = hinted_elements(nest[access.buffer].shape, hints) * access.element_bytes;
    traffic.touched.push_back({access.buffer, std::min(bytes, most), access.store.has_value()});
  }
  return traffic;
}

ChainTraffic::ChainTraffic(const TileGraph& graph, const Target& target, const SizeHints& hints)
    : graph_(graph), target_(target) {
  extent_.reserve(graph.axes.size());
  for (const Axis& axis : graph.axes) {
    extent_.push_back(std::max(1.0, double(hinted_size(axis.extent, hints))));
  }
  for (const TileValue& value : graph.values) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    if (load != nullptr) uses_.push_back({load->buffer, value.axes});
  }
  for (const TileStore& store : graph.stores) uses_.push_back({store.buffer, axes_in(store.offset)});
  std::vector<double> touched(graph.buffers.size(), 0);
  for (const Use& use : uses_) {
    double elements = 1;
    for (const AxisId axis : use.axes) elements *= extent_[axis.index];
    touched[use.buffer.index] += elements;
  }
  for (size_t b = 0; b < touched.size(); ++b) {
    const Buffer& buffer = graph.buffers[b];
    region_bytes_ += std::min(touched[b], hinted_elements(buffer.shape, hints)) * size_in_bytes(buffer.dtype);
  }
}

double ChainTraffic::length(AxisId axis, const Schedule& task) const {
  for (const AxisTile& tile : task.grid) {
    if (tile.axis == axis && tile.tile > 0) return std::min(extent_[axis.index], double(tile.tile));
  }
  return extent_[axis.index];
}

double ChainTraffic::task_bytes(const Schedule& task) const {
  double bytes = 0;
  for (const Use& use : uses_) {
    double elements = 1;
    for (const AxisId axis : use.axes) elements *= length(axis, task);
    bytes += elements * size_in_bytes(graph_[use.buffer].dtype);
  }
  return bytes;
}

bool ChainTraffic::varies_along(BufferId buffer, AxisId axis) const {
  return std::any_of(uses_.begin(), uses_.end(), [&](const Use& use) {
    return use.buffer == buffer && std::find(use.axes.begin(), use.axes.end(), axis) != use.axes.end();
  });
}

// Tasks follow each other along the innermost axes of the grid: what does not vary along these is read again.
ChainTraffic::Held ChainTraffic::held(BufferId buffer, const Schedule& task) const {
  double times = 1;
  for (size_t i = task.grid.size(); i-- > 0;) {
    const AxisId axis = task.grid[i].axis;
    const double trips = std::ceil(extent_[axis.index] / length(axis, task));
    if (trips > 1 && varies_along(buffer, axis)) break;
    times *= trips;
  }
  return {region_bytes_, std::min(region_bytes_, task_bytes(task)), 1 / times};
}

double ChainTraffic::around_bytes(const NestTraffic& nest, const Schedule& task) const {
  double most = 0, around = 0;
  for (const NestTraffic::Touched& touched : nest.touched) {
    if (touched.bytes <= most) continue;
    most = touched.bytes;
    const Held where = held(touched.buffer, task);
    around = where.share_first > kMostlyFirst ? where.first_bytes : where.again_bytes;
  }
  return around;
}

ChainTraffic::Distant ChainTraffic::distant(const NestTraffic& nest, double around_bytes,
                                            const Schedule& task, int threads) const {
  const MemoryLevel priced = level_holding(target_, around_bytes, 1);
  const double l2_gbs = bandwidth_gbs(target_, MemoryLevel::L2, "read", 1);
  const double l3_gbs = bandwidth_gbs(target_, MemoryLevel::L3, "read", threads) / threads;
  Distant distant;
  for (const NestTraffic::Touched& touched : nest.touched) {
    const double dram_gbs =
        bandwidth_gbs(target_, MemoryLevel::Dram, touched.is_written ? "write" : "read", threads) / threads;
    const auto add = [&](double lies_with, double bytes) {
      const bool shares_l3 = lies_with <= usable_bytes(target_, MemoryLevel::L3, 1);
      const MemoryLevel near = level_holding(target_, lies_with / threads, 1);
      const MemoryLevel from = near <= MemoryLevel::L2 ? near
                               : shares_l3             ? MemoryLevel::L3
                                                       : MemoryLevel::Dram;
      if (priced < MemoryLevel::L2 && from >= MemoryLevel::L2) distant.cache_us += bytes / l2_gbs / 1e3;
      if (priced < MemoryLevel::L3 && from >= MemoryLevel::L3) {
        distant.cache_us += bytes * std::max(0.0, 1 / l3_gbs - 1 / l2_gbs) / 1e3;
      }
      if (priced < MemoryLevel::Dram && from == MemoryLevel::Dram) distant.dram_us += bytes / dram_gbs / 1e3;
    };
    const Held where = held(touched.buffer, task);
    add(where.first_bytes, touched.bytes * where.share_first);
    add(where.again_bytes, touched.bytes * (1 - where.share_first));
  }
  return distant;
}

}  // namespace tilefuse
