// Boxes that the machine copies and the barriers that count them in the model of a GPU: where elements lie,
// and what is wrong with a kernel, planted in PTX.
#include "tests/gpu/ptx_barrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/gpu/fault_in.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// A matrix of 12 lines of 60 elements, 64 apart, in two boxes of 8 lines to the same place. Thread 0 copies;
// warp 1 stores the first half of each.
constexpr const char* kKernel = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .align 64 .b8 p2[128])
.maxntid 64
{
  .shared .align 1024 .b8 tile[2048];
  .shared .align 8 .b8 bars[16];
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  mov.b64 %rd3, p2;
  cvta.param.u64 %rd4, %rd3;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, bars;
  add.s32 %r4, %r3, 8;
  setp.eq.u32 %p1, %r1, 0;
  setp.ge.u32 %p2, %r1, 32;
  and.b32 %r5, %r1, 31;
  setp.eq.u32 %p4, %r5, 0;
  shl.b32 %r6, %r5, 4;
  add.s32 %r7, %r2, %r6;
  cvt.u64.u32 %rd5, %r6;
  add.s64 %rd6, %rd2, %rd5;
  @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
  @%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
  @%p1 fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @%p2 bra READER;
  @!%p1 bra END;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
  COPY [%r2], [%rd4, {0, 0}], [%r3];
FREE:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 0;
  @!%p3 bra FREE;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
  COPY [%r2], [%rd4, {0, 8}], [%r3];
  bra END;
READER:
FIRST:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
  @!%p3 bra FIRST;
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];
  st.global.v4.u32 [%rd6], {%r10, %r11, %r12, %r13};
  @%p4 mbarrier.arrive.shared::cta.b64 _, [%r4];
SECOND:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 1;
  @!%p3 bra SECOND;
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];
  st.global.v4.u32 [%rd6+512], {%r10, %r11, %r12, %r13};
END:
  ret;
}
)";

std::string replaced(std::string text, const std::string& right, const std::string& wrong) {
  const size_t at = text.find(right);
  EXPECT_NE(at, std::string::npos) << right;
  return text.replace(at, right.size(), wrong);
}

GpuRun run(std::string text,
           const TensorMapLayout& map = {.extents = {60, 12}, .strides = {128}, .box = {64, 8}}) {
  const std::string copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
  for (size_t at = text.find("COPY"); at != std::string::npos; at = text.find("COPY"))
    text.replace(at, 4, copy);
  std::vector<GpuBuffer> buffers(2);
  for (int i = 0; i < 12 * 64; ++i) {
    buffers[0].bytes.push_back(static_cast<unsigned char>(i));
    buffers[0].bytes.push_back(static_cast<unsigned char>(i / 256 + 1));
  }
  buffers[1].bytes.resize(1024);
  buffers[1].is_output = true;
  return run_ptx(parse_ptx(text), {.blocks = 1, .threads = 64}, std::move(buffers), {}, {map});
}

std::string fault_of(const std::string& text) {
  return fault_in([&] { run(text); });
}

// "128B swizzle" of the manual: chunk c of line l lies where chunk c ^ l would. Outside are zeros.
TEST(PtxBox, elements_lie_where_the_manual_says) {
  const GpuRun result = run(kKernel);
  EXPECT_EQ(result.boxes, 2);
  EXPECT_EQ(result.buffers[0].sectors, 12 * 4);
  const std::vector<unsigned char>& bytes = result.buffers[1].bytes;
  for (int box = 0; box < 2; ++box) {
    for (int line = 0; line < 4; ++line) {
      for (int e = 0; e < 64; ++e) {
        const int number = (box * 8 + line) * 64 + e;
        const auto at = static_cast<size_t>(box * 512 + line * 128 + ((e / 8) ^ line) * 16 + e % 8 * 2);
        EXPECT_EQ(bytes[at], e < 60 ? number % 256 : 0) << box << " " << line << " " << e;
        EXPECT_EQ(bytes[at + 1], e < 60 ? number / 256 + 1 : 0);
      }
    }
  }
}

TEST(PtxBox, lines_outside_the_matrix_are_zeros) {
  const GpuRun result = run(replaced(kKernel, "{0, 8}", "{0, 10}"));
  const std::vector<unsigned char>& bytes = result.buffers[1].bytes;
  EXPECT_EQ(bytes[512 + 1], 10 * 64 / 256 + 1);
  EXPECT_EQ(std::vector<unsigned char>(bytes.begin() + 512 + 2 * 128, bytes.end()),
            std::vector<unsigned char>(256, 0));
}

