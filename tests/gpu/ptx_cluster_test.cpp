// Clusters of blocks in the model of a GPU: what blocks tell each other, and what is wrong with a kernel,
// planted in PTX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gpu/planted.h"
#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

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
  try {
    run(text);
  } catch (const GpuFault& fault) {
    return fault.what();
  } catch (const PtxError& error) {
    return error.what();
  }
  return "no fault";
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

}  // namespace
}  // namespace tilefuse
