// Matrices in the registers of a warp: places of elements as the manual has them, and products through shared
// memory against plain ones.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

struct Place {
  int lane, number, row, column;
};

// By hand, from the figures of the PTX ISA: "Matrix Fragments for mma.m16n8k16 with floating point type" and
// "Matrix Fragments for mma.m16n8k8", "Matrix Fragments for mma.m16n8k32".
TEST(PtxMatrix, places_are_those_of_the_manual) {
  using enum MatrixElement;
  const auto expect = [](const std::vector<Place>& places, const auto& place_of) {
    for (const Place& place : places) {
      const MatrixPlace found = place_of(place.lane, place.number);
      EXPECT_EQ(found.row, place.row) << place.lane << " " << place.number;
      EXPECT_EQ(found.column, place.column) << place.lane << " " << place.number;
    }
  };
  expect(
      {{0, 0, 0, 0}, {1, 1, 0, 3}, {4, 0, 1, 0}, {0, 2, 8, 0}, {0, 4, 0, 8}, {31, 7, 15, 15}, {30, 3, 15, 5}},
      [](int lane, int number) { return place_in_a(Bf16, lane, number); });
  expect({{0, 0, 0, 0}, {1, 1, 3, 0}, {4, 0, 0, 1}, {0, 2, 8, 0}, {31, 3, 15, 7}},
         [](int lane, int number) { return place_in_b(F16, lane, number); });
  expect({{0, 0, 0, 0}, {0, 1, 8, 0}, {0, 2, 0, 4}, {0, 3, 8, 4}, {31, 3, 15, 7}, {5, 0, 1, 1}},
         [](int lane, int number) { return place_in_a(Tf32, lane, number); });
  expect({{0, 0, 0, 0}, {0, 1, 4, 0}, {5, 0, 1, 1}, {31, 1, 7, 7}},
         [](int lane, int number) { return place_in_b(Tf32, lane, number); });
  expect({{0, 0, 0, 0},
          {0, 3, 0, 3},
          {1, 0, 0, 4},
          {4, 4, 9, 0},
          {0, 8, 0, 16},
          {31, 15, 15, 31},
          {5, 13, 9, 21}},
         [](int lane, int number) { return place_in_a(S8, lane, number); });
  expect({{0, 0, 0, 0}, {0, 3, 3, 0}, {1, 1, 5, 0}, {4, 0, 0, 1}, {0, 4, 16, 0}, {31, 7, 31, 7}},
         [](int lane, int number) { return place_in_b(E4M3, lane, number); });
  expect({{0, 0, 0, 0}, {0, 1, 0, 1}, {0, 2, 8, 0}, {5, 3, 9, 3}, {31, 3, 15, 7}},
         [](int lane, int number) { return place_in_c(lane, number); });
  expect({{0, 0, 0, 0}, {0, 1, 0, 1}, {5, 0, 1, 2}, {31, 1, 7, 7}},
         [](int lane, int half) { return loaded_place(lane, half, false); });
  expect({{0, 0, 0, 0}, {0, 1, 1, 0}, {5, 0, 2, 1}, {31, 1, 7, 7}},
         [](int lane, int half) { return loaded_place(lane, half, true); });
}

// ---------------------------------------------------------------- products
// One warp: a of 16 x 16, rows of 32 bytes, and b, through shared memory; c of 16 x 8 to the output. Lane
// 8 * i + r gives row r of matrix i: of a (0, 0), (8, 0), (0, 8), (8, 8); of b one of rows of k at (0, 0) and
// (0, 8), or turned, one of rows of n at (0, 0) and (8, 0).
std::string product_kernel(const std::string& type, bool b_is_turned) {
  const std::string rows_of_a =
      "and.b32 %r5, %r1, 15;\nshl.b32 %r5, %r5, 5;\nshr.u32 %r6, %r1, 4;\nshl.b32 %r6, %r6, 4;\n"
      "add.s32 %r5, %r5, %r6;\nadd.s32 %r5, %r5, %r9;\n";
  const std::string rows_of_b =
      b_is_turned ? "and.b32 %r6, %r1, 15;\nshl.b32 %r6, %r6, 4;\n"
                  : "and.b32 %r6, %r1, 7;\nshl.b32 %r6, %r6, 5;\nand.b32 %r7, %r1, 8;\nshl.b32 %r7, %r7, 1;\n"
                    "add.s32 %r6, %r6, %r7;\n";
  return R"(
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{
  .shared .align 16 .b8 tile[768];
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  ld.param.u64 %rd3, [p2];
  mov.u32 %r1, %tid.x;
  mov.u32 %r9, tile;
  shl.b32 %r2, %r1, 4;
  cvt.u64.u32 %rd4, %r2;
  add.s32 %r3, %r9, %r2;
  add.s64 %rd5, %rd1, %rd4;
  cp.async.cg.shared.global [%r3], [%rd5], 16;
  setp.lt.u32 %p1, %r1, 16;
  add.s32 %r3, %r3, 512;
  add.s64 %rd5, %rd2, %rd4;
  @%p1 cp.async.cg.shared.global [%r3], [%rd5], 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
)" + rows_of_a +
         rows_of_b + "add.s32 %r6, %r6, 512;\nadd.s32 %r6, %r6, %r9;\n" +
         "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r5];\n" +
         "ldmatrix.sync.aligned.m8n8.x4." + (b_is_turned ? "trans." : "") +
         "shared.b16 {%r14, %r15, %r16, %r17}, [%r6];\n" + "mov.b32 %f1, 0f3f800000;\n" +
         "mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type +
         ".f32 {%f2, %f3, %f4, %f5}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f1, %f1, %f1, %f1};\n" + R"(
  shr.u32 %r20, %r1, 2;
  shl.b32 %r20, %r20, 5;
  and.b32 %r21, %r1, 3;
  shl.b32 %r21, %r21, 3;
  add.s32 %r20, %r20, %r21;
  cvt.u64.u32 %rd6, %r20;
  add.s64 %rd6, %rd3, %rd6;
  st.global.v2.f32 [%rd6], {%f2, %f3};
  st.global.v2.f32 [%rd6+256], {%f4, %f5};
  ret;
}
)";
}

// Small whole numbers: what they add up to is exact in any order.
int number(int i) { return (i * 7 + i / 5) % 9 - 4; }

std::vector<unsigned char> bytes_of_numbers(int count, bool is_half) {
  std::vector<unsigned char> bytes;
  const PtxOperation narrow = *find_operation(is_half ? "cvt.rn.f16.f32" : "cvt.rn.bf16.f32");
  for (int i = 0; i < count; ++i) {
    const uint64_t value = std::bit_cast<uint32_t>(static_cast<float>(number(i)));
    const uint64_t bits = narrow.compute(&value);
    bytes.push_back(static_cast<unsigned char>(bits));
    bytes.push_back(static_cast<unsigned char>(bits >> 8));
  }
  return bytes;
}

TEST(PtxMatrix, products_are_those_of_matrices) {
  for (const bool is_half : {false, true}) {
    for (const bool is_turned : {false, true}) {
      std::vector<GpuBuffer> buffers(3);
      buffers[0].bytes = bytes_of_numbers(16 * 16, is_half);
      buffers[1].bytes = bytes_of_numbers(16 * 8, is_half);
      buffers[2].bytes.resize(16 * 8 * 4);
      buffers[2].is_output = true;
      const std::string ptx = product_kernel(is_half ? "f16" : "bf16", is_turned);
      const GpuRun result = run_ptx(parse_ptx(ptx), {.blocks = 1, .threads = 32}, std::move(buffers), {});
      EXPECT_EQ(result.matrix_products, 1);
      for (int m = 0; m < 16; ++m) {
        for (int n = 0; n < 8; ++n) {
          float expected = 1, found = 0;
          for (int k = 0; k < 16; ++k)
            expected += static_cast<float>(number(m * 16 + k) * number(is_turned ? k * 8 + n : n * 16 + k));
          std::memcpy(&found, result.buffers[2].bytes.data() + (m * 8 + n) * 4, 4);
          EXPECT_EQ(found, expected) << m << " " << n << " " << is_half << " " << is_turned;
        }
      }
    }
  }
}

TEST(PtxMatrix, numbers_of_eight_bits_are_those_of_the_formats) {
  using enum MatrixElement;
  const auto expect = [](MatrixElement element, uint64_t bits, double number) {
    EXPECT_EQ(matrix_number(element, bits), number) << bits;
  };
  expect(S8, 0x80, -128), expect(S8, 0x7f, 127), expect(U8, 0x80, 128);
  expect(E4M3, 0x01, 0x1p-9), expect(E4M3, 0x38, 1), expect(E4M3, 0xfe, -448), expect(E4M3, 0x08, 0x1p-6);
  expect(E5M2, 0x01, 0x1p-16), expect(E5M2, 0x3c, 1), expect(E5M2, 0x7b, 57344), expect(E5M2, 0xc5, -5);
  EXPECT_NE(matrix_number(E4M3, 0x7f), matrix_number(E4M3, 0x7f));
  EXPECT_GT(matrix_number(E5M2, 0x7c), 1e30);
}

// Sums of integers wrap.
TEST(PtxMatrix, whole_numbers_of_eight_bits_are_multiplied) {
  using enum MatrixElement;
  MatrixFragments fragments{};
  for (LaneValues& values : fragments.a) values.fill(0x80808080);
  for (LaneValues& values : fragments.b) values.fill(0x80808080);
  for (LaneValues& values : fragments.c) values.fill(0x7fffffff);
  const auto at = [&](MatrixElement a, MatrixElement b) {
    return static_cast<int32_t>(static_cast<uint32_t>(multiply_matrices(a, b, fragments)[3][17]));
  };
  constexpr int kSum = 32 * 128 * 128;
  EXPECT_EQ(at(S8, S8), static_cast<int32_t>(0x7fffffffU + kSum));
  EXPECT_EQ(at(U8, S8), 0x7fffffff - kSum);
  EXPECT_EQ(at(U8, U8), static_cast<int32_t>(0x7fffffffU + kSum));
}

TEST(PtxMatrix, numbers_of_tf32_are_multiplied) {
  MatrixFragments fragments{};
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    const auto put = [&](LaneValues& values, int value) {
      values[size_t(lane)] = std::bit_cast<uint32_t>(static_cast<float>(value));
    };
    for (int i = 0; i < 4; ++i) {
      const MatrixPlace at = place_in_a(MatrixElement::Tf32, lane, i);
      put(fragments.a[size_t(i)], number(at.row * 8 + at.column));
    }
    for (int i = 0; i < 2; ++i) {
      const MatrixPlace at = place_in_b(MatrixElement::Tf32, lane, i);
      put(fragments.b[size_t(i)], number(100 + at.row * 8 + at.column));
    }
  }
  const auto result = multiply_matrices(MatrixElement::Tf32, MatrixElement::Tf32, fragments);
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const MatrixPlace at = place_in_c(lane, i);
      float expected = 0;
      for (int k = 0; k < 8; ++k)
        expected += static_cast<float>(number(at.row * 8 + k) * number(100 + k * 8 + at.column));
      EXPECT_EQ(result[size_t(i)][size_t(lane)], std::bit_cast<uint32_t>(expected)) << lane << " " << i;
    }
  }
}

}  // namespace
}  // namespace tilefuse
