#include "fusion/library_product.h"

#include <algorithm>

#include "fusion/contraction.h"
#include "fusion/live_range.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// Extents of a product: `batch` matrices [m, k] times [k, n].
struct ProductSizes {
  double batch = 1, m = 1, n = 1, k = 1;
};

bool varies(const TileValue& value, AxisId axis) {
  return std::binary_search(value.axes.begin(), value.axes.end(), axis);
}

std::vector<ProductSizes> products_of(const TileGraph& graph, const SizeHints& hints) {
  std::vector<ProductSizes> products;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto contraction = contraction_of(graph, TileValueId{v});
    if (!contraction) continue;
    const std::vector<TileValueId>& factors = graph[contraction->product].operands;
    const TileValue &left = graph[factors[0]], &right = graph[factors[1]];
    const auto extent = [&](AxisId axis) { return double(hinted_size(graph[axis].extent, hints)); };
    ProductSizes& sizes = products.emplace_back();
    for (AxisId axis : graph.values[v].axes) {
      const bool in_left = varies(left, axis), in_right = varies(right, axis);
      (in_left && in_right ? sizes.batch : in_left ? sizes.m : sizes.n) *= extent(axis);
    }
    for (AxisId axis : std::get<TileReduce>(graph.values[v].op).axes) sizes.k *= extent(axis);
    if (sizes.m > sizes.n) std::swap(sizes.m, sizes.n);
  }
  return products;
}

std::optional<DType> result_dtype(const TileGraph& graph) {
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role == Buffer::Role::Output) return buffer.dtype;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> library_us(const TileGraph& graph, const Target& target, int threads,
                                 const SizeHints& hints) {
  const std::vector<ProductSizes> products = products_of(graph, hints);
  const auto dtype = result_dtype(graph);
  if (products.empty() || !dtype) return std::nullopt;
  const std::string rates = "library." + std::string(info(*dtype).name) + ".";
  if (!target.rates.contains(rates + "gflops")) return std::nullopt;
  const double call = target.rate(rates + "call");
  double alone = 0;
  for (const ProductSizes& sizes : products) {
    const bool is_vector = sizes.m == 1, is_one = products.size() == 1;
    const double rows = is_vector ? 1 : sizes.m + (is_one ? target.rate(rates + "rows") : 0);
    const double gflops = target.rate(rates + (is_vector ? "vector_gflops"
                                               : is_one  ? "gflops"
                                                         : "chain_gflops"));
    alone += sizes.batch * (target.rate("library.matrix") + 2 * sizes.k * sizes.n * rows / gflops / 1e3);
  }
  if (products.size() > 1) alone *= live_share(graph, hints);  // masked blocks are skipped there, too
  if (threads <= 1) return call + alone;
  return call + std::min(alone, alone / threads + target.rate("launch.threads"));
}

}  // namespace tilefuse