// The same bytes as elements of one byte, and as floats that are rounded to tf32 on the way.
TEST(PtxBox, elements_of_other_sizes_are_copied) {
  const GpuRun bytes =
      run(kKernel, {.element_bytes = 1, .extents = {120, 12}, .strides = {128}, .box = {128, 8}});
  EXPECT_EQ(bytes.buffers[1].bytes, run(kKernel).buffers[1].bytes);
  const GpuRun rounded = run(
      kKernel,
      {.element_bytes = 4, .rounds_to_tf32 = true, .extents = {30, 12}, .strides = {128}, .box = {32, 8}});
  const auto word = [](const std::vector<unsigned char>& from, size_t at) {
    uint32_t bits = 0;
    std::memcpy(&bits, from.data() + at, sizeof bits);
    return bits;
  };
  for (size_t at = 0; at < 112; at += 4) {  // line 0 of the first box, which keeps its chunks
    const uint32_t before = word(rounded.buffers[0].bytes, at), after = word(rounded.buffers[1].bytes, at);
    EXPECT_EQ(after & 0x1fff, 0U);
    EXPECT_LE(after > before ? after - before : before - after, 0x1000U);
  }
}

TEST(PtxBox, tensor_maps_that_a_driver_refuses) {
  const TensorMapLayout right{.extents = {60, 12}, .strides = {128}, .box = {64, 8}};
  EXPECT_EQ(why_no_tensor_map(right), "");
  const auto why = [&](const auto& spoil) {
    TensorMapLayout wrong = right;
    spoil(wrong);
    return why_no_tensor_map(wrong);
  };
  EXPECT_THAT(why([](auto& map) { map.address = 8; }), HasSubstr("an address"));
  EXPECT_THAT(why([](auto& map) { map.strides[0] = 120; }), HasSubstr("a stride"));
  EXPECT_THAT(why([](auto& map) { map.extents[1] = 0; }), HasSubstr("an extent"));
  EXPECT_THAT(why([](auto& map) { map.box[1] = 257; }), HasSubstr("a box"));
  EXPECT_THAT(why([](auto& map) { map.box[0] = 72; }), HasSubstr("lines of a box"));
  EXPECT_THAT(why([](auto& map) { map.box.pop_back(); }), HasSubstr("dimensions"));
  EXPECT_THROW(decode_tensor_map({}), GpuFault);
  EXPECT_EQ(decode_tensor_map(encode(right)).strides, right.strides);
}

// ---------------------------------------------------------------- planted bugs
class PlantedInBoxes : public testing::TestWithParam<Planted> {};

TEST_P(PlantedInBoxes, is_found) {
  EXPECT_THAT(fault_of(replaced(kKernel, GetParam().right, GetParam().wrong)), HasSubstr(GetParam().report));
}

#define READ                                                                                            \
  "  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];\n  st.global.v4.u32 [%rd6], {%r10, %r11, %r12, " \
  "%r13};\n"
#define ARRIVE "  @%p4 mbarrier.arrive.shared::cta.b64 _, [%r4];\n"
#define EXPECT_BYTES(bytes) "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], " bytes ";\n"
#define MEET "  bar.sync 0;\n"

