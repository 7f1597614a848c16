// The model of a GPU finds what is wrong with a kernel: bugs planted in PTX, each of which must be reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/gpu/fault_in.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// Of one input and one output, %rd1 and %rd2, with the thread's number in %r1 and its bytes (4 each) in %rd3;
// shared memory of 512 bytes.
std::string kernel(const std::string& body) {
  return R"(
.version 9.0
.target sm_80
.address_size 64
.visible .entry k(
  .param .u64 k_param_0,
  .param .u64 k_param_1
)
{
  .reg .b32 %r<16>;
  .shared .align 4 .b8 parts[512];
  ld.param.u64 %rd1, [k_param_0];
  ld.param.u64 %rd2, [k_param_1];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  cvt.u64.u32 %rd3, %r2;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  setp.lt.u32 %p1, %r1, 32;
  setp.lt.u32 %p2, %r1, 16;
  mov.u32 %r9, parts;
  add.s32 %r3, %r9, %r2;
  ld.global.u32 %r4, [%rd4];
)" + body +
         R"(
  st.global.u32 [%rd5], %r4;
  ret;
}
)";
}

GpuRun run(const std::string& body) {
  std::vector<GpuBuffer> buffers(2);
  buffers[0].bytes.resize(256);
  for (size_t i = 0; i < 256; ++i) buffers[0].bytes[i] = static_cast<unsigned char>(i);
  buffers[1].bytes.resize(256);
  buffers[1].is_output = true;
  return run_ptx(parse_ptx(kernel(body)), {.blocks = 1, .threads = 64}, std::move(buffers), {});
}

std::string fault_of(const std::string& body) {
  return fault_in([&] { run(body); });
}

TEST(PtxModel, runs_a_kernel_without_faults) {
  const GpuRun result = run("");
  EXPECT_EQ(result.buffers[1].bytes, result.buffers[0].bytes);
  EXPECT_EQ(result.buffers[0].sectors, 256 / 32);
  EXPECT_EQ(result.buffers[1].sectors, 256 / 32);
}

// Of the lane that many bytes away.
#define MEET_AND_READ(bytes)                                                \
  "st.shared.u32 [%r3], %r4;\nbar.warp.sync -1;\nxor.b32 %r5, %r3, " #bytes \
  ";\nld.shared.u32 %r4, [%r5];"                                            \
  "\nbar.warp.sync -1;\n"

TEST(PtxModel, passes_values_through_shared_memory_between_barriers) {
  EXPECT_EQ(
      fault_of("st.shared.u32 [%r3], %r4;\nbar.sync 0;\nxor.b32 %r5, %r3, 128;\nld.shared.u32 %r4, [%r5];"),
      "no fault");
}

// Twice, so that what was read is written again.
TEST(PtxModel, passes_values_between_the_lanes_of_a_warp_that_meet) {
  EXPECT_EQ(fault_of(MEET_AND_READ(4) MEET_AND_READ(8)), "no fault");
}

// The bytes of the output are the number of each lane: of one that many below, which has its own where there
// is none; of one for all.
TEST(PtxModel, shuffles_from_lanes_below_and_from_one) {
  const auto shuffled = [](const char* instruction) {
    const GpuRun result = run(instruction);
    std::vector<int> words;
    for (size_t i = 0; i < 32; ++i) words.push_back(result.buffers[1].bytes[4 * i]);
    return words;
  };
  const std::vector<int> own = shuffled("");
  const std::vector<int> below = shuffled("shfl.sync.up.b32 %r4, %r4, 3, 0, -1;");
  const std::vector<int> fifth = shuffled("shfl.sync.idx.b32 %r4, %r4, 5, 31, -1;");
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(below[i], own[i < 3 ? i : i - 3]);
    EXPECT_EQ(fifth[i], own[5]);
  }
}

TEST(PtxModel, takes_a_prefetch_for_no_access) {
  EXPECT_EQ(run("prefetch.global.L2 [%rd4];").buffers[0].sectors, 256 / 32);
}

TEST(PtxModel, lets_a_thread_write_the_same_again) {
  EXPECT_EQ(fault_of("st.global.u32 [%rd5], %r4;"), "no fault");
}

