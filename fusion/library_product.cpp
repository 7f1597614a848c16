#include "fusion/library_product.h"

#include <algorithm>

#include "fusion/contraction.h"
#include "fusion/dots.h"
#include "fusion/live_range.h"
#include "fusion/rate_tables.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// Elements of a masked axis that the library's attention for CPUs walks, or leaves out, at a time.
constexpr int64_t kMaskedBlock = 512;

// Extents of a product: `batch` matrices [m, k] times [k, n].
struct ProductSizes {
  double batch = 1, m = 1, n = 1, k = 1;
  int summed_axes = 0;
  double second_elements = 1;  // that the second factor has, of windows the weights
};

bool varies(const TileValue& value, AxisId axis) {
  return std::binary_search(value.axes.begin(), value.axes.end(), axis);
}

// Whether the axis walks neither rows nor columns of the result's matrices.
bool picks_matrix(const TileGraph& graph, AxisId axis) {
  for (const TileStore& store : graph.stores) {
    const Buffer& result = graph[store.buffer];
    const size_t rank = result.strides.size();
    const auto stride = stride_along(graph, store, axis);
    if (result.role != Buffer::Role::Output || rank < 3 || !stride || stride->is_constant(0)) continue;
    const auto walks = [&](size_t dim) {
      return !result.shape[dim].is_constant(1) && simplify(*stride - result.strides[dim]).is_constant(0);
    };
    return !walks(rank - 1) && !walks(rank - 2);
  }
  return false;
}

std::vector<ProductSizes> products_of(const TileGraph& graph, const SizeHints& hints) {
  std::vector<ProductSizes> products;
  const bool are_several = count_contractions(graph) > 1;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto contraction = contraction_of(graph, TileValueId{v});
    if (!contraction) continue;
    const std::vector<TileValueId>& factors = graph[contraction->product].operands;
    const TileValue &left = graph[factors[0]], &right = graph[factors[1]];
    const auto extent = [&](AxisId axis) { return double(hinted_size(graph[axis].extent, hints)); };
    ProductSizes& sizes = products.emplace_back();
    for (AxisId axis : graph.values[v].axes) {
      const bool in_left = varies(left, axis), in_right = varies(right, axis);
      const bool is_apart = are_several && picks_matrix(graph, axis);  // heads that share keys, too
      const bool in_batch = (in_left && in_right) || is_apart;
      (in_batch ? sizes.batch : in_left ? sizes.m : sizes.n) *= extent(axis);
    }
    for (AxisId axis : std::get<TileReduce>(graph.values[v].op).axes) {
      sizes.k *= extent(axis);
      ++sizes.summed_axes;
    }
    for (AxisId axis : right.axes) sizes.second_elements *= extent(axis);
    if (sizes.m > sizes.n) std::swap(sizes.m, sizes.n);
  }
  return products;
}

bool multiplies_bytes(const TileGraph& graph) {
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto contraction = contraction_of(graph, TileValueId{v});
    if (!contraction) continue;
    const std::vector<TileValueId>& factors = graph[contraction->product].operands;
    return std::all_of(factors.begin(), factors.end(), [&](TileValueId factor) {
      return narrow_load(graph, factor, DotKind::Quads).has_value();
    });
  }
  return false;
}

// The type that names the rates: the result's, but for products of bytes, whose sums are wider.
std::optional<DType> rated_dtype(const TileGraph& graph) {
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role == Buffer::Role::Output) return multiplies_bytes(graph) ? DType::I8 : buffer.dtype;
  }
  return std::nullopt;
}

// Every channel with weights of its own.
bool is_single(const ProductSizes& sizes) { return sizes.m == 1 && sizes.batch > 1; }

// Whether the result has its channels innermost: the layout that the library computes in.
bool has_channels_last(const TileGraph& graph) {
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role == Buffer::Role::Output)
      return buffer.strides.size() > 1 && buffer.strides[1].is_constant(1);
  }
  return false;
}

// Of the result's elements and the images': the library turns both, and adds up into the result.
double transposed_us(const TileGraph& graph, const ProductSizes& sizes, const std::string& rates,
                     const Target& target, const SizeHints& hints) {
  const double operations = 2 * sizes.batch * sizes.m * sizes.n * sizes.k;
  const double gflops = target.rate_or(rates + "transposed_gflops", target.rate(rates + "gflops"));
  const double gbs = target.rate_or(rates + "transposed_gbs", target.rate(rates + "gbs"));
  return operations / gflops / 1e3 + bytes_of_buffers(graph, hints) / 1e3 / gbs;
}

