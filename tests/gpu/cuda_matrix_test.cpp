// The runtime of CUDA kernels for products on tensor cores: kernels by hand, compiled, inspected, run on the
// model of a GPU, and compared with plain products. Elements are small whole numbers: their sums are exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "codegen/nvrtc.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

const Result<Nvrtc>& compiler() {
  static const Result<Nvrtc> loaded = Nvrtc::load({TILEFUSE_NVRTC_FOLDER});
  return loaded;
}

class CudaMatrixTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!compiler()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << compiler().unsupported().reason;
  }
};

int number(int64_t i) { return static_cast<int>((i * 7 + i / 5 + i / 37) % 9) - 4; }

// Rows and steps of k, or steps of k and rows; `pitch` elements from line to line.
struct Matrix {
  int rows = 0, depth = 0;
  bool is_along_k = true;
  int pitch = 0;
  int at(int row, int k) const { return number(place(row, k)); }
  int64_t place(int row, int k) const {
    return is_along_k ? int64_t{row} * pitch + k : int64_t{k} * pitch + row;
  }
  GpuBuffer buffer(const std::string& dtype) const {
    const PtxOperation narrow = *find_operation(dtype == "f16" ? "cvt.rn.f16.f32" : "cvt.rn.bf16.f32");
    GpuBuffer made;
    for (int64_t i = 0; i <= place(rows - 1, depth - 1); ++i) {
      const uint64_t value = std::bit_cast<uint32_t>(static_cast<float>(number(i)));
      const uint64_t bits = dtype == "float" ? value : narrow.compute(&value);
      for (int byte = 0; byte < (dtype == "float" ? 4 : 2); ++byte)
        made.bytes.push_back(static_cast<unsigned char>(bits >> (8 * byte)));
    }
    return made;
  }
};

struct Product {
  std::string name, dtype = "bf16";
  int m = 0, n = 0, k = 0;
  bool a_along_k = true, b_along_k = true, is_wide = true;
  int block_m = 64, block_n = 64, step = 32, warp_m = 32, warp_n = 32, stages = 2;
  std::string a_dtype = dtype;  // in memory
  int gap = 0;                  // elements between the lines of the first matrix
  int threads() const { return block_m / warp_m * (block_n / warp_n) * 32; }
  Matrix a() const { return {m, k, a_along_k, (a_along_k ? k : m) + gap}; }
  Matrix b() const { return {n, k, b_along_k, b_along_k ? k : n}; }
};
void PrintTo(const Product& product, std::ostream* out) { *out << product.name; }

std::string source_of(const Product& p) {
  const auto numbers = [](const std::vector<int>& values) {
    std::string text;
    for (const int value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
    return text;
  };
  const auto operand = [&](const char* name, bool is_along_k, const std::string& first) {
    return "operand<" + numbers({is_along_k, p.is_wide}) + ">(" + name + " + " + first +
           (is_along_k ? std::string(" * ") + name + "_pitch" : "") + ", " + name + "_pitch, ";
  };
  return R"(#define TILEFUSE_LANES 2
#include "tilefuse_cuda.h"
namespace tile {
extern "C" __global__ void __launch_bounds__()" +
         std::to_string(p.threads()) + ", 1) product(const " + p.a_dtype + "* __restrict__ a, const " +
         p.dtype +
         "* __restrict__ b, float* __restrict__ c, int64_t m, int64_t n, int64_t k, int64_t a_pitch,\n"
         "    int64_t b_pitch) {\n  const int64_t across = (n + " +
         numbers({p.block_n - 1}) + ") / " + numbers({p.block_n}) +
         ";\n  const int64_t first_m = block_number<int64_t>() / across * " + numbers({p.block_m}) +
         ", first_n = block_number<int64_t>() % across * " + numbers({p.block_n}) + ";\n  float sums[" +
         numbers({p.warp_m * p.warp_n / 32}) + "];\n  multiply_tiles<" + p.dtype + ", " +
         numbers({p.block_m, p.block_n, p.step, p.warp_m, p.warp_n, p.stages}) + ">(sums, " +
         operand("a", p.a_along_k, "first_m") + "m - first_m), " + operand("b", p.b_along_k, "first_n") +
         "n - first_n), k);\n  const int64_t row = first_m + row_of_sums<" +
         numbers({p.warp_m, p.block_n / p.warp_n}) + ">(), column = first_n + column_of_sums<" +
         numbers({p.warp_n, p.block_n / p.warp_n}) +
         ">();\n  constexpr int kI = " + numbers({p.warp_m / 16}) + ", kJ = " + numbers({p.warp_n / 8}) + R"(;
#pragma unroll
  for (int at = 0; at < kI * kJ * 4; ++at) {
    const int64_t own_row = row + at / 4 / kJ * 16 + at / 2 % 2 * 8, own = column + at / 4 % kJ * 8 + at % 2;
    if (own_row < m && own < n) c[own_row * n + own] = sums[at];
  }
}
}  // namespace tile
)";
}

class CudaProductTest : public CudaMatrixTest, public testing::WithParamInterface<Product> {};