TEST(PtxModel, packs_and_unpacks_registers) {
  const GpuRun result = run("mov.b32 {%rs1, %rs2}, %r4;\nmov.b32 %r4, {%rs2, %rs1};");
  EXPECT_EQ(result.buffers[1].bytes[0], 2);
  EXPECT_EQ(result.buffers[1].bytes[2], 0);
}

// Every second word: two of each bank, of both warps.
TEST(PtxModel, counts_lanes_that_want_other_words_of_one_bank) {
  EXPECT_EQ(run("st.shared.u32 [%r3], %r4;").bank_conflicts, 0);
  const char* every_second =
      "st.shared.u32 [%r3], %r4;\nbar.sync 0;\nshl.b32 %r5, %r1, 3;\nand.b32 %r5, %r5, 252;\n"
      "ld.shared.u32 %r6, [%r5];";
  EXPECT_EQ(run(every_second).bank_conflicts, 2);
}

TEST(PtxModel, copies_between_barriers) {
  const char* copied_twice =
      "shl.b32 %r6, %r1, 4;\nadd.s32 %r7, %r9, %r6;\ncvt.u64.u32 %rd6, %r6;\nadd.s64 %rd7, %rd1, %rd6;\n"
      "@%p2 cp.async.cg.shared.global [%r7], [%rd7], 16;\ncp.async.commit_group;\n"
      "add.s32 %r8, %r7, 256;\n@%p2 cp.async.ca.shared.global [%r8], [%rd7], 16, 4;\n"
      "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r4, [%r3];\n"
      "ld.shared.u32 %r5, [%r3+256];\nadd.s32 %r4, %r4, %r5;";
  const GpuRun result = run(copied_twice);
  EXPECT_EQ(result.bank_conflicts, 0);
  EXPECT_EQ(result.buffers[0].sectors, 3 * 256 / 32);
  for (size_t i = 0; i < 256; i += 4) {
    const int copies = i % 16 == 0 ? 2 : 1;  // of the second one, four bytes and zeros
    EXPECT_EQ(result.buffers[1].bytes[i], (copies * result.buffers[0].bytes[i]) % 256) << i;
  }
}

TEST(PtxModel, joins_lanes_that_parted) {
  EXPECT_EQ(fault_of("@%p2 bra LOW;\nadd.s32 %r4, %r4, 1;\nbra.uni DONE;\nLOW:\nadd.s32 %r4, %r4, "
                     "2;\nDONE:\nbar.sync 0;"),
            "no fault");
}
TEST(PtxModel, waits_at_a_barrier_for_lanes_that_come_from_behind_it) {
  EXPECT_EQ(fault_of("@%p2 bra FAR;\nNEAR:\nbar.sync 0;\nbra.uni DONE;\nFAR:\nadd.s32 %r5, %r4, 1;\n"
                     "bra.uni NEAR;\nDONE:\n"),
            "no fault");
}

struct Planted {
  const char* name;
  const char* body;
  const char* report;
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }
class PlantedBug : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBug, is_found) { EXPECT_THAT(fault_of(GetParam().body), HasSubstr(GetParam().report)); }

// Of the first 16 threads, 16 bytes each, from %rd7 to %r7.
#define COPY                                                                                   \
  "shl.b32 %r6, %r1, 4;\nadd.s32 %r7, %r9, %r6;\ncvt.u64.u32 %rd6, %r6;\nadd.s64 %rd7, %rd1, " \
  "%rd6;\n@%p2 cp.async.cg.shared.global [%r7], [%rd7], 16;\n"
#define MATRIX(opcode) \
  "and.b32 %r7, %r1, 7;\nshl.b32 %r7, %r7, 4;\n" opcode " {%r10, %r11, %r12, %r13}, [%r7];"
#define FRAGMENTS "{%f1, %f2, %f3, %f4}, {%r10, %r10, %r10, %r10}, {%r10, %r10}, {%f1, %f2, %f3, %f4};"

