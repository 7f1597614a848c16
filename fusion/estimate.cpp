// estimate_us: what a region costs as one kernel, before anybody has decided how to schedule it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/match.h"
#include "fusion/contraction.h"
#include "fusion/launches.h"
#include "fusion/matrix_tiles.h"
#include "fusion/rate_tables.h"
#include "fusion/region_facts.h"
#include "fusion/scan.h"
#include "fusion/scatter.h"

namespace tilefuse {
namespace {

constexpr double kExposedLatency = 0.25;  // of adding up a vector: some rows go side by side

constexpr int kScalarLanes = 2;   // as many narrow instructions go side by side
constexpr double kWhole = 1e300;  // elements of a buffer that is written from end to end

struct Bytes {
  double read = 0, written = 0;
  double total() const { return read + written; }
};

double elements_of(const std::vector<AxisId>& axes, const std::vector<double>& extent) {
  double elements = 1;
  for (AxisId axis : axes) elements *= extent[axis.index];
  return elements;
}

// Each buffer once: at most its size, at most what its loads or stores touch.
Bytes compulsory_bytes(const TileGraph& graph, const std::vector<double>& extent, const SizeHints& hints) {
  std::vector<double> touched(graph.buffers.size(), 0);
  for (const TileValue& value : graph.values) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    if (load != nullptr) touched[load->buffer.index] += elements_of(value.axes, extent);
  }
  for (const TileStore& store : graph.stores) {
    touched[store.buffer.index] += store.scatter ? elements_of(store.scatter->over, extent) : kWhole;
  }
  Bytes bytes;
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const Buffer& buffer = graph.buffers[b];
    const double size = hinted_elements(buffer.shape, hints);
    if (buffer.role == Buffer::Role::Input) {
      bytes.read += std::min(size, touched[b]) * size_in_bytes(buffer.dtype);
    } else {
      bytes.written += std::min(size, touched[b]) * size_in_bytes(buffer.dtype);
    }
  }
  return bytes;
}

// Elements of a scatter may meet along every axis: one task writes them all, one by one.
bool is_serial(const TileGraph& graph) {
  const std::vector<MeetingAxis> meeting = meeting_axes(graph);
  return !graph.axes.empty() && meeting.size() == graph.axes.size() &&
         std::all_of(meeting.begin(), meeting.end(),
                     [](const MeetingAxis& axis) { return axis.within == 0; });
}

// Of a vector of products in matrix tiles, which take rows by the sixteen: those of one factor are the
// shorter axis of the results that the other one does not have.
double tile_cycles(const TileGraph& graph, TileValueId sum, const std::vector<double>& extent,
                   const Target& target) {
  const auto [kind, loads] = narrow_factors(graph, sum);
  double rows = std::numeric_limits<double>::max();
  for (const size_t of : {0, 1}) {
    double alone = 1;
    for (const AxisId axis : graph[sum].axes) {
      const auto has = [&](size_t load) {
        const std::vector<AxisId>& axes = graph[loads.at(load)].axes;
        return std::binary_search(axes.begin(), axes.end(), axis);
      };
      if (has(of) && !has(1 - of)) alone = std::max(alone, extent[axis.index]);
    }
    rows = std::min(rows, alone);
  }
  const double filled = rows / (kTileRows * std::ceil(rows / kTileRows));
  return target.rate(tile_rate(kind)) / kTileRows / double(tile_step(kind)) / filled;
}

// Of each value: the vectors that are computed of it, as a share of its elements'; of products in dots none,
// and of their sums one for all of a dot.
std::vector<double> shares_computed(const TileGraph& graph, const std::vector<double>& extent,
                                    const Target& target) {
  std::vector<double> shares(graph.values.size(), 1);
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const DotKind kind = dots_of_products(graph, {v});
    const bool in_tiles = multiplies_in_tiles(kind, target);
    if (!in_tiles && !multiplies_in(kind, target)) continue;
    const double fma = target.rate("clk_per_vector.fma");
    double dot = target.rate_or(std::string(info(kind).rate), fma * info(kind).count) / info(kind).count;
    if (in_tiles) dot = std::min(dot, tile_cycles(graph, {v}, extent, target));
    shares[v] = dot / target.rate("clk_per_vector.simple");
    shares[contraction_of(graph, {v})->product.index] = 0;
  }
  return shares;
}

