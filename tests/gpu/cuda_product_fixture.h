// What tests of products on tensor cores share: a compiler or none, elements that are small whole numbers, so
// that sums are exact and a missing or doubled term is seen, and a bias.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/gpu/cuda_run.h"

namespace tilefuse {

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

std::vector<Tensor> whole_numbers(const TileGraph& graph, uint64_t seed, const SymbolValues& symbols);

inline constexpr const char* kBias =
    "  %bias = load %bias[j] : DTYPE[j]\n  %b = add(%s, %bias) : f32[RESULT]\n";

}  // namespace tilefuse
