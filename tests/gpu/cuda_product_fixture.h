// What tests of products on tensor cores share: a compiler or none, elements that are small whole numbers, so
// that sums are exact and a missing or doubled term is seen, comparison with the interpreter, and a bias.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/gpu/cuda_run.h"
#include "tests/gpu/product_regions.h"
#include "tests/random_source.h"

namespace tilefuse {

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

struct ProductCase {
  ProductRegion region;
  std::string pins = {};
  SymbolValues sizes = {};
};
void PrintTo(const ProductCase& test, std::ostream* out);

std::vector<Tensor> whole_numbers(const TileGraph& graph, uint64_t seed, const SymbolValues& symbols);
int64_t size_of(const TileGraph& graph, AxisId axis, const SymbolValues& symbols);
// Of whole numbers, what the interpreter of tile graphs computes, bit by bit, by as many instructions as the
// schedule has and without bank conflicts. Else than `is_whole`, the compiler may leave some out.
void expect_right(const GpuNest& nest, const CudaKernel& kernel, uint64_t seed, const SymbolValues& symbols,
                  bool is_whole = true);
void expect_lean(const CudaKernel& kernel);

// Any schedule that passes the check, however bad it is; of 16-bit numbers by warpgroups, where there are.
GpuProductSchedule random_product_schedule(const TileGraph& graph, const GpuProduct& product,
                                           const GpuTarget& target, RandomSource& random);

inline constexpr const char* kBias =
    "  %bias = load %bias[j] : DTYPE[j]\n  %b = add(%s, %bias) : f32[RESULT]\n";

}  // namespace tilefuse
