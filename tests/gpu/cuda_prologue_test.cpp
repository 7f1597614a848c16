// Products whose factors are computed on the way to shared memory: norms, scales of quantised weights, rows
// that data names, windows of images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gpu/planted_product.h"
#include "tests/gpu/tested_targets.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

struct Prologue {
  std::string name, graph;
  SymbolValues sizes = {};
};
void PrintTo(const Prologue& test, std::ostream* out) { *out << test.name; }

std::vector<Prologue> prologues() {
  return {
      {"norm", R"(tile_graph norm {
  axes i: 72, j: 40, k: 96
  buffers %x: bf16[72, 96] in, %r: f32[72] in, %g: bf16[96] in, %w: bf16[40, 96] in, %y: bf16[72, 40] out
  %x = load %x[i*96 + k]      : bf16[i, k]
  %r = load %r[i]             : f32[i]
  %g = load %g[k]             : bf16[k]
  %n = mul(%x, %r)            : f32[i, k]
  %m = mul(%n, %g)            : f32[i, k]
  %h = cast(%m)               : bf16[i, k]
  %w = load %w[j*96 + k]      : bf16[j, k]
  %p = mul(%h, %w)            : f32[i, j, k]
  %s = reduce.sum(%p) over k  : f32[i, j]
  %y = cast(%s)               : bf16[i, j]
  store %y -> %y[i*40 + j]
})"},
      // The scale of 32 steps of a column, which is read for the result once more.
      {"dequantised", R"(tile_graph dequantised {
  axes i: 40, j: 72, k: 100
  buffers %x: f16[40, 100] in, %q: i8[72, 100] in, %c: f16[72, 4] in, %b: f16[72] in, %y: f16[40, 72] out
  %x = load %x[i*100 + k]           : f16[i, k]
  %q = load %q[j*100 + k]           : i8[j, k]
  %c = load %c[j*4 + k // 32]        : f16[j, k]
  %b = load %b[j]                   : f16[j]
  %f = cast(%q)                     : f32[j, k]
  %z = sub(%f, %b)                  : f32[j, k]
  %m = mul(%z, %c)                  : f32[j, k]
  %h = cast(%m)                     : f16[j, k]
  %p = mul(%x, %h)                  : f32[i, j, k]
  %s = reduce.sum(%p) over k        : f32[i, j]
  %t = add(%s, %b)                  : f32[i, j]
  %y = cast(%t)                     : f16[i, j]
  store %y -> %y[i*72 + j]
})"},
      {"rows_by_number", R"(tile_graph rows_by_number {
  axes i: 40, j: 24, k: 64
  buffers %n: i64[40] in, %e: bf16[100, 64] in, %w: bf16[64, 24] in, %y: f32[40, 24] out
  %n = load %n[i]                                : i64[i]
  %e = load %e[k] + at(%n, extent 100, stride 64) : bf16[i, k]
  %w = load %w[k*24 + j]                         : bf16[j, k]
  %p = mul(%e, %w)                               : f32[i, j, k]
  %s = reduce.sum(%p) over k                     : f32[i, j]
  store %s -> %y[i*24 + j]
})"},
      // A window of three along a line of 50 with zeros around it, of four channels.
      {"window", R"(tile_graph window {
  axes i: 50, j: 24, k: 12
  buffers %x: bf16[4, 50] in, %w: bf16[24, 12] in, %y: f32[24, 50] out
  %x = load %x[(k // 3)*50 + i + k % 3 - 1] if [i + k % 3 - 1, 50 - i - k % 3] else 0 : bf16[i, k]
  %w = load %w[j*12 + k]                         : bf16[j, k]
  %p = mul(%x, %w)                               : f32[i, j, k]
  %s = reduce.sum(%p) over k                     : f32[i, j]
  store %s -> %y[j*50 + i]
})"},
      {"run_time_sizes",
       R"(tile_graph run_time_sizes {
  axes i: s0, j: s1, k: s2
  buffers %x: f32[s0, s2] in, %w: bf16[s2, s1] in, %y: f32[s0, s1] out
  %x = load %x[i*s2 + k]      : f32[i, k]
  %a = abs(%x)                : f32[i, k]
  %h = cast(%a)               : bf16[i, k]
  %w = load %w[k*s1 + j]      : bf16[j, k]
  %p = mul(%h, %w)            : f32[i, j, k]
  %s = reduce.sum(%p) over k  : f32[i, j]
  store %s -> %y[i*s1 + j]
})",
       {{"s0", 45}, {"s1", 50}, {"s2", 33}}},
  };
}

class CudaPrologue : public CudaProducts, public testing::WithParamInterface<Prologue> {};

TEST_P(CudaPrologue, computes_what_the_tile_graph_says) {
  const TileGraph graph = parse_tile_graph(GetParam().graph);
  for (const std::string& name : tested_targets()) {
    const GpuTarget target = load_gpu_target(name);
    std::vector<std::string> ways = {"kernel=product,parts=1",
                                     "parts=1,block_m=32,block_n=32,step=16,warps_m=2,warps_n=2,stages=3"};
    if (target.warpgroup_flops_per_cycle > 0) ways.emplace_back("parts=1,multiply=wgmma");
    for (const std::string& pins : ways) {
      const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(pins));
      ASSERT_TRUE(plan) << plan.unsupported().reason;
      const GpuNest& nest = plan->nests.at(0);
      EXPECT_TRUE(std::holds_alternative<GpuProductSchedule>(nest.schedule));
      const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
      EXPECT_THAT(kernel.source, HasSubstr("_at = [&]("));
      expect_lean(kernel);
      expect_right(nest, kernel, 7, GetParam().sizes);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaPrologue, testing::ValuesIn(prologues()),
                         [](const auto& info) { return info.param.name; });

class CudaPlantedInPrologue : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInPrologue, is_found) {
  PlantedProduct(parse_tile_graph(prologues().front().graph), "cuda-sm80",
                 "kernel=product,parts=1,block_m=32,block_n=32")
      .expect_found(GetParam());
}

const Planted kPlanted[] = {
    {"rows_of_another_tile", "computed_along_k(h_at, first_i", "computed_along_k(h_at, first_i + 1",
     "outside buffer"},
    {"rows_of_the_first_tile", "computed_along_k(h_at, first_i", "computed_along_k(h_at, 0", ""},
    {"rows_and_steps_exchanged", "h_at = [&](int i, int k)", "h_at = [&](int k, int i)", "outside buffer"},
    {"scale_of_another_row", "load_one(r + i)", "load_one(r + k % 8)", ""},
    {"rows_behind_the_last", "72 - first_i", "96 - first_i", "outside buffer"},
    {"not_rounded_to_what_is_multiplied", "return round_to<bf16>(", "return 2 * round_to<bf16>(", ""},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInPrologue, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse
