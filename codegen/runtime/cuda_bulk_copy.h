// Copies of boxes of a matrix that the machine makes by itself ("cp.async.bulk.tensor" of sm_90), and
// barriers in shared memory that count what has arrived ("mbarrier"). PTX ISA, chapters "Tensors" and
// "mbarrier".
//
// A tensor map says where a matrix of two or three dimensions is and which boxes are copied of it. What a box
// has outside the matrix is zeros. A box has lines of 128 bytes, of which chunks have changed places as
// products of warpgroups read them (cuda_warpgroup.h); it begins at a multiple of eight lines.
//
// A barrier is 8 bytes. Its phases end one after another, each when as many threads have arrived as it was
// begun with and as many bytes as they said are there. The first phase has parity 0, the next one 1.
//
//   begin_barrier(barrier, arrivals)      by one thread; then show_barriers(), and all meet
//   expect_bytes(barrier, bytes)          arrives, and lets the phase wait for so many bytes of copies
//   copy_box(to, map, x, y, barrier)      x along the lines; arrives in that phase
//   copy_box_to(blocks, to, map, x, y, barrier)   to the same place in the blocks of a cluster of which
//   `blocks`
//                                         has a bit, and in the phase of the barrier at the same place there
//   arrive(barrier)                       what the thread has done before is behind it for those who wait
//   wait_for_phase(barrier, parity)       until the phase of that parity, the last one or this one, has ended
//   wait_for_cluster(barrier, parity)     the same, where other blocks arrive
#pragma once
#include "cuda_cluster.h"

namespace tile {

struct alignas(64) TensorMap {  // 128 bytes that the driver writes; a parameter of a kernel
  uint64_t words[16];
};

TILE_INLINE void begin_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
TILE_INLINE void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TILE_INLINE void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
TILE_INLINE void expect_bytes(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
TILE_INLINE void wait_for_phase(unsigned barrier, int parity) {
  unsigned has_ended;
  do {
    asm volatile(
        "{\n.reg .pred %%ended;\nmbarrier.try_wait.parity.shared::cta.b64 %%ended, [%1], %2;\n"
        "selp.b32 %0, 1, 0, %%ended;\n}"
        : "=r"(has_ended)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!has_ended);
}

TILE_INLINE void wait_for_cluster(unsigned barrier, int parity) {
  unsigned has_ended;
  do {
    asm volatile(
        "{\n.reg .pred %%ended;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%ended, [%1], "
        "%2;\n"
        "selp.b32 %0, 1, 0, %%ended;\n}"
        : "=r"(has_ended)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!has_ended);
}

TILE_INLINE void copy_box(unsigned to, const TensorMap& map, int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
TILE_INLINE void copy_box(unsigned to, const TensorMap& map, int x, int y, int z, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4}], [%5];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

#define TILE_COPY_TO \
  "shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {"
TILE_INLINE void copy_box_to(unsigned short blocks, unsigned to, const TensorMap& map, int x, int y,
                             unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.2d." TILE_COPY_TO "%2, %3}], [%4], %5;" ::"r"(to), "l"(&map), "r"(x),
               "r"(y), "r"(barrier), "h"(blocks)
               : "memory");
}
TILE_INLINE void copy_box_to(unsigned short blocks, unsigned to, const TensorMap& map, int x, int y, int z,
                             unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.3d." TILE_COPY_TO "%2, %3, %4}], [%5], %6;" ::"r"(to), "l"(&map), "r"(x),
               "r"(y), "r"(z), "r"(barrier), "h"(blocks)
               : "memory");
}

// All warps of a warpgroup; of a kernel that is compiled for a number of threads. What one warpgroup leaves,
// another one can take: 64 Ki registers are those of all.
template <int kRegisters>
TILE_INLINE void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
TILE_INLINE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// The thread does nothing more.
TILE_INLINE void end_thread() {
  asm volatile("exit;");
  __builtin_unreachable();
}

}  // namespace tile
