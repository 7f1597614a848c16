// Clusters of blocks in the model of a GPU: what blocks tell each other, and what is wrong with a kernel,
// planted in PTX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gpu/fault_in.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

#define MEET "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
#define EXPECT_BYTES(bytes) "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], " bytes ";\n"

// Each thread adds the elements of its place in all four blocks of a cluster.
constexpr const char* kSum = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
.maxntid 64
.explicitcluster
.reqnctapercluster 4, 1, 1
{
  .shared .align 4 .b8 slots[256];
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r4, slots;
  shl.b32 %r5, %r1, 2;
  add.s32 %r6, %r4, %r5;
  shl.b32 %r7, %r2, 6;
  add.s32 %r7, %r7, %r1;
  mul.wide.u32 %rd3, %r7, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  setp.eq.u32 %p2, %r3, 3;
  setp.ge.u32 %p3, %r1, 32;
  setp.eq.u32 %p4, %r1, 0;
  setp.eq.u32 %p5, %r3, 1;
  setp.eq.u32 %p6, %r3, 0;
  ld.global.u32 %r8, [%rd4];
  st.shared.u32 [%r6], %r8;
BEFORE:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  mov.u32 %r9, 0;
  mov.u32 %r10, 0;
NEXT:
  mapa.shared::cluster.u32 %r11, %r6, %r10;
  ld.shared::cluster.b32 %r12, [%r11];
  add.s32 %r9, %r9, %r12;
  add.s32 %r10, %r10, 1;
  setp.lt.u32 %p1, %r10, 4;
  @%p1 bra NEXT;
  st.global.u32 [%rd5], %r9;
BEHIND:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  st.shared.u32 [%r6], %r9;
END:
  ret;
}
)";

// 64 lines of 64 elements of 16 bits come to both blocks in four steps of 16, of which each block copies
// eight. Thread 0 copies; warp 1 stores what came, and says so to both blocks.
constexpr const char* kRing = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .align 64 .b8 p2[128])
.maxntid 64
.explicitcluster
.reqnctapercluster 2, 1, 1
{
  .shared .align 1024 .b8 tile[2048];
  .shared .align 8 .b8 bars[16];
  ld.param.u64 %rd2, [p1];
  mov.b64 %rd3, p2;
  cvta.param.u64 %rd4, %rd3;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, tile;
  mov.u32 %r4, bars;
  add.s32 %r5, %r4, 8;
  and.b32 %r6, %r1, 31;
  setp.eq.u32 %p1, %r1, 0;
  setp.ge.u32 %p2, %r1, 32;
  setp.eq.u32 %p3, %r6, 0;
  setp.eq.u32 %p7, %r2, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
  @%p1 mbarrier.init.shared::cta.b64 [%r5], 2;
  @%p1 fence.mbarrier_init.release.cluster;
BEFORE:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  mov.u32 %r10, 0;
  @%p2 bra READER;
  @!%p1 bra BEHIND;
WRITER:
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra FREE;
  sub.s32 %r11, %r10, 1;
  and.b32 %r11, %r11, 1;
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p5, [%r5], %r11;
  @!%p5 bra WAIT;
FREE:
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 2048;
  shl.b32 %r12, %r10, 4;
  shl.b32 %r13, %r2, 3;
  add.s32 %r12, %r12, %r13;
  shl.b32 %r14, %r2, 10;
  add.s32 %r14, %r3, %r14;
  mov.u16 %rs1, 3;
  COPY [%r14], [%rd4, {0, %r12}], [%r4], %rs1;
  add.s32 %r10, %r10, 1;
  setp.lt.u32 %p6, %r10, 4;
  @%p6 bra WRITER;
  bra BEHIND;
READER:
  shl.b32 %r15, %r6, 4;
  add.s32 %r16, %r3, %r15;
  mov.u32 %r17, %ctaid.x;
  shl.b32 %r18, %r17, 13;
  add.s32 %r18, %r18, %r15;
  cvt.u64.u32 %rd5, %r18;
  add.s64 %rd6, %rd2, %rd5;
  mov.u32 %r20, 0;
  mapa.shared::cluster.u32 %r21, %r5, %r20;
  mov.u32 %r22, 1;
  mapa.shared::cluster.u32 %r23, %r5, %r22;
COME:
  and.b32 %r11, %r10, 1;
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r4], %r11;
  @!%p5 bra FULL;
  ld.shared.v4.u32 {%r30, %r31, %r32, %r33}, [%r16];
  st.global.v4.u32 [%rd6], {%r30, %r31, %r32, %r33};
  ld.shared.v4.u32 {%r30, %r31, %r32, %r33}, [%r16+512];
  st.global.v4.u32 [%rd6+512], {%r30, %r31, %r32, %r33};
  ld.shared.v4.u32 {%r30, %r31, %r32, %r33}, [%r16+1024];
  st.global.v4.u32 [%rd6+1024], {%r30, %r31, %r32, %r33};
  ld.shared.v4.u32 {%r30, %r31, %r32, %r33}, [%r16+1536];
  st.global.v4.u32 [%rd6+1536], {%r30, %r31, %r32, %r33};
  bar.warp.sync -1;
  @%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r21];
  @%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23];
  add.s64 %rd6, %rd6, 2048;
  add.s32 %r10, %r10, 1;
  setp.lt.u32 %p6, %r10, 4;
  @%p6 bra COME;
BEHIND:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
END:
  ret;
}
)";

std::string replaced(std::string text, const std::string& right, const std::string& wrong) {
  const size_t at = text.find(right);
  EXPECT_NE(at, std::string::npos) << right;
  return text.replace(at, right.size(), wrong);
}

constexpr size_t kSumBlocks = 8, kSumThreads = 64;

GpuRun run_sum(const std::string& text, int64_t blocks = kSumBlocks) {
  std::vector<GpuBuffer> buffers(2);
  for (size_t i = 0; i < kSumBlocks * kSumThreads; ++i)
    for (const size_t byte : {i % 256, i / 256, size_t{0}, size_t{0}})
      buffers[0].bytes.push_back(static_cast<unsigned char>(byte));
  buffers[1].bytes.resize(buffers[0].bytes.size());
  buffers[1].is_output = true;
  return run_ptx(parse_ptx(text), {.blocks = blocks, .threads = kSumThreads}, std::move(buffers), {});
}

constexpr size_t kLines = 64, kLineBytes = 128, kRingBlocks = 2;

GpuRun run_ring(const std::string& text) {
  const std::string copy =
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster";
  std::vector<GpuBuffer> buffers(2);
  for (size_t i = 0; i < kLines * kLineBytes; ++i)
    buffers[0].bytes.push_back(static_cast<unsigned char>(i * 7 + i / 256));
  buffers[1].bytes.resize(kRingBlocks * kLines * kLineBytes);
  buffers[1].is_output = true;
  return run_ptx(parse_ptx(replaced(text, "COPY", copy)), {.blocks = kRingBlocks, .threads = 64},
                 std::move(buffers), {},
                 {{.extents = {64, kLines}, .strides = {kLineBytes}, .box = {64, 8}}});
}

template <class Run>
std::string fault_of(const Run& run, const std::string& text) {
  return fault_in([&] { run(text); });
}

TEST(PtxCluster, sums_what_its_blocks_have) {
  const GpuRun result = run_sum(kSum);
  for (size_t i = 0; i < kSumBlocks * kSumThreads; ++i) {
    const size_t first = i / (4 * kSumThreads) * 4 * kSumThreads + i % kSumThreads;
    const size_t sum = 4 * first + (1 + 2 + 3) * kSumThreads;
    EXPECT_EQ(result.buffers[1].bytes[4 * i] + 256 * result.buffers[1].bytes[4 * i + 1], int(sum)) << i;
  }
  EXPECT_EQ(result.remote_loads, int64_t{kSumBlocks * kSumThreads * 3});
}

// Chunk c of line l lies where chunk c ^ l would.
TEST(PtxCluster, boxes_come_to_all_of_its_blocks) {
  const GpuRun result = run_ring(kRing);
  for (size_t block = 0; block < kRingBlocks; ++block) {
    for (size_t line = 0; line < kLines; ++line) {
      for (size_t byte = 0; byte < kLineBytes; ++byte) {
        const size_t at = (block * kLines + line) * kLineBytes + ((byte / 16) ^ (line % 8)) * 16 + byte % 16;
        ASSERT_EQ(result.buffers[1].bytes[at], result.buffers[0].bytes[line * kLineBytes + byte])
            << block << " " << line << " " << byte;
      }
    }
  }
  EXPECT_EQ(result.boxes, 8);
  EXPECT_EQ(result.multicast_boxes, 8);
  EXPECT_EQ(result.buffers[0].sectors, int64_t{kLines * kLineBytes / 32});
}

// Also of a kernel that says nothing of clusters; an address that is not mapped is the block's own.
TEST(PtxCluster, may_be_of_one_block) {
  const std::string alone = replaced(kSum, ".explicitcluster\n.reqnctapercluster 4, 1, 1\n", "");
  const GpuRun result = run_sum(replaced(alone, "%r10, 4;", "%r10, 1;"));
  EXPECT_EQ(result.buffers[1].bytes, result.buffers[0].bytes);
  EXPECT_EQ(result.remote_loads, 0);
  EXPECT_EQ(run_sum(replaced(kSum, "b32 %r12, [%r11]", "b32 %r12, [%r6]")).remote_loads, 0);
}

TEST(PtxCluster, boxes_may_come_before_they_are_expected) {
  const std::string late = replaced(replaced(kRing, EXPECT_BYTES("2048"), ""), "  add.s32 %r10, %r10, 1;\n",
                                    EXPECT_BYTES("2048") "  add.s32 %r10, %r10, 1;\n");
  EXPECT_EQ(run_ring(late).buffers[1].bytes, run_ring(kRing).buffers[1].bytes);
}

// ---------------------------------------------------------------- planted bugs
class PlantedInCluster : public testing::TestWithParam<Planted> {};
class PlantedInRing : public testing::TestWithParam<Planted> {};

TEST_P(PlantedInCluster, is_found) {
  const auto run = [](const std::string& text) { return run_sum(text); };
  EXPECT_THAT(fault_of(run, replaced(kSum, GetParam().right, GetParam().wrong)),
              HasSubstr(GetParam().report));
}

TEST_P(PlantedInRing, is_found) {
  EXPECT_THAT(fault_of(run_ring, replaced(kRing, GetParam().right, GetParam().wrong)),
              HasSubstr(GetParam().report));
}

#define LOAD "  ld.shared::cluster.b32 %r12, [%r11];\n"
#define BEGIN_SUM "  mov.u32 %r9, 0;\n"
#define WRITE_AGAIN "  st.shared.u32 [%r6], %r9;\n"

