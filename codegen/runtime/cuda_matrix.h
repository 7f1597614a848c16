// Products of small matrices on tensor cores, in the registers of a warp, and what brings them there.
//
// Names and layouts are those of the PTX ISA, chapter "Warp-level Matrix Instructions". With g = lane / 4 and
// t = lane % 4, a lane holds of
//
//   a, 16 x 16 (m x k), four registers of two elements, neighbours along k from 2 * t on:
//      (g, 2t) (g + 8, 2t) (g, 2t + 8) (g + 8, 2t + 8)            "Matrix Fragments for mma.m16n8k16"
//   b, 16 x 8 (k x n), two registers of two elements, neighbours along k:   (2t, g) (2t + 8, g)
//   the sums, 16 x 8 (m x n), four floats:   (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1)
//   tf32, "Matrix Fragments for mma.m16n8k8": one element in each,
//      a, 16 x 8:   (g, t) (g + 8, t) (g, t + 4) (g + 8, t + 4);      b, 8 x 8:   (t, g) (t + 4, g)
//
// load_matrices ("ldmatrix") takes four matrices of 8 x 8 elements of 16 bits. Lane 8 * i + r says where row
// r of matrix i is, 16 bytes at a multiple of 16; of each a lane receives (g, 2t) and (g, 2t + 1), of one
// that is turned (2t, g) and (2t + 1, g).
#pragma once
#include "cuda_threads.h"

namespace tile {

TILE_INLINE unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

TILE_INLINE void load_matrices(unsigned (&to)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
TILE_INLINE void load_matrices_turned(unsigned (&to)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// sums += a * b.
#define TILE_MATRIX_PRODUCT(name, shape)                                                                 \
  TILE_INLINE void name(float* sums, const unsigned(&a)[4], unsigned b0, unsigned b1) {                  \
    asm("mma.sync.aligned." shape ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                 \
  }
TILE_MATRIX_PRODUCT(multiply_bf16, "m16n8k16.row.col.f32.bf16.bf16")
TILE_MATRIX_PRODUCT(multiply_f16, "m16n8k16.row.col.f32.f16.f16")
TILE_MATRIX_PRODUCT(multiply_tf32, "m16n8k8.row.col.f32.tf32.tf32")

template <class T>
TILE_INLINE void multiply_matrices(float* sums, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (Same<T, bf16>::kValue) {
    multiply_bf16(sums, a, b0, b1);
  } else {
    multiply_f16(sums, a, b0, b1);
  }
}

// Two floats in one register, rounded, the first one in the lower half.
template <class T>
TILE_INLINE unsigned narrowed_pair(float low, float high) {
  unsigned result;
  if constexpr (Same<T, bf16>::kValue) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  }
  return result;
}

// A float with the 19 highest bits of x, rounded: what multiply_tf32 takes.
TILE_INLINE unsigned rounded_to_tf32(float x) {
  unsigned result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
  return result;
}

TILE_INLINE unsigned load_word(unsigned from) {
  unsigned result;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(result) : "r"(from) : "memory");
  return result;
}

// 16 bytes of registers to shared memory at once: left to itself, the compiler cuts some such stores in four.
TILE_INLINE void store_chunk(unsigned to, uint4 chunk) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(chunk.x), "r"(chunk.y), "r"(chunk.z),
               "r"(chunk.w)
               : "memory");
}

// 16 bytes from global to shared memory, the first `bytes` of them, the rest zeros; they are there once the
// thread has waited for their group, and for other threads behind a barrier after that ("cp.async").
TILE_INLINE void begin_copy(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
               "r"(bytes)
               : "memory");
}
TILE_INLINE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroupsLeft>
TILE_INLINE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

}  // namespace tile