// What windows of several taps bring into the library's layout: all of the weights, at each call. With its
// rate comes one of operations that leaves out the padding.
double taps_us(const TileGraph& graph, const ProductSizes& sizes, const std::string& rates,
               const Target& target, const SizeHints& hints) {
  const std::string weights_rate = rates + "weights_gbs";
  const double inside = target.rates.contains(weights_rate) ? live_share(graph, hints) : 1;
  const double operations = 2 * sizes.batch * sizes.m * sizes.n * sizes.k * inside;
  const double bytes = bytes_of_buffers(graph, hints);
  const double weights = std::min(bytes, sizes.second_elements * size_in_bytes(graph.buffers.front().dtype));
  const double gbs = target.rate(rates + "gbs");
  return operations / target.rate(rates + "gflops") / 1e3 + (bytes - weights) / gbs / 1e3 +
         weights / target.rate_or(weights_rate, gbs) / 1e3;
}

// Without the start of the call.
double windows_us(const TileGraph& graph, const ProductSizes& sizes, const std::string& rates,
                  const Target& target, const SizeHints& hints) {
  const double operations = 2 * sizes.batch * sizes.m * sizes.n * sizes.k;
  const double kilobytes = bytes_of_buffers(graph, hints) / 1e3;
  if (is_single(sizes)) {
    const char* layout = has_channels_last(graph) ? "single_last_gbs" : "single_gbs";
    return operations / target.rate(rates + "single_gflops") / 1e3 + kilobytes / target.rate(rates + layout);
  }
  if (sizes.m > 1 && sizes.summed_axes > 1) return taps_us(graph, sizes, rates, target, hints);
  const char* gflops = sizes.m == 1 ? "vector_gflops" : "point_gflops";
  return operations / target.rate(rates + gflops) / 1e3 + kilobytes / target.rate(rates + "gbs");
}

double products_us(const std::vector<ProductSizes>& products, const std::string& rates,
                   const Target& target) {
  double alone = 0;
  const double of_any = target.rate("library.matrix");
  for (const ProductSizes& sizes : products) {
    const bool is_vector = sizes.m == 1, is_one = products.size() == 1;
    const double matrix = is_one ? of_any : target.rate_or(rates + "chain_matrix", of_any);
    const double rows = is_vector ? 1 : sizes.m + (is_one ? target.rate(rates + "rows") : 0);
    const double gflops = target.rate(rates + (is_vector ? "vector_gflops"
                                               : is_one  ? "gflops"
                                                         : "chain_gflops"));
    alone += sizes.batch * (matrix + 2 * sizes.k * sizes.n * rows / gflops / 1e3);
  }
  return alone;
}

// What does not fit a cache: nothing of what does, all of what is twice as large.
double bytes_beyond(double cache_bytes, double bytes) {
  return std::clamp(2 * (bytes - cache_bytes), 0.0, bytes);
}

// What a product waits for before it computes: by a rate of the profile, or for memory alone.
double waiting_us(double bytes, const std::string& rates, const Target& target) {
  const double gbs = target.rate_or(rates + "gbs", 0);
  if (gbs > 0) return bytes_beyond(double(target.l2_bytes), bytes) / gbs / 1e3;
  const double from_memory = bytes_beyond(usable_bytes(target, MemoryLevel::L3, 1), bytes);
  return from_memory / bandwidth_gbs(target, MemoryLevel::Dram, "read", 1) / 1e3;
}

// Threads that a call shares its work among.
int shared_by(const std::vector<ProductSizes>& products, const std::string& rates, const Target& target,
              int threads) {
  if (products.size() > 1 || products[0].m > 1) return threads;
  return std::min(threads, static_cast<int>(target.rate_or(rates + "vector_threads", threads)));
}

}  // namespace

std::optional<double> library_us(const TileGraph& graph, LibraryKernel kernel, const Target& target,
                                 int threads, const SizeHints& hints) {
  const std::vector<ProductSizes> products = products_of(graph, hints);
  const auto dtype = rated_dtype(graph);
  if (products.empty() || !dtype) return std::nullopt;
  const bool slides = kernel != LibraryKernel::Product;
  const bool is_transposed = kernel == LibraryKernel::TransposedWindow;
  const std::string rates =
      std::string(slides ? "library.window." : "library.").append(info(*dtype).name) + ".";
  if (!target.rates.contains(rates + "gflops")) return std::nullopt;
  const double call =
      target.rate(rates + (slides && !is_transposed && is_single(products[0]) ? "single_call" : "call"));
  double alone = is_transposed ? transposed_us(graph, products[0], rates, target, hints)
                 : slides      ? windows_us(graph, products[0], rates, target, hints)
                               : products_us(products, rates, target);
  if (products.size() > 1) alone *= live_share(graph, hints, kMaskedBlock);
  if (!slides && products.size() == 1) alone += waiting_us(bytes_of_buffers(graph, hints), rates, target);
  if (!slides) threads = shared_by(products, rates, target, threads);
  if (threads <= 1) return call + alone;
  return call + std::min(alone, alone / threads + target.rate("launch.threads"));
}

}  // namespace tilefuse