const Planted kPlanted[] = {
    {"no_bug", MEET, MEET, "no fault"},
    {"no_meeting_before_a_load", "BEFORE:\n" MEET, "", "race: a load at block 1 before its cluster has met"},
    {"meeting_of_the_block_only", "BEFORE:\n" MEET, "  bar.sync 0;\n",
     "race: a load at block 1 before its cluster has met"},
    {"written_before_others_read", BEGIN_SUM, BEGIN_SUM "  @%p6 st.shared.u32 [%r6], %r9;\n",
     "race: a thread of another block reads what thread 0 writes"},
    {"written_before_a_barrier_of_the_block", BEGIN_SUM,
     BEGIN_SUM "  @%p6 st.shared.u32 [%r6], %r9;\n  bar.sync 0;\n",
     "race: a thread of another block reads what thread 0 writes"},
    {"written_before_a_meeting", BEGIN_SUM, BEGIN_SUM WRITE_AGAIN MEET, "no fault"},
    {"written_behind_what_others_read", "BEHIND:\n", "  @%p2 st.shared.u32 [%r6], %r9;\n",
     "race: what warp 0 of another block reads is written"},
    {"written_behind_a_barrier_of_the_block", "BEHIND:\n",
     "  bar.sync 0;\n  @%p2 st.shared.u32 [%r6], %r9;\n",
     "race: what warp 0 of another block reads is written"},
    {"copy_over_what_others_read", "BEHIND:\n",
     "  and.b32 %r13, %r6, -16;\n  @%p2 cp.async.cg.shared.global [%r13], [%rd1], 16;\n",
     "race: what warp 0 of another block reads is written"},
    {"load_of_what_a_copy_is_under_way_to", "  st.shared.u32 [%r6], %r8;\n",
     "  @!%p5 st.shared.u32 [%r6], %r8;\n  shl.b32 %r13, %r1, 4;\n  add.s32 %r13, %r13, %r4;\n"
     "  setp.lt.u32 %p7, %r1, 16;\n  and.pred %p7, %p7, %p5;\n"
     "  @%p7 cp.async.cg.shared.global [%r13], [%rd1], 16;\n",
     "race: a thread of another block reads where a copy is under way to"},
    {"what_a_thread_wrote_that_has_ended", "BEFORE:\n", "  @%p3 ret;\n  add.s32 %r6, %r6, 128;\n",
     "race: a thread reads what thread 32 writes"},
    {"block_that_has_ended", "BEHIND:\n", "  bra END;\n", "a load at block 0, which has ended"},
    {"block_that_ends_while_others_read", "BEHIND:\n", "  @%p2 bra END;\n",
     "block 3 ends, and nobody has said that a load of warp 0 of its cluster is done there"},
    {"block_that_is_not_at_a_last_meeting", WRITE_AGAIN, "  @%p2 bra END;\n" MEET, "no fault"},
    {"threads_that_have_ended", "BEHIND:\n", "  @%p4 ret;\n", "no fault"},
    {"load_outside", LOAD, "  ld.shared::cluster.b32 %r12, [%r11+256];\n", "outside the shared memory"},
    {"load_that_is_not_aligned", LOAD, "  ld.shared::cluster.b32 %r12, [%r11+2];\n", "not aligned"},
    {"load_of_what_nobody_wrote", "  st.shared", "  @!%p5 st.shared",
     "reads shared memory of another block that nobody wrote"},
    {"block_that_is_not_there", "%r10, 4;", "%r10, 5;", "there is no block 4 in a cluster of 4"},
    {"address_that_is_mapped_already", LOAD, "  mapa.shared::cluster.u32 %r11, %r11, %r10;\n" LOAD,
     "an address that is not of the block's shared memory"},
    {"address_of_no_block", LOAD, "  add.s32 %r11, %r11, 67108864;\n" LOAD,
     "an address of no block of the cluster"},
    {"store_to_another_block", LOAD, "  st.shared::cluster.b32 [%r11], %r9;\n" LOAD,
     "memory of another block is written, which is not modelled"},
    {"sum_in_another_block", LOAD, "  atom.shared::cluster.add.u32 %r12, [%r11], %r9;\n",
     "memory of another block is written, which is not modelled"},
    {"older_device", "sm_90a", "sm_80", "is of sm_90 and newer"},
    {"instruction_of_an_older_device",
     "sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n.maxntid "
     "64\n.explicitcluster\n.reqnctapercluster 4, 1, 1\n",
     "sm_80\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n", "is of sm_90 and newer"},
    {"too_many_blocks", "cluster 4, 1, 1", "cluster 16, 1, 1",
     "a cluster of 16 blocks, and a device takes at most 8"},
    {"grid_that_is_no_multiple", "cluster 4, 1, 1", "cluster 3, 1, 1",
     "a cluster of 3 blocks in a grid of 8"},
    {"cluster_of_two_dimensions", "cluster 4, 1, 1", "cluster 2, 2, 1", "not understood"},
    {"register_that_is_not_known", "%cluster_ctarank", "%cluster_nctarank", "an unknown register"},
    {"threads_that_part", "BEFORE:\n" MEET, "  @%p4 bra PART;\n" MEET "PART:\n",
     "is reached by 31 of 32 lanes"},
    {"threads_that_do_not_arrive", "  barrier.cluster.arrive", "  @!%p4 barrier.cluster.arrive",
     "is reached by 31 of 32 lanes"},
    {"warp_at_another_barrier", "BEHIND:\n", "  @!%p3 bra BEHIND;\n  bar.sync 0;\nBEHIND:\n",
     "for its cluster; warp 1 waits at a barrier of the block; block 1: no warp can go on"},
    {"something_between_arrival_and_wait", "aligned;\n", "aligned;\n  mov.u32 %r13, 0;\n",
     "that are not directly one behind the other are not modelled"},
    {"wait_without_an_arrival", "  barrier.cluster.arrive.release.aligned;\n", "",
     "that are not directly one behind the other are not modelled"},
    {"branch_to_a_wait", "BEFORE:\n  barrier.cluster.arrive.release.aligned;\n",
     "  @%p4 bra BEFORE;\n  barrier.cluster.arrive.release.aligned;\nBEFORE:\n",
     "a branch between barrier.cluster.arrive and .wait is not modelled"},
};
INSTANTIATE_TEST_SUITE_P(Ptx, PlantedInCluster, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

#define BEGIN_SECOND "  @%p1 mbarrier.init.shared::cta.b64 [%r5], 2;\n"
#define SHOW "  @%p1 fence.mbarrier_init.release.cluster;\n"
#define ARRIVE(at) "  @%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [" at "];\n"
#define TILE_OF_OTHER                                                      \
  "  xor.b32 %r26, %r2, 1;\n  mapa.shared::cluster.u32 %r24, %r3, %r26;\n" \
  "  ld.shared::cluster.b32 %r25, [%r24];\n"

// A store of warp 1 of block 1.
#define STORE_IN_SECOND(place)                                                \
  "  shl.b32 %r24, %r6, 4;\n  add.s32 %r24, %r24, %r3;\n  @%p7 bra BEFORE;\n" \
  "  @%p2 st.shared.u32 [" place "], %r1;\nBEFORE:\n"
#define SHOW_STORES "  fence.proxy.async;\n"

const Planted kPlantedInRing[] = {
    {"no_bug", MEET, MEET, "no fault"},
    {"no_meeting_before_a_box", "BEFORE:\n" MEET, "  bar.sync 0;\n",
     "race: a box at block 1 before its cluster has met"},
    {"barrier_that_others_were_not_shown", BEGIN_SECOND SHOW, SHOW BEGIN_SECOND,
     "is used by another block without fence.mbarrier_init behind its begin"},
    {"barrier_that_is_shown_late", SHOW "BEFORE:\n" MEET, MEET SHOW "  bar.sync 0;\n",
     "is used by another block without fence.mbarrier_init behind its begin"},
    {"barrier_that_is_begun_late", BEGIN_SECOND SHOW "BEFORE:\n" MEET,
     SHOW MEET BEGIN_SECOND SHOW "  bar.sync 0;\n", "is used while thread 64 begins it"},
    {"more_arrivals_than_come", "[%r5], 2;", "[%r5], 3;", "1 of 3 arrivals and 0 bytes are missing"},
    {"arrival_at_one_block_only", ARRIVE("%r23"), "",
     "block 1: no warp can go on; warp 0 waits at PTX line 40 for the barrier at byte 2056, phase 0, where 2 "
     "of 2 "
     "arrivals and 0 bytes are missing"},
    {"less_bytes_than_come", EXPECT_BYTES("2048"), EXPECT_BYTES("1536"),
     "counts 512 bytes more than were expected"},
    {"bytes_of_one_box", EXPECT_BYTES("2048"), EXPECT_BYTES("1024"),
     "race: a thread reads where a copy is under way to"},
    {"more_bytes_than_come", EXPECT_BYTES("2048"), EXPECT_BYTES("3072"),
     "0 of 1 arrivals and 1024 bytes are missing"},
    {"box_over_what_was_not_shown", "BEFORE:\n", STORE_IN_SECOND("%r24"),
     "a box goes over what thread 96 wrote without a fence of the async proxy"},
    {"box_over_what_was_shown", "BEFORE:\n", STORE_IN_SECOND("%r24") SHOW_STORES, "no fault"},
    {"mask_of_no_block", "%rs1, 3;", "%rs1, 0;", "to blocks of the mask 0, of a cluster of 2"},
    {"mask_of_a_block_that_is_not_there", "%rs1, 3;", "%rs1, 5;",
     "to blocks of the mask 5, of a cluster of 2"},
    {"mask_of_one_block", "%rs1, 3;", "%rs1, 2;", "0 of 1 arrivals and 2048 bytes are missing"},
    {"both_boxes_to_one_place", "shl.b32 %r14, %r2, 10;", "mov.u32 %r14, 0;",
     "race: a box comes where a copy is under way to"},
    {"wait_in_the_scope_of_a_block", "try_wait.parity.acquire.cluster.", "try_wait.parity.",
     "a wait in the scope of a block for arrivals of another one"},
    {"arrival_at_a_block_that_has_ended", "BEHIND:\n" MEET, "BEHIND:\n",
     "an arrival at block 0, which has ended"},
    {"block_that_ends_before_an_arrival_is_seen", "BEHIND:\n", "BEHIND:\n  @!%p7 bra END;\n",
     "block 1 ends, and nobody has said that an arrival of warp 1 of its cluster is done there"},
    {"box_to_a_block_that_has_ended", "  mov.u32 %r10, 0;\n", "  mov.u32 %r10, 0;\n  @%p7 bra END;\n",
     "a box at block 0, which has ended"},
    {"block_that_ends_while_a_box_is_under_way", "  mov.u32 %r10, 0;\n",
     "  mov.u32 %r10, 0;\n  @!%p7 bra END;\n", "a block ends while a box is under way"},
    {"box_that_one_block_does_not_wait_for", "  @%p6 bra COME;\n",
     "  @!%p7 bra MORE;\n  setp.lt.u32 %p6, %r10, 3;\nMORE:\n  @%p6 bra COME;\n",
     "a block ends while a box is under way"},
    {"arrival_in_the_block_at_another", ARRIVE("%r23"), "  @%p3 mbarrier.arrive.shared::cta.b64 _, [%r23];\n",
     "there is no barrier at byte"},
    {"box_over_what_another_block_reads", "BEFORE:\n" MEET,
     STORE_IN_SECOND("%r24+1024") SHOW_STORES MEET
     "  setp.eq.u32 %p8, %r2, 0;\n  and.pred %p8, %p8, %p2;\n"
     "  mov.u32 %r25, 1;\n  mapa.shared::cluster.u32 %r26, %r24, %r25;\n"
     "  @%p8 ld.shared::cluster.b32 %r27, [%r26+1024];\n",
     "race: what warp 1 of another block reads is written"},
    {"box_in_another_block_without_a_wait", "READER:\n", "READER:\n" TILE_OF_OTHER,
     "where a copy is under way to"},
    {"box_in_another_block_that_it_waits_for", "  add.s64 %rd6, %rd6, 2048;\n",
     TILE_OF_OTHER "  add.s64 %rd6, %rd6, 2048;\n",
     "race: a thread of another block reads where a copy is under way to"},
    {"box_in_another_block_behind_a_meeting", "BEHIND:\n", "BEHIND:\n" MEET TILE_OF_OTHER, "no fault"},
};
INSTANTIATE_TEST_SUITE_P(Ptx, PlantedInRing, testing::ValuesIn(kPlantedInRing),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PtxCluster, who_copies_waits_for_the_readers_of_all_blocks) {
  // Block 1 does not wait for those of block 0.
  const std::string one = replaced(kRing, BEGIN_SECOND,
                                   "  mov.u32 %r24, 2;\n  sub.s32 %r24, %r24, %r2;\n"
                                   "  @%p1 mbarrier.init.shared::cta.b64 [%r5], %r24;\n");
  const std::string other =
      replaced(one, ARRIVE("%r23"),
               "  setp.eq.u32 %p8, %r2, 1;\n  and.pred %p8, %p8, %p3;\n"
               "  @%p8 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23];\n");
  EXPECT_THAT(fault_of(run_ring, other),
              HasSubstr("race: a box comes where warp 1 reads, and nobody has said that it is done"));
  // None waits for those of the other one.
  const std::string own = replaced(kRing, BEGIN_SECOND, "  @%p1 mbarrier.init.shared::cta.b64 [%r5], 1;\n");
  EXPECT_THAT(fault_of(run_ring,
                       replaced(replaced(own, "mov.u32 %r20, 0;", "mov.u32 %r20, %r2;"), ARRIVE("%r23"), "")),
              HasSubstr("race: a box comes where a copy is under way to"));
}

// The second half of the tile of block 0, where its warp 1 reads what it wrote.
TEST(PtxCluster, boxes_do_not_come_to_what_threads_read) {
  const std::string written =
      replaced(kRing, "BEFORE:\n",
               "  shl.b32 %r24, %r6, 4;\n  add.s32 %r24, %r24, %r3;\n  @!%p7 bra BEFORE;\n"
               "  @%p2 st.shared.u32 [%r24+1024], %r1;\nBEFORE:\n  fence.proxy.async;\n");
  EXPECT_EQ(fault_of(run_ring, written), "no fault");
  const std::string read = "  @!%p7 bra ALONE;\n  ld.shared.u32 %r25, [%r24+1024];\nALONE:\n";
  EXPECT_EQ(fault_of(run_ring, replaced(written, "  mov.u32 %r10, 0;\n",
                                        read + "  bar.sync 0;\n" MEET "  mov.u32 %r10, 0;\n")),
            "no fault");
  EXPECT_THAT(fault_of(run_ring, replaced(written, "READER:\n", "READER:\n" + read)),
              HasSubstr("race: a box comes where warp 1 reads, and nobody has said that it is done"));
}

TEST(PtxCluster, who_reads_says_so_behind_it) {
  const std::string silent = replaced(replaced(kRing, ARRIVE("%r21"), ""), ARRIVE("%r23"), "");
  const std::string before =
      replaced(silent, "  @!%p5 bra FULL;\n", "  @!%p5 bra FULL;\n" ARRIVE("%r21") ARRIVE("%r23"));
  EXPECT_THAT(fault_of(run_ring, before),
              HasSubstr("race: a box comes where warp 1 reads, and nobody has said that it is done"));
}

}  // namespace
}  // namespace tilefuse