// Vector cycles when every element is computed once.
double compute_cycles(const TileGraph& graph, const std::vector<double>& extent, const Target& target) {
  PortCycles cycles;
  const int lanes = is_serial(graph) ? kScalarLanes : target.vector_bytes / 4;
  const bool contracts = has_contraction(graph);  // then lanes go along an axis of the results
  const std::vector<double> shares = shares_computed(graph, extent, target);
  const VectorSizes vectors = vector_sizes(target);
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const TileValue& value = graph.values[v];
    double elements = elements_of(value.axes, extent);
    if (const auto* reduce = std::get_if<TileReduce>(&value.op)) {
      const bool contiguous = !reduce->axes.empty() && reduce->axes.back().index + 1 == graph.axes.size();
      if (contiguous && !contracts)
        cycles.whole += kExposedLatency * elements * target.rate("latency.reduce");
      elements *= elements_of(reduce->axes, extent);
    }
    const auto* scan = std::get_if<TileScan>(&value.op);
    if (scan != nullptr && scan->axis.index + 1 == graph.axes.size()) {  // contiguous
      may_have_lanes(value)
          ? cycles.add(cycles_along_lanes(value, lanes, target), std::ceil(elements / lanes))
          : cycles.add({.whole = 1 / target.rate("chain.add_f32")}, elements);
      continue;
    }
    cycles.add(cycles_per_register(graph, value, target),
               shares[v] * std::ceil(elements / lanes) * registers_of_vector(value.dtype, lanes, vectors));
  }
  for (const TileStore& store : graph.stores) {
    const double elements =
        elements_of(store.scatter ? store.scatter->over : graph[store.value].axes, extent);
    cycles.add(cycles_per_register(graph, store, target), std::ceil(elements / lanes));
  }
  return cycles.total();
}

// From and to the cache that holds `in_use` bytes, and these.
double memory_us(const Bytes& bytes, double in_use, const Target& target, int threads) {
  const MemoryLevel level = level_holding(target, std::max(bytes.total(), in_use) / threads, threads);
  const char* kind = bytes.written < 0.25 * bytes.read ? "read" : "copy_streamed";
  return bytes.total() / bandwidth_gbs(target, level, kind, threads) / 1e3;
}

std::vector<double> hinted_extents(const TileGraph& graph, const SizeHints& hints) {
  std::vector<double> extent;
  extent.reserve(graph.axes.size());
  for (const Axis& axis : graph.axes)
    extent.push_back(std::max(1.0, double(hinted_size(axis.extent, hints))));
  return extent;
}

double launch_us(const TileGraph& graph, const Target& target, int threads, const SizeHints& hints,
                 double in_use) {
  const std::vector<double> extent = hinted_extents(graph, hints);
  const Bytes bytes = compulsory_bytes(graph, extent, hints);
  const double compute = compute_cycles(graph, extent, target) / target.clock_ghz / 1e3;
  const double launch = target.rate("launch.host"), norm = target.rate("overlap.norm");
  const double alone = overlap(norm, {compute, memory_us(bytes, in_use, target, 1)});
  if (threads <= 1 || is_serial(graph)) return launch + alone;
  const double shared = overlap(norm, {compute / threads, memory_us(bytes, in_use, target, threads)});
  return launch + std::min(alone, shared + target.rate("launch.threads"));
}

}  // namespace

double compulsory_bytes(const TileGraph& graph, const SizeHints& hints) {
  return compulsory_bytes(graph, hinted_extents(graph, hints), hints).total();
}

double estimate_us(const TileGraph& graph, const Target& target, int threads, const SizeHints& hints,
                   double in_use) {
  const auto launches = takes_launches(graph) ? launches_of(graph) : std::vector<TileGraph>{graph};
  if (!launches) return launch_us(graph, target, threads, hints, in_use);
  double us = 0;
  for (const TileGraph& launch : *launches) us += launch_us(launch, target, threads, hints, in_use);
  return us;
}

}  // namespace tilefuse