TEST_P(CudaProductTest, is_that_of_matrices) {
  const Product& p = GetParam();
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const Result<GpuBinary> binary = compiler()->compile(source_of(p), architecture);
    ASSERT_TRUE(binary) << binary.unsupported().reason << source_of(p);
    EXPECT_EQ(binary->resources.at(0).spill_bytes, 0) << binary->log;
    EXPECT_EQ(binary->resources.at(0).stack_bytes, 0) << binary->log;
    if (std::string(architecture) != "sm_80") continue;  // the same PTX
    std::vector<GpuBuffer> buffers = {p.a().buffer(p.a_dtype), p.b().buffer(p.dtype), {}};
    buffers[2].bytes.resize(size_t(p.m) * size_t(p.n) * 4);
    buffers[2].is_output = true;
    const int64_t blocks = int64_t{(p.m + p.block_m - 1) / p.block_m} * ((p.n + p.block_n - 1) / p.block_n);
    const GpuRun result = run_ptx(parse_ptx(binary->ptx), {.blocks = blocks, .threads = p.threads()},
                                  std::move(buffers), {p.m, p.n, p.k, p.a().pitch, p.b().pitch});
    EXPECT_EQ(result.bank_conflicts, 0);
    const int64_t steps = (p.k + p.step - 1) / p.step * (p.step / 16);
    EXPECT_EQ(result.matrix_products, blocks * p.block_m / 16 * p.block_n / 8 * steps);
    for (int m = 0; m < p.m; ++m) {
      for (int n = 0; n < p.n; ++n) {
        float expected = 0, found = 0;
        for (int k = 0; k < p.k; ++k) expected += static_cast<float>(p.a().at(m, k) * p.b().at(n, k));
        std::memcpy(&found, result.buffers[2].bytes.data() + (size_t(m) * size_t(p.n) + size_t(n)) * 4, 4);
        ASSERT_EQ(found, expected) << m << " " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cuda, CudaProductTest,
    testing::Values(
        Product{.name = "whole_tiles", .m = 64, .n = 128, .k = 64},
        Product{.name = "halves", .dtype = "f16", .m = 64, .n = 64, .k = 96, .stages = 3},
        Product{.name = "ragged", .m = 72, .n = 40, .k = 56},
        Product{.name = "first_along_rows", .m = 72, .n = 40, .k = 56, .a_along_k = false},
        Product{.name = "second_along_rows",
                .m = 72,
                .n = 40,
                .k = 50,
                .a_along_k = true,
                .b_along_k = false,
                .gap = 6},
        Product{.name = "both_along_rows", .m = 72, .n = 40, .k = 37, .a_along_k = false, .b_along_k = false},
        Product{.name = "not_aligned", .m = 37, .n = 29, .k = 19, .is_wide = false},
        Product{.name = "not_aligned_along_rows",
                .m = 37,
                .n = 29,
                .k = 19,
                .a_along_k = false,
                .b_along_k = false,
                .is_wide = false},
        Product{
            .name = "narrowed_on_the_way", .m = 64, .n = 64, .k = 48, .is_wide = false, .a_dtype = "float"},
        Product{.name = "small_tiles",
                .m = 48,
                .n = 48,
                .k = 48,
                .block_m = 32,
                .block_n = 32,
                .step = 16,
                .warp_m = 16,
                .warp_n = 16,
                .stages = 4},
        Product{.name = "large_tiles",
                .m = 128,
                .n = 136,
                .k = 64,
                .a_along_k = true,
                .b_along_k = false,
                .block_m = 128,
                .block_n = 128,
                .step = 32,
                .warp_m = 64,
                .warp_n = 32,
                .stages = 3},
        Product{.name = "long_steps",
                .m = 64,
                .n = 64,
                .k = 200,
                .a_along_k = false,
                .b_along_k = true,
                .step = 64}),
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
  const Result<GpuBinary> binary = compiler()->compile(source, "sm_80");
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

// A kernel of the runtime without the wait, or without the barrier: the model must report both.
TEST_F(CudaMatrixTest, planted_bugs_are_found) {
  const Product p{.name = "planted", .m = 64, .n = 64, .k = 64};
  const Result<GpuBinary> binary = compiler()->compile(source_of(p), "sm_80");
  ASSERT_TRUE(binary) << binary.unsupported().reason;
  const auto without = [&](const std::string& instruction) {
    std::string ptx = binary->ptx;
    for (size_t at = ptx.find(instruction); at != std::string::npos; at = ptx.find(instruction))
      ptx.replace(at, instruction.size(), "");
    std::vector<GpuBuffer> buffers = {p.a().buffer("bf16"), p.b().buffer("bf16"), {}};
    buffers[2].bytes.resize(size_t(64 * 64 * 4));
    buffers[2].is_output = true;
    try {
      run_ptx(parse_ptx(ptx), {.blocks = 1, .threads = p.threads()}, std::move(buffers),
              {64, 64, 64, 64, 64});
    } catch (const GpuFault& fault) {
      return std::string(fault.what());
    }
    return std::string("no fault");
  };
  EXPECT_THAT(without("cp.async.wait_group 0;"), testing::HasSubstr("where a copy is under way to"));
  EXPECT_THAT(without("bar.sync \t0;"), testing::HasSubstr("race: a thread reads"));
}

}  // namespace
}  // namespace tilefuse