const Planted kPlanted[] = {
    {"load_behind_a_buffer", "ld.global.u32 %r5, [%rd4+4];", "outside buffer 0"},
    {"prefetch_behind_a_buffer", "prefetch.global.L2 [%rd4+256];", "outside buffer 0"},
    {"load_before_a_buffer", "sub.s64 %rd6, %rd4, 4;\nld.global.u32 %r5, [%rd6];", "is in no buffer"},
    {"store_behind_a_buffer", "st.global.u32 [%rd5+252], %r4;", "outside buffer 1"},
    {"access_that_is_not_aligned", "ld.global.u32 %r5, [%rd1+2];", "not aligned"},
    {"vector_that_is_not_aligned", "ld.global.v2.u32 {%r5, %r6}, [%rd1+4];", "not aligned"},
    {"store_to_an_input", "st.global.u32 [%rd4], %r4;", "writes to an input"},
    {"two_threads_write_one_element", "st.global.u32 [%rd2], %r4;", "writes what was written already"},
    {"another_value_than_before", "add.s32 %r6, %r4, 1;\nst.global.u32 [%rd5], %r6;",
     "writes what was written already"},
    {"output_read_before_it_is_written", "ld.global.u32 %r5, [%rd5];", "reads what nobody wrote"},
    {"output_taken_for_read_only", "ld.global.nc.u32 %r5, [%rd5];", "takes an output for read-only"},
    {"element_that_nobody_writes", "@%p1 ret;", "nobody writes byte 0"},
    {"shared_memory_that_nobody_wrote", "ld.shared.u32 %r5, [%r3];", "that nobody wrote"},
    {"kernel_that_stops_itself", "@%p2 trap;", "the kernel stops itself"},
    {"access_outside_shared_memory", "st.shared.u32 [%r3+500], %r4;", "outside the shared memory"},
    {"read_without_a_barrier", "st.shared.u32 [%r3], %r4;\nxor.b32 %r5, %r3, 4;\nld.shared.u32 %r4, [%r5];",
     "race: a thread reads"},
    {"write_without_a_barrier_after_a_read",
     "st.shared.u32 [%r3], %r4;\nbar.sync 0;\nxor.b32 %r5, %r3, 4;\nld.shared.u32 %r6, [%r5];\nst.shared.u32 "
     "[%r3], "
     "%r6;",
     "race: a thread writes what another one reads"},
    {"two_threads_write_one_place", "st.shared.u32 [%r9], %r4;", "race: two threads write"},
    {"read_of_another_warp_that_has_met", MEET_AND_READ(128), "that nobody wrote"},
    {"write_after_a_read_without_a_meeting",
     MEET_AND_READ(4) "ld.shared.u32 %r4, [%r5];\nst.shared.u32 [%r3], %r4;",
     "race: a thread writes what another one reads"},
    {"write_of_what_two_warps_read",
     "st.shared.u32 [%r3], %r4;\nbar.sync 0;\nxor.b32 %r5, %r3, 128;\nld.shared.u32 %r4, [%r5];\n"
     "ld.shared.u32 %r4, [%r3];\nbar.warp.sync -1;\n@!%p1 st.shared.u32 [%r3], %r4;",
     "race: a thread writes what another one reads"},
    {"meeting_of_half_a_warp", "@%p2 bra SKIP;\nbar.warp.sync -1;\nSKIP:\n", "of 16 of 32 lanes"},
    {"meeting_of_some_lanes", "bar.warp.sync 65535;", "an unknown instruction"},
    {"barrier_that_half_a_warp_reaches", "@%p2 bra SKIP;\nbar.sync 0;\nSKIP:\n", "reached by 16 of 32 lanes"},
    {"barrier_that_one_warp_reaches", "@%p1 bra SKIP;\nbar.sync 0;\nSKIP:\n", "reached by 1 of 2 warps"},
    {"barrier_that_lanes_have_left", "@%p2 ret;\nbar.sync 0;", "reached by 16 of 32 lanes"},
    {"shuffle_of_half_a_warp", "@%p2 shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;", "not all there"},
    {"shuffle_up_of_half_warps", "shfl.sync.up.b32 %r5, %r4, 1, 4096, -1;", "other than whole warps"},
    {"shuffle_down", "shfl.sync.down.b32 %r5, %r4, 1, 31, -1;", "an unknown instruction"},
    {"loop_without_an_end", "AGAIN:\nbra AGAIN;", "does not end"},
    {"shuffle_of_half_warps", "shfl.sync.bfly.b32 %r5, %r4, 1, 4127, -1;", "other than whole warps"},
    {"copy_read_before_the_wait", COPY "cp.async.commit_group;\nbar.sync 0;\n@%p2 ld.shared.u32 %r5, [%r7];",
     "race: a thread reads where a copy is under way to"},
    {"copy_that_no_group_has", COPY "cp.async.wait_group 0;\nbar.sync 0;\n@%p2 ld.shared.u32 %r5, [%r7];",
     "race: a thread reads where a copy is under way to"},
    {"copy_of_a_group_that_may_be_under_way",
     COPY "cp.async.commit_group;\ncp.async.wait_group 1;\nbar.sync 0;\n@%p2 ld.shared.u32 %r5, [%r7];",
     "race: a thread reads where a copy is under way to"},
    {"copy_read_without_a_barrier",
     COPY "cp.async.commit_group;\ncp.async.wait_group 0;\nxor.b32 %r7, %r7, 16;\n@%p2 ld.shared.u32 %r5, "
          "[%r7];",
     "race: a thread reads what thread"},
    {"copy_to_what_another_thread_reads",
     "st.shared.u32 [%r3], %r4;\nbar.sync 0;\nld.shared.u32 %r5, [%r3];\n" COPY,
     "race: a thread writes what another one reads"},
    {"copy_to_where_one_is_under_way", COPY "@%p2 cp.async.cg.shared.global [%r7], [%rd7], 16;",
     "race: a thread writes where a copy is under way to"},
    {"store_to_where_a_copy_is_under_way", COPY "@%p2 st.shared.u32 [%r7], %r4;",
     "race: a thread writes where a copy is under way to"},
    {"copy_from_outside_a_buffer", "cp.async.cg.shared.global [%r9], [%rd1+256], 16;", "outside buffer 0"},
    {"copy_from_an_address_that_is_not_aligned", "cp.async.cg.shared.global [%r9], [%rd1+8], 16;",
     "the source of a copy is not aligned"},
    {"copy_outside_shared_memory", "add.s32 %r7, %r9, 512;\ncp.async.cg.shared.global [%r7], [%rd1], 16;",
     "outside the shared memory"},
    {"matrix_loaded_by_half_a_warp", MATRIX("@%p2 ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
     "a matrix instruction of 16 of 32 lanes"},
    {"matrix_loaded_without_a_barrier",
     "st.shared.u32 [%r3], %r4;\n" MATRIX("ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
     "race: a thread reads what thread"},
    {"matrix_that_nobody_wrote", MATRIX("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
     "that nobody wrote"},
    {"matrix_with_rows_that_are_not_aligned",
     "mov.u32 %r7, 8;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];",
     "a row of a matrix is not aligned"},
    {"matrices_multiplied_by_half_a_warp",
     "@%p2 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " FRAGMENTS, "a matrix instruction of 16 of"},
    {"matrices_that_were_not_rounded",
     "mov.b32 %r10, 0f3f800001;\nmma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " FRAGMENTS,
     "was not rounded to tf32"},
    {"unknown_product", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 " FRAGMENTS,
     "an unknown instruction: mma.sync.aligned.m16n8k8"},
    {"unknown_product_of_bytes", "mma.sync.aligned.m16n8k32.row.col.s32.s8.e4m3.s32 " FRAGMENTS,
     "an unknown instruction: mma.sync.aligned.m16n8k32"},
    {"bytes_multiplied_by_half_a_warp", "@%p2 mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 " FRAGMENTS,
     "a matrix instruction of 16 of"},
    {"unknown_matrix_load", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r9];",
     "an unknown instruction: ldmatrix"},
    {"unknown_copy", "cp.async.ca.shared.global [%r9], [%rd1], 4;", "a copy that is not understood"},
    {"unknown_instruction", "bfind.u32 %r5, %r4;", "an unknown instruction: bfind.u32"},
    {"unknown_modifier", "add.sat.s32 %r5, %r4, %r4;", "an unknown instruction: add.sat.s32"},
    {"unknown_access", "ld.volatile.global.u32 %r5, [%rd4];", "an access that is not understood"},
    {"unknown_register", "mov.u32 %r5, %laneid.x;", "an unknown register"},
};
INSTANTIATE_TEST_SUITE_P(Ptx, PlantedBug, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

// ---------------------------------------------------------------- instructions, one by one
uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t wide(double value) { return std::bit_cast<uint64_t>(value); }

struct Semantics {
  const char* opcode;
  std::vector<uint64_t> operands;
  uint64_t result;
};

TEST(PtxOperations, compute_what_the_manual_says) {
  const uint64_t minus_one = 0xffffffff, nan = bits(NAN);
  const std::vector<Semantics> table = {
      {"add.s32", {0x7fffffff, 1}, 0x80000000},
      {"sub.s64", {1, 2}, ~uint64_t{0}},
      {"mul.lo.s32", {minus_one, 3}, 0xfffffffd},
      {"mul.hi.u32", {minus_one, 2}, 1},
      {"mul.wide.s32", {minus_one, 2}, ~uint64_t{1}},
      {"mul.wide.u32", {minus_one, 2}, 0x1fffffffe},
      {"mad.lo.s32", {3, 4, 5}, 17},
      {"div.s32", {uint32_t(-7), 2}, uint32_t(-3)},
      {"rem.s32", {uint32_t(-7), 2}, minus_one},
      {"shr.s32", {minus_one, 40}, minus_one},
      {"shr.u32", {minus_one, 32}, 0},
      {"shl.b32", {1, 31}, 0x80000000},
      {"min.s32", {minus_one, 1}, minus_one},
      {"max.u32", {minus_one, 1}, minus_one},
      {"setp.lt.s32", {minus_one, 0}, 1},
      {"setp.lt.u32", {minus_one, 0}, 0},
      {"setp.ltu.f32", {nan, 0}, 1},
      {"setp.lt.f32", {nan, 0}, 0},
      {"setp.neu.f32", {nan, nan}, 1},
      {"setp.nan.f32", {nan, 0}, 1},
      {"selp.b32", {7, 8, 0}, 8},
      {"prmt.b32", {0x44332211, 0x88776655, 0x7410}, 0x88552211},
      {"prmt.b32", {0x44332280, 0, 0x1188}, 0x2222ffff},
      {"dp4a.s32.s32", {0x01ff80fe, 0x028001ff, 10}, 14},
      {"dp4a.s32.u32", {0x01ff80fe, 0x028001ff, 10}, uint32_t(-754)},
      {"dp4a.u32.s32", {0x028001ff, 0x01ff80fe, 10}, uint32_t(-754)},
      {"shf.l.wrap.b32", {0x80000001, 0x3, 33}, 7},
      {"add.rz.f32", {bits(1), bits(0x1.8p-24F)}, bits(1)},
      {"add.rn.f64", {wide(1), wide(2)}, wide(3)},
      {"div.rn.f64", {wide(1), wide(4)}, wide(0.25)},
      {"fma.rn.f64", {wide(1), wide(1), wide(-0x1p-60)}, wide(1)},
      {"copysign.f64", {wide(-1), wide(3)}, wide(-3)},
      {"min.f64", {wide(NAN), wide(3)}, wide(3)},
      {"rcp.approx.ftz.f64", {wide(3)}, 0x3fd5555500000000},
      {"rcp.approx.ftz.f64", {wide(0x1p-1060)}, wide(INFINITY)},
      {"setp.lt.f64", {wide(1), wide(NAN)}, 0},
      {"setp.geu.f64", {wide(1), wide(NAN)}, 1},
      {"setp.nan.f64", {wide(1), wide(NAN)}, 1},
      {"cvt.rni.f64.f64", {wide(2.5)}, wide(2)},
      {"cvt.rzi.s32.f64", {wide(-2.7)}, uint32_t(-2)},
      {"cvt.rzi.s64.f64", {wide(1e30)}, 0x7fffffffffffffff},
      {"cvt.rzi.u8.f64", {wide(-1)}, 0},
      {"cvt.rn.f64.s32", {minus_one}, wide(-1)},
      {"cvt.rn.f64.u64", {~uint64_t{0}}, wide(0x1p64)},
      {"cvt.rn.f32.f64", {wide(1.00000001)}, bits(1)},
      {"cvt.f64.f32", {bits(1.5F)}, wide(1.5)},
      {"bfi.b32", {0xff, 0x10001, 8, 4}, 0x10f01},
      {"bfi.b64", {3, 5, 32, 32}, 0x300000005},
      {"max.f32", {nan, bits(1)}, bits(1)},
      {"min.NaN.f32", {bits(2), bits(1)}, bits(1)},
      {"copysign.f32", {bits(-1), bits(3)}, bits(-3)},
      {"fma.rn.f32", {bits(2), bits(3), bits(4)}, bits(10)},
      {"fma.rm.f32", {bits(1), bits(1), bits(-0x1p-30F)}, bits(0x1.fffffep-1F)},
      {"fma.rn.f32", {bits(1), bits(1), bits(-0x1p-30F)}, bits(1)},
      {"add.ftz.f32", {bits(0x1p-130F), 0}, 0},
      {"ex2.approx.ftz.f32", {bits(3)}, bits(8)},
      {"rsqrt.approx.f32", {bits(4)}, bits(0.5F)},
      {"cvt.sat.f32.f32", {bits(2)}, bits(1)},
      {"cvt.rzi.s32.f32", {bits(-2.7F)}, uint32_t(-2)},
      {"cvt.rni.f32.f32", {bits(2.5F)}, bits(2)},
      {"cvt.rmi.f32.f32", {bits(-2.5F)}, bits(-3)},
      {"cvt.s64.s32", {minus_one}, ~uint64_t{0}},
      {"cvt.u64.u32", {minus_one}, minus_one},
      {"cvt.s32.s8", {0x80}, 0xffffff80},
      {"cvt.rn.f32.s32", {minus_one}, bits(-1)},
      {"cvt.rn.bf16.f32", {0x3f808000}, 0x3f80},
      {"cvt.rn.bf16.f32", {0x3f818000}, 0x3f82},
      {"cvt.rna.tf32.f32", {0x3f801000}, 0x3f802000},
      {"cvt.rna.tf32.f32", {0x3f800fff}, 0x3f800000},
      {"cvt.rna.tf32.f32", {0x3f803000}, 0x3f804000},  // halves go away from zero, not to the even one
      {"cvt.rna.tf32.f32", {0xbf801000}, 0xbf802000},
      {"cvt.rna.tf32.f32", {0x3fffffff}, bits(2)},
      {"cvt.rna.tf32.f32", {0x7f7fffff}, bits(INFINITY)},
      {"cvt.rna.tf32.f32", {0x00000fff}, 0},  // subnormal numbers are rounded like others
      {"cvt.rna.tf32.f32", {0x80001000}, 0x80002000},
      {"cvt.rna.tf32.f32", {bits(-INFINITY)}, bits(-INFINITY)},
      {"cvt.rn.f16.f32", {bits(1.0009765625F)}, 0x3c01},
      {"cvt.rn.f16.f32", {bits(65520)}, 0x7c00},
      {"cvt.rn.f16.f32", {bits(0x1p-24F)}, 1},
      {"cvt.f32.f16", {0x3c01}, bits(1.0009765625F)},
      {"cvt.rn.bf16x2.f32", {bits(2), bits(1)}, 0x40003f80},
      {"cvt.rn.f16x2.f32", {bits(-2), 0x3f802000}, 0xc0003c01},
  };
  for (const Semantics& row : table) {
    const auto operation = find_operation(row.opcode);
    ASSERT_TRUE(operation) << row.opcode;
    ASSERT_EQ(operation->operands, int(row.operands.size())) << row.opcode;
    EXPECT_EQ(operation->compute(row.operands.data()), row.result) << row.opcode;
  }
}

}  // namespace
}  // namespace tilefuse