const Planted kPlanted[] = {
    {"no_bug", MEET, MEET, "no fault"},
    {"read_without_a_wait", "  @!%p3 bra FIRST;\n", "", "race: a thread reads where a copy is under way to"},
    {"wait_for_the_phase_before", "[%r3], 0", "[%r3], 1",
     "race: a thread reads where a copy is under way to"},
    {"wait_for_a_phase_that_has_ended", "[%r3], 1;\n  @!%p3 bra SECOND", "[%r3], 0;\n  @!%p3 bra SECOND",
     "race: a box comes where warp 1 reads, and nobody has said that it is done"},
    {"box_that_another_warp_has_not_waited_for", "  bra END;\n",
     "SPIN:\n  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;\n  @!%p3 bra SPIN;\n  bra END;\n",
     "no fault"},
    {"free_before_it_is_read", READ ARRIVE, ARRIVE READ,
     "race: a box comes where warp 1 reads, and nobody has said that it is done"},
    {"box_before_the_place_is_free", "  @!%p3 bra FREE;\n", "", "has more arrivals than it was begun with"},
    {"more_bytes_than_come", EXPECT_BYTES("1024"), EXPECT_BYTES("1088"),
     "0 of 1 arrivals and 64 bytes are missing"},
    {"less_bytes_than_come", EXPECT_BYTES("1024"), EXPECT_BYTES("512"),
     "counts 512 bytes more than were expected"},
    {"bytes_that_nobody_expects", EXPECT_BYTES("1024"), "", "1024 bytes came that nobody expects yet"},
    {"no_arrival", ARRIVE, "", "1 of 1 arrivals and 0 bytes are missing"},
    {"one_arrival_of_two", "[%r4], 1;", "[%r4], 2;", "1 of 2 arrivals and 0 bytes are missing"},
    {"an_arrival_too_much", EXPECT_BYTES("1024"), EXPECT_BYTES("1024") EXPECT_BYTES("0"),
     "has more arrivals than it was begun with"},
    {"all_lanes_arrive", ARRIVE, "  mbarrier.arrive.shared::cta.b64 _, [%r4];\n", "no warp can go on"},
    {"no_fence_behind_the_begin", "  @%p1 fence.mbarrier_init.release.cluster;\n", "",
     "without fence.mbarrier_init"},
    {"barrier_that_is_being_begun", MEET, "", "is used while thread 0 begins it"},
    {"barrier_that_nobody_began", "  @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;\n", "",
     "there is no barrier at byte"},
    {"barrier_begun_twice", MEET, "  @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;\n" MEET, "is begun again"},
    {"barrier_that_is_not_aligned", "[%r3], 1;", "[%r1], 1;\n  @%p1 add.s32 %r4, %r3, 4;", "not aligned"},
    {"place_between_patterns", "mov.u32 %r2, tile;", "mov.u32 %r2, tile;\n  add.s32 %r2, %r2, 128;",
     "at no multiple of eight lines"},
    {"box_behind_shared_memory", "mov.u32 %r2, tile;", "mov.u32 %r2, tile;\n  add.s32 %r2, %r2, 3072;",
     "outside the shared memory"},
    {"box_that_nobody_waits_for", "SECOND:\n", "  bra END;\nSECOND:\n",
     "a block ends while a box is under way"},
    {"box_over_what_a_thread_wrote", MEET, "  st.shared.u32 [%r7], %r1;\n" MEET, "race: two threads write"},
    {"box_over_what_was_not_shown", MEET, "  @%p2 st.shared.u32 [%r7], %r1;\n" MEET,
     "a box goes over what thread 32 wrote without a fence of the async proxy"},
    {"write_over_a_box", READ, "  st.shared.u32 [%r7], %r1;\n" READ, "race: two threads write"},
    {"no_tensor_map", "mov.b64 %rd3, p2;", "ld.param.u64 %rd3, [p0];", "there is no tensor map"},
    {"wait_for_a_parity_that_is_none", "[%r4], 0;", "[%r4], 2;", "a parity of 2"},
    {"older_device", "sm_90a", "sm_80", "is of sm_90 and newer"},
    {"registers_of_one_warp", "READER:\n", "READER:\n  setmaxnreg.dec.sync.aligned.u32 40;\n",
     "different numbers of registers"},
    {"registers_that_are_not_left", "READER:\n", "READER:\n  setmaxnreg.inc.sync.aligned.u32 40;\n",
     "takes less, or leaves more"},
    {"registers_of_half_a_warp", "READER:\n", "READER:\n  @%p4 setmaxnreg.dec.sync.aligned.u32 40;\n",
     "of 1 of 32 lanes"},
    {"registers_that_are_no_number", "READER:\n", "READER:\n  setmaxnreg.dec.sync.aligned.u32 41;\n",
     "operands of"},
    {"a_form_that_is_not_there", "COPY", "cp.async.bulk.tensor.2d.shared::cluster.global.im2col",
     "not understood"},
};
INSTANTIATE_TEST_SUITE_P(Ptx, PlantedInBoxes, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PtxRegisters, are_set_only_for_a_number_of_threads) {
  const std::string set = replaced(kKernel, "READER:\n", "READER:\n  setmaxnreg.dec.sync.aligned.u32 40;\n");
  EXPECT_THAT(fault_of(replaced(set, ".maxntid 64\n", "")), HasSubstr("compiled for any number of threads"));
}

}  // namespace
}  // namespace tilefuse
