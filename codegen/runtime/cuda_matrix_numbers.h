// What matrix instructions multiply: 32 bytes of k at a time, of any type. With elements of 16 bits that is
// cuda_matrix.h; here, elements of 8 bits, and floats as tf32, lie in the same bytes of the same registers:
//
//   a, 16 x 32 bytes, four registers, of bytes 4 * t to 4 * t + 3 of row g and of row g + 8, then of those 16
//      bytes further along k; b, 32 bytes x 8, two registers, of column g, the second one 16 bytes further
//   "Matrix Fragments for mma.m16n8k32", "... mma.m16n8k8" of tf32
//
// so that ldmatrix loads what lies along k of any type. What lies along the rows is turned by it for elements
// of 16 bits only: others are loaded one by one.
#pragma once
#include "cuda_matrix.h"

namespace tile {

// E in the memory of the block: bf16, f16; float, multiplied as tf32; char types, f8e4m3fn, f8e5m2.
template <class E>
struct Multiplied {
  enum : int {
    kInChunk = 16 / (int)sizeof(E),
    kDepth = 32 / (int)sizeof(E),  // of an instruction
  };
};

// ------------------------------------------------------------------ elements of eight bits
template <class T>
struct As {};

// sums += a * b; of floats, of sm_89 and newer.
#define TILE_BYTE_PRODUCT(A, B, Sum, letter, types)                                            \
  TILE_INLINE void multiply_bytes(As<A>, As<B>, Sum* sums, const unsigned(&a)[4], unsigned b0, \
                                  unsigned b1) {                                               \
    asm("mma.sync.aligned.m16n8k32.row.col." types                                             \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                     \
        : "+" letter(sums[0]), "+" letter(sums[1]), "+" letter(sums[2]), "+" letter(sums[3])   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
  }
TILE_BYTE_PRODUCT(signed char, signed char, int, "r", "s32.s8.s8.s32")
TILE_BYTE_PRODUCT(signed char, unsigned char, int, "r", "s32.s8.u8.s32")
TILE_BYTE_PRODUCT(unsigned char, signed char, int, "r", "s32.u8.s8.s32")
TILE_BYTE_PRODUCT(unsigned char, unsigned char, int, "r", "s32.u8.u8.s32")
TILE_BYTE_PRODUCT(f8e4m3fn, f8e4m3fn, float, "f", "f32.e4m3.e4m3.f32")
TILE_BYTE_PRODUCT(f8e4m3fn, f8e5m2, float, "f", "f32.e4m3.e5m2.f32")
TILE_BYTE_PRODUCT(f8e5m2, f8e4m3fn, float, "f", "f32.e5m2.e4m3.f32")
TILE_BYTE_PRODUCT(f8e5m2, f8e5m2, float, "f", "f32.e5m2.e5m2.f32")

// ------------------------------------------------------------------ fragments
// 16 rows along 32 bytes of k. `rest`: what floats lose as tf32, where three products are made of each.
struct Fragment {
  unsigned whole[4], rest[4];
};

// A float as the sum of two with 11 bits each, but for the last of its 24 bits: the whole is rounded, or cut
// off where that would be an infinity, and the rest is cut off. An infinity is the rest of a one: as a whole,
// it would meet rests of zero, or of the other sign.
TILE_INLINE void take_apart(unsigned x, unsigned& whole, unsigned& rest) {
  constexpr unsigned kTf32 = 0xffffe000u, kHalfOfLast = 0x1000u, kOneOfInfinity = 0xbf800000u;
  const float number = __uint_as_float(x), magnitude = fabsf(number);
  whole = magnitude < __uint_as_float(0x7f7ff000u) ? x + kHalfOfLast : x;
  whole &= magnitude == __uint_as_float(0x7f800000u) ? kOneOfInfinity : kTf32;
  rest = __float_as_uint(number - __uint_as_float(whole)) & kTf32;
}

// Behind the load: floats become tf32.
template <class E, int kTerms>
TILE_INLINE void make_ready(Fragment& fragment) {
  if constexpr (Same<E, float>::kValue) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kTerms == 3) {
        take_apart(fragment.whole[i], fragment.whole[i], fragment.rest[i]);
      } else {
        fragment.whole[i] = rounded_to_tf32(__uint_as_float(fragment.whole[i]));
      }
    }
  }
}

// sums += a * b, of which b is the first or second half of its columns. Of three products the small ones come
// first, and what they are is added by the thread, to nearest: tensor cores cut off what a sum has no bits
// for, which adds up along k.
template <class E, class A, class B, int kTerms, class Sum>
TILE_INLINE void multiply_fragments(Sum* sums, const Fragment& a, const Fragment& b, int half) {
  const unsigned *whole = b.whole + half * 2, *rest = b.rest + half * 2;
  if constexpr (sizeof(E) == 1) {
    multiply_bytes(As<A>(), As<B>(), sums, a.whole, whole[0], whole[1]);
  } else if constexpr (sizeof(E) == 4) {
    if constexpr (kTerms == 3) {
      float products[4] = {};
      multiply_tf32(products, a.rest, whole[0], whole[1]);
      multiply_tf32(products, a.whole, rest[0], rest[1]);
      multiply_tf32(products, a.whole, whole[0], whole[1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += products[i];
    } else {
      multiply_tf32(sums, a.whole, whole[0], whole[1]);
    }
  } else {
    multiply_matrices<E>(sums, a.whole, whole[0], whole[1]);
  }
}

}  // namespace tile
