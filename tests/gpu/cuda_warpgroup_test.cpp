// The wrappers of instructions of warpgroups: kernels by hand, compiled for sm_90a, inspected, run on the
// model of a GPU, and compared with plain products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/gpu/cuda_run.h"
#include "tests/gpu/group_cases.h"

namespace tilefuse {
namespace {

class CudaGroupProduct : public testing::TestWithParam<GroupCase> {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

TEST_P(CudaGroupProduct, is_that_of_matrices) {
  const GroupCase& p = GetParam();
  const Result<GpuBinary> binary = nvrtc()->compile(source_of(p), "sm_90a");
  ASSERT_TRUE(binary) << binary.unsupported().reason << source_of(p);
  EXPECT_EQ(binary->resources.at(0).spill_bytes, 0) << binary->log;
  const GpuRun found =
      run_ptx(parse_ptx(binary->ptx), {.blocks = 1, .threads = GroupCase::kThreads}, p.buffers(), {});
  EXPECT_EQ(found.group_products, 4 * GroupCase::kDepth / 16);
  EXPECT_EQ(found.bank_conflicts, 0);
  for (int m = 0; m < p.first.rows; ++m) {
    for (int n = 0; n < p.second.rows; ++n) {
      int expected = p.forgets ? 0 : 1, whole = 0;
      for (int k = 0; k < p.depth(); ++k) expected += p.a().at(m, k) * p.b().at(n, k);
      float sum = 0;
      const unsigned char* at = found.buffers[2].bytes.data() + (m * p.second.rows + n) * 4;
      std::memcpy(&sum, at, sizeof sum);
      std::memcpy(&whole, at, sizeof whole);
      ASSERT_EQ(p.has_integers() ? double(whole) : double(sum), expected) << m << " " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaGroupProduct, testing::ValuesIn(group_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilefuse
