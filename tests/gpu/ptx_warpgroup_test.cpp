// Products by warpgroups in the model of a GPU: where elements lie in shared memory, as the manual has it;
// what is wrong with a kernel, planted in PTX.
#include "tests/gpu/ptx_warpgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "tests/gpu/fault_in.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

struct Address {
  int line_bytes;
  bool is_turned;
  int row, k;
  uint64_t byte;
};

// By hand, from the figures of "Shared Memory Matrix Layout" of the PTX ISA, each cell of which is a chunk,
// and from "Strides": leading 0x4000, stride 0x1000, start 0x8000.
TEST(PtxWarpgroup, chunks_lie_where_the_manual_says) {
  const std::vector<Address> table = {
      // K major 128B swizzling
      {128, false, 0, 0, 0x8000},
      {128, false, 1, 0, 0x8000 + 128 + 1 * 16},
      {128, false, 1, 8, 0x8000 + 128 + 0 * 16},
      {128, false, 3, 8, 0x8000 + 3 * 128 + 2 * 16},
      {128, false, 7, 0, 0x8000 + 7 * 128 + 7 * 16},
      {128, false, 8, 8, 0x8000 + 0x1000 + 16},
      // K major 64B: two rows of 64 bytes in 128
      {64, false, 1, 0, 0x8000 + 64},
      {64, false, 2, 0, 0x8000 + 128 + 1 * 16},
      {64, false, 5, 8, 0x8000 + 5 * 64 + 3 * 16},
      {64, false, 17, 0, 0x8000 + 0x2000 + 64},
      // K major 32B
      {32, false, 3, 0, 0x8000 + 3 * 32},
      {32, false, 4, 0, 0x8000 + 4 * 32 + 16},
      {32, false, 4, 8, 0x8000 + 4 * 32},
      // K major interleaved
      {16, false, 7, 0, 0x8000 + 7 * 16},
      {16, false, 7, 8, 0x8000 + 0x4000 + 7 * 16},
      {16, false, 9, 0, 0x8000 + 0x1000 + 16},
      // MN major 128B: 64 rows of one k in a line
      {128, true, 8, 0, 0x8000 + 16},
      {128, true, 8, 1, 0x8000 + 128 + 0 * 16},
      {128, true, 56, 2, 0x8000 + 2 * 128 + 5 * 16},
      {128, true, 64, 0, 0x8000 + 0x4000},
      {128, true, 0, 8, 0x8000 + 0x1000},
      // MN major 64B, 32B, interleaved
      {64, true, 24, 3, 0x8000 + 3 * 64 + 2 * 16},
      {64, true, 32, 0, 0x8000 + 0x4000},
      {32, true, 8, 4, 0x8000 + 4 * 32},
      {32, true, 16, 8, 0x8000 + 0x4000 + 0x1000},
      {16, true, 8, 3, 0x8000 + 0x1000 + 3 * 16},
      {16, true, 0, 11, 0x8000 + 0x4000 + 3 * 16},
  };
  for (const Address& place : table) {
    const SharedMatrix matrix{
        .start = 0x8000, .leading = 0x4000, .stride = 0x1000, .line_bytes = place.line_bytes};
    EXPECT_EQ(chunk_address(matrix, place.is_turned, place.row, place.k), place.byte)
        << place.line_bytes << (place.is_turned ? " turned " : " ") << place.row << " " << place.k;
  }
}

TEST(PtxWarpgroup, a_pattern_may_begin_between_multiples_of_its_lines) {
  const SharedMatrix matrix{.start = 3 * 128, .stride = 1024, .line_bytes = 128, .base_offset = 3};
  EXPECT_EQ(chunk_address(matrix, false, 0, 0), 3 * 128U);
  EXPECT_EQ(chunk_address(matrix, false, 1, 0), 4 * 128 + 16U);
  EXPECT_EQ(chunk_address(matrix, false, 7, 8), 10 * 128 + 6 * 16U);
}

TEST(PtxWarpgroup, descriptors_are_read_field_by_field) {
  const SharedMatrix matrix = read_descriptor(uint64_t{2} << 62 | uint64_t{5} << 49 | uint64_t{64} << 32 |
                                              uint64_t{0x3fff} << 16 | 0x3001);
  EXPECT_EQ(matrix.start, 0x30010U);
  EXPECT_EQ(matrix.leading, 0x3fff0U);
  EXPECT_EQ(matrix.stride, 1024U);
  EXPECT_EQ(matrix.line_bytes, 64);
  EXPECT_EQ(matrix.base_offset, 5U);
  EXPECT_EQ(read_descriptor(uint64_t{1} << 62).line_bytes, 128);
  EXPECT_EQ(read_descriptor(uint64_t{3} << 62).line_bytes, 32);
  EXPECT_EQ(read_descriptor(0).line_bytes, 16);
}

// ---------------------------------------------------------------- kernels by hand
// A product of 64 x 16 and 16 x 8, added to ones. Factors lie in `tile` without a pattern, 128 bytes from
// chunk to chunk and 256 from eight rows to the next; %rd8 and %rd9 are their descriptors, %f1 to %f4 the
// sums.
constexpr const char* kKernel = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
  .shared .align 1024 .b8 tile[2560];
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  and.b32 %r8, %r1, 31;
  setp.lt.u32 %p2, %r8, 16;
  mov.u32 %r9, tile;
  shl.b32 %r2, %r1, 4;
  cvt.u64.u32 %rd3, %r2;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  add.s32 %r3, %r9, %r2;
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd4];
  st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};
  @%p1 ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd4+2048];
  @%p1 st.shared.v4.u32 [%r3+2048], {%r4, %r5, %r6, %r7};
  fence.proxy.async;
  bar.sync 0;
  mov.u64 %rd8, 0x1000080000;
  mov.u64 %rd9, 0x1000080080;
  mov.b32 %f1, 0f3f800000;
  mov.b32 %f2, 0f3f800000;
  mov.b32 %f3, 0f3f800000;
  mov.b32 %f4, 0f3f800000;
  wgmma.fence.sync.aligned;
  PRODUCT {%f1, %f2, %f3, %f4}, %rd8, %rd9, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4};
  ret;
}
)";

std::string replaced(std::string text, const std::string& right, const std::string& wrong) {
  const size_t at = text.find(right);
  EXPECT_NE(at, std::string::npos) << right;
  return at == std::string::npos ? text : text.replace(at, right.size(), wrong);
}
std::string with_opcodes(std::string text) {
  for (const auto& [name, opcode] :
       {std::pair{"PRODUCT", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"},
        std::pair{"WIDER", "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"}}) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name))
      text.replace(at, std::strlen(name), opcode);
  }
  return text;
}

int number(int i) { return (i * 7 + i / 5) % 9 - 4; }

GpuRun run(const std::string& ptx, int threads = 128) {
  std::vector<GpuBuffer> buffers(2);
  for (int i = 0; i < 1280; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(number(i))) >> 16;
    buffers[0].bytes.push_back(static_cast<unsigned char>(bits));
    buffers[0].bytes.push_back(static_cast<unsigned char>(bits >> 8));
  }
  buffers[1].bytes.resize(2048);
  buffers[1].is_output = true;
  return run_ptx(parse_ptx(with_opcodes(ptx)), {.blocks = 1, .threads = threads}, std::move(buffers), {});
}

std::string fault_of(const std::string& ptx, int threads = 128) {
  return fault_in([&] { run(ptx, threads); });
}

// Of the elements that `number` fills shared memory with, in order.
double element(int first, int row, int k) {
  return number(first + row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8);
}
void expect_products(const GpuRun& found, double before, double sign) {
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < 8; ++n) {
      double expected = before;
      float sum = 0;
      for (int k = 0; k < 16; ++k) expected += sign * element(0, m, k) * element(1024, n, k);
      const int thread = m / 16 * 32 + m % 8 * 4 + n / 2, i = m % 16 / 8 * 2 + n % 2;
      std::memcpy(&sum, found.buffers[1].bytes.data() + (thread * 4 + i) * 4, 4);
      ASSERT_EQ(sum, expected) << m << " " << n;
    }
  }
}

TEST(PtxWarpgroup, products_are_those_of_matrices) {
  const GpuRun found = run(kKernel);
  EXPECT_EQ(found.group_products, 4);  // one of each warp
  expect_products(found, 1, 1);
}

TEST(PtxWarpgroup, sums_before_are_forgotten_and_factors_negated_where_it_is_said) {
  expect_products(run(replaced(kKernel, "%rd9, 1, 1, 1,", "%rd9, 0, 1, 1,")), 0, 1);
  expect_products(run(replaced(kKernel, "%rd9, 1, 1, 1,", "%rd9, 1, -1, 1,")), 1, -1);
  expect_products(run(replaced(kKernel, "%rd9, 1, 1, 1,", "%rd9, 1, -1, -1,")), 1, 1);
}

TEST(PtxWarpgroup, sums_of_one_shape_follow_without_a_wait) {
  expect_products(
      run(replaced(kKernel, "wgmma.commit_group.sync.aligned;",
                   "wgmma.commit_group.sync.aligned;\n  PRODUCT {%f1, %f2, %f3, %f4}, %rd8, %rd9, "
                   "1, -1, 1, 0, 0;\n  PRODUCT {%f1, %f2, %f3, %f4}, %rd8, %rd9, 1, 1, 1, 0, 0;\n  "
                   "wgmma.commit_group.sync.aligned;")),
      1, 1);
}

// The same bytes as numbers of other kinds, 32 bytes of k at a time.
TEST(PtxWarpgroup, numbers_of_eight_bits_are_multiplied_and_integers_wrap) {
  std::string ptx = replaced(kKernel, "PRODUCT {%f1, %f2, %f3, %f4}, %rd8, %rd9, 1, 1, 1, 0, 0;",
                             "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {%f1, %f2, %f3, %f4}, %rd8, "
                             "%rd9, 1;");
  ptx = replaced(ptx, "mov.b32 %f1, 0f3f800000;", "mov.b32 %f1, 0f7fffffff;");
  const GpuRun found = run(ptx);
  const std::vector<unsigned char>& bytes = found.buffers[0].bytes;
  const auto at = [&](int first, int row, int k) {
    return bytes[size_t(first + row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16)];
  };
  for (int thread = 0; thread < 128; ++thread) {
    const int m = thread / 32 * 16 + thread % 32 / 4, n = thread % 4 * 2;
    uint32_t sum = 0, expected = 0x7fffffff;
    for (int k = 0; k < 32; ++k)
      expected += static_cast<uint32_t>(int{at(0, m, k)} * static_cast<int8_t>(at(2048, n, k)));
    std::memcpy(&sum, found.buffers[1].bytes.data() + thread * 16, 4);
    ASSERT_EQ(sum, expected) << thread;
  }
}

// ---------------------------------------------------------------- planted bugs
class PlantedInWarpgroup : public testing::TestWithParam<Planted> {};

TEST_P(PlantedInWarpgroup, is_found) {
  const std::string ptx = replaced(kKernel, GetParam().right, GetParam().wrong);
  EXPECT_THAT(fault_of(ptx), HasSubstr(GetParam().report));
}

#define SUMS "{%f1, %f2, %f3, %f4}"
#define PROXY_FENCE "  fence.proxy.async;\n"
#define BARRIER "  bar.sync 0;\n"
#define FENCE "  wgmma.fence.sync.aligned;\n"
#define COMMIT "  wgmma.commit_group.sync.aligned;\n"
#define WAIT "  wgmma.wait_group.sync.aligned 0;\n"
#define BEGIN "  PRODUCT " SUMS ", %rd8, %rd9, 1, 1, 1, 0, 0;\n"
#define FROM_REGISTERS "  PRODUCT " SUMS ", {%r4, %r5, %r6, %r7}, %rd9, 1, 1, 1, 0;\n"
#define STORE "  st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};\n"

const Planted kPlanted[] = {
    {"nothing", WAIT, WAIT, "no fault"},
    {"no_fence_of_the_async_proxy", PROXY_FENCE, "", "wrote without a fence of the async proxy"},
    {"fence_behind_the_barrier", PROXY_FENCE BARRIER, BARRIER PROXY_FENCE,
     "wrote without a fence of the async proxy"},
    {"fence_before_the_last_store", PROXY_FENCE, PROXY_FENCE STORE,
     "wrote without a fence of the async proxy"},
    {"fence_of_half_the_threads", PROXY_FENCE, "  @%p2 fence.proxy.async;\n",
     "wrote without a fence of the async proxy"},
    {"no_barrier", BARRIER, "", "race: a product of a warpgroup reads what thread"},
    {"factor_that_nobody_wrote", "  @%p1 st.shared", "  setp.lt.u32 %p1, %r1, 8;\n  @%p1 st.shared",
     "that nobody wrote"},
    {"copy_under_way", STORE,
     "  cp.async.cg.shared.global [%r3], [%rd4], 16;\n  cp.async.commit_group;\n  cp.async.wait_group 1;\n",
     "reads where a copy is under way to"},
    {"copy_without_a_fence", PROXY_FENCE,
     "  cp.async.cg.shared.global [%r3], [%rd4], 16;\n  cp.async.commit_group;\n" PROXY_FENCE
     "  cp.async.wait_group 0;\n",
     "wrote without a fence of the async proxy"},
    {"no_fence_of_registers", FENCE, "", "without wgmma.fence"},
    {"sums_touched_behind_the_fence", FENCE, FENCE "  mov.b32 %f3, 0f3f800000;\n", "without wgmma.fence"},
    {"sums_read_before_the_wait", WAIT, "  add.f32 %f5, %f1, %f1;\n" WAIT,
     "a register of a product that is under way is touched"},
    {"sums_written_before_the_wait", WAIT, "  mov.b32 %f4, 0f00000000;\n" WAIT,
     "a register of a product that is under way is touched"},
    {"wait_that_leaves_a_group", WAIT, "  wgmma.wait_group.sync.aligned 1;\n",
     "a register of a product that is under way is touched"},
    {"product_that_no_group_has", COMMIT, "", "a register of a product that is under way is touched"},
    {"sums_of_another_shape", COMMIT,
     COMMIT "  WIDER {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, %rd8, %rd9, 1, 1, 1, 0, 0;\n" COMMIT,
     "those of one of another shape"},
    {"factor_in_registers_without_a_fence", BEGIN, "  add.s32 %r4, %r4, 0;\n" FROM_REGISTERS,
     "without wgmma.fence"},
    {"factor_in_registers_touched_before_the_wait", BEGIN, FROM_REGISTERS "  add.s32 %r4, %r4, 0;\n",
     "a register of a product that is under way is touched"},
    {"factor_written_before_the_wait", WAIT, STORE WAIT,
     "writes what a product of a warpgroup that is under way reads"},
    {"copy_to_a_factor_before_the_wait", WAIT, "  cp.async.cg.shared.global [%r3], [%rd4], 16;\n" WAIT,
     "writes what a product of a warpgroup that is under way reads"},
    {"factor_written_without_a_barrier", WAIT, WAIT STORE, "race: a thread writes what another one reads"},
    {"half_a_warp", BEGIN, "  @%p2 PRODUCT " SUMS ", %rd8, %rd9, 1, 1, 1, 0, 0;\n",
     "a matrix instruction of 16 of 32 lanes"},
    {"one_warp_less", BEGIN, "  @%p1 bra PAST;\n" BEGIN "PAST:\n",
     "the warps of a warpgroup part: another one is at PTX line"},
    {"one_warp_that_ends", FENCE, "  @%p1 ret;\n" FENCE,
     "the warps of a warpgroup part: not all of them reach PTX line"},
    {"other_descriptors_in_one_warp", FENCE, "  @%p1 mov.u64 %rd9, 0x1000080090;\n" FENCE,
     "the warps of a warpgroup have different descriptors"},
    {"other_descriptors_in_some_lanes", FENCE, "  @%p2 mov.u64 %rd9, 0x1000080090;\n" FENCE,
     "differs between lanes"},
    {"bits_of_a_descriptor_that_mean_nothing", "0x1000080080", "0x1000088080",
     "a descriptor of a matrix has bits that mean nothing"},
    {"factor_outside_shared_memory", "0x1000080080", "0x1000080098", "outside the shared memory"},
    {"older_device", "sm_90a", "sm_90", "is of sm_90a, not of sm_90"},
    {"a_shape_that_is_not_there", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4, %f5, %f6}, %rd8, %rd9, 1, "
     "1, "
     "1, 0, 0;\n",
     "operands of"},
    {"too_few_sums", BEGIN, "  PRODUCT {%f1, %f2}, %rd8, %rd9, 1, 1, 1, 0, 0;\n", "operands of"},
    {"numbers_that_are_not_multiplied_together", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.f16 " SUMS ", %rd8, %rd9, 1, 1, 1, 0, 0;\n",
     "an unknown instruction"},
    {"bytes_of_two_forms", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.s8 " SUMS ", %rd8, %rd9, 1, 1, 1;\n",
     "an unknown instruction"},
    {"a_depth_that_is_not_there", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n8k16.f32.tf32.tf32 " SUMS ", %rd8, %rd9, 1, 1, 1;\n",
     "an unknown instruction"},
    {"numbers_not_rounded_to_tf32", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 " SUMS ", %rd8, %rd9, 1, 1, 1;\n",
     "that was not rounded to tf32"},
    {"bytes_that_are_turned", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 " SUMS ", %rd8, %rd9, 1, 1, 1, 0, 0;\n",
     "operands of"},
    {"integers_with_signs", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 " SUMS ", %rd8, %rd9, 1, 1, 1;\n", "operands of"},
    {"columns_that_integers_have_not", BEGIN,
     "  wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8, %f9, %f10, "
     "%f11, %f12, %f13, %f14, %f15, %f16, %f17, %f18, %f19, %f20}, %rd8, %rd9, 1;\n",
     "operands of"},
    {"factor_in_registers_that_is_turned", BEGIN,
     "  PRODUCT " SUMS ", {%r4, %r5, %r6, %r7}, %rd9, 1, 1, 1, 0, 1;\n", "operands of"},
};
INSTANTIATE_TEST_SUITE_P(Ptx, PlantedInWarpgroup, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PtxWarpgroup, two_warps_are_no_warpgroup) {
  EXPECT_THAT(fault_of(kKernel, 64), HasSubstr("a warpgroup of less than four warps"));
}

}  // namespace
}  // namespace tilefuse
