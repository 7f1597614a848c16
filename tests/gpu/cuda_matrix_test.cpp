// The runtime of CUDA kernels for products on tensor cores: kernels by hand, compiled, inspected, run on the
// model of a GPU, and compared with plain products. Elements are small whole numbers: their sums are exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/gpu/cuda_run.h"
#include "tests/gpu/product_cases.h"

namespace tilefuse {
namespace {

class CudaMatrixTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

class CudaProductTest : public CudaMatrixTest, public testing::WithParamInterface<MatrixProduct> {};

TEST_P(CudaProductTest, is_that_of_matrices) {
  const MatrixProduct& p = GetParam();
  const bool is_by_groups = p.group_rows > 0;
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    if (is_by_groups && std::string(architecture) != "sm_90a") continue;
    const Result<GpuBinary> binary = nvrtc()->compile(source_of(p), architecture);
    ASSERT_TRUE(binary) << binary.unsupported().reason << source_of(p);
    EXPECT_EQ(binary->resources.at(0).spill_bytes, 0) << binary->log;
    EXPECT_EQ(binary->resources.at(0).stack_bytes, 0) << binary->log;
    if (!is_by_groups && std::string(architecture) != "sm_80") continue;  // the same PTX
    const int64_t blocks = p.blocks();
    const GpuRun result = run_ptx(parse_ptx(binary->ptx), p.grid(), p.buffers(), p.sizes(), p.maps());
    EXPECT_EQ(result.bank_conflicts, 0);
    const int64_t steps = (p.k + p.step - 1) / p.step * (p.step / 16);
    EXPECT_EQ(result.matrix_products, is_by_groups ? 0 : blocks * p.block_m / 16 * p.block_n / 8 * steps);
    EXPECT_EQ(result.group_products, is_by_groups ? blocks * p.block_m / 16 * steps : 0);
    for (int m = 0; m < p.m * p.matrices(); ++m) {
      for (int n = 0; n < p.n; ++n) {
        float expected = 0, found = 0;
        const int row_of_b = p.row_of_b(m / p.m, n);
        for (int k = 0; k < p.k; ++k)
          expected += static_cast<float>(p.a_at(m / p.m, m % p.m, k) * p.b().at(row_of_b, k));
        std::memcpy(&found, result.buffers[2].bytes.data() + (size_t(m) * size_t(p.n) + size_t(n)) * 4, 4);
        ASSERT_EQ(found, expected) << m << " " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaProductTest, testing::ValuesIn(product_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(CudaGroups, CudaProductTest, testing::ValuesIn(group_product_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(CudaBulk, CudaProductTest, testing::ValuesIn(bulk_product_cases()),
                         [](const auto& info) { return info.param.name; });

// Fragments filled by what cuda_matrix.h says of their layout.
TEST_F(CudaMatrixTest, numbers_of_tf32_are_multiplied) {
  const std::string source = R"(#define TILEFUSE_LANES 1
#include "tilefuse_cuda.h"
namespace tile {
extern "C" __global__ void product(const float* a, const float* b, float* c) {
  const int g = thread_number() / 4, t = thread_number() % 4;
  const unsigned of_a[4] = {rounded_to_tf32(a[g * 8 + t]), rounded_to_tf32(a[(g + 8) * 8 + t]),
                            rounded_to_tf32(a[g * 8 + t + 4]), rounded_to_tf32(a[(g + 8) * 8 + t + 4])};
  float sums[4] = {};
  multiply_tf32(sums, of_a, rounded_to_tf32(b[t * 8 + g]), rounded_to_tf32(b[(t + 4) * 8 + g]));
  c[g * 8 + 2 * t] = sums[0], c[g * 8 + 2 * t + 1] = sums[1];
  c[(g + 8) * 8 + 2 * t] = sums[2], c[(g + 8) * 8 + 2 * t + 1] = sums[3];
}
}
)";
  const Result<GpuBinary> binary = nvrtc()->compile(source, "sm_80");
  ASSERT_TRUE(binary) << binary.unsupported().reason;
  const Matrix a{16, 8, true, 8}, b{8, 8, false, 8};
  std::vector<GpuBuffer> buffers = {a.buffer("float"), b.buffer("float"), {}};
  buffers[2].bytes.resize(16 * 8 * 4);
  buffers[2].is_output = true;
  const GpuRun result = run_ptx(parse_ptx(binary->ptx), {.blocks = 1, .threads = 32}, std::move(buffers), {});
  EXPECT_EQ(result.matrix_products, 1);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      float expected = 0, found = 0;
      for (int k = 0; k < 8; ++k) expected += static_cast<float>(a.at(m, k) * b.at(n, k));
      std::memcpy(&found, result.buffers[2].bytes.data() + (m * 8 + n) * 4, 4);
      EXPECT_EQ(found, expected) << m << " " << n;
    }
  }
}

// What the model says of a kernel of the runtime in which an instruction is replaced wherever it stands.
std::string fault_with(const MatrixProduct& p, const char* architecture, const std::string& instruction,
                       const std::string& wrong = "") {
  const Result<GpuBinary> binary = nvrtc()->compile(source_of(p), architecture);
  if (!binary) return binary.unsupported().reason;
  std::string ptx = binary->ptx;
  EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
  for (size_t at = ptx.find(instruction); at != std::string::npos;
       at = ptx.find(instruction, at + wrong.size()))
    ptx.replace(at, instruction.size(), wrong);
  try {
    run_ptx(parse_ptx(ptx), p.grid(), p.buffers(), p.sizes(), p.maps());
  } catch (const GpuFault& fault) {
    return fault.what();
  }
  return "no fault";
}

// Without the wait, or without the barrier: the model must report both.
TEST_F(CudaMatrixTest, planted_bugs_are_found) {
  const MatrixProduct p{.name = "planted", .m = 64, .n = 64, .k = 64};
  EXPECT_THAT(fault_with(p, "sm_80", "cp.async.wait_group 0;"),
              testing::HasSubstr("where a copy is under way to"));
  EXPECT_THAT(fault_with(p, "sm_80", "bar.sync \t0;"), testing::HasSubstr("race: a thread reads"));
}

// Of products by warpgroups, every fence and every wait, too.
TEST_F(CudaMatrixTest, planted_bugs_in_groups_are_found) {
  const MatrixProduct p{.name = "planted",
                        .m = 128,
                        .n = 64,
                        .k = 320,
                        .block_m = 128,
                        .block_n = 64,
                        .step = 64,
                        .stages = 3,
                        .group_rows = 64};
  const auto expect = [&](const std::string& report, const std::string& right,
                          const std::string& wrong = "") {
    EXPECT_THAT(fault_with(p, "sm_90a", right, wrong), testing::HasSubstr(report)) << right;
  };
  expect("no fault", "bar.sync", "bar.sync");
  expect("reads where a copy is under way to", "cp.async.wait_group 0;");
  expect("race: a product of a warpgroup reads what thread", "bar.sync \t0;");
  expect("without a fence of the async proxy", "fence.proxy.async.shared::cta;");
  expect("without wgmma.fence", "wgmma.fence.sync.aligned;");
  expect("a product of a warpgroup that is under way reads", "wgmma.commit_group.sync.aligned;");
  expect("a register of a product that is under way is touched", "wgmma.wait_group.sync.aligned 0;");
  expect("a product of a warpgroup that is under way reads", "wgmma.wait_group.sync.aligned 1;");
  expect("a product of a warpgroup that is under way reads", "wgmma.wait_group.sync.aligned 1;",
         "wgmma.wait_group.sync.aligned 2;");
}

// With a warpgroup that copies, every barrier, what it counts and what it is waited for.
TEST_F(CudaMatrixTest, planted_bugs_in_bulk_are_found) {
  MatrixProduct p = bulk_product_cases().front();
  p.stages = 3;
  p.k = 512;
  const auto expect = [&](const std::string& report, const std::string& right,
                          const std::string& wrong = "") {
    EXPECT_THAT(fault_with(p, "sm_90a", right, wrong), testing::HasSubstr(report)) << right;
  };
  const std::string waits = "mbarrier.try_wait.parity.shared::cta.b64 %ended",
                    arrives = "mbarrier.arrive.shared::cta.b64 _,";
  expect("no fault", "mbarrier.init", "mbarrier.init");
  expect("without fence.mbarrier_init", "fence.mbarrier_init.release.cluster;");
  expect("is used while thread 0 begins it", "bar.sync \t0;");
  expect("no warp can go on", arrives, "@!%ended " + arrives);
  expect("a product of a warpgroup that is under way reads", "wgmma.wait_group.sync.aligned 1;",
         "wgmma.wait_group.sync.aligned 2;");
  expect("without wgmma.fence", "wgmma.fence.sync.aligned;");
  expect("registers, of 65536", "setmaxnreg.dec.sync.aligned.u32 40;");
}

}  // namespace
}  // namespace tilefuse
