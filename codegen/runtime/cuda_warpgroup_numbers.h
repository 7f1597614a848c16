// Products of warpgroups (cuda_warpgroup.h) of numbers that are not of 16 bits: of eight bits, and of floats
// that were rounded to tf32. An instruction has 32 bytes of k, which lie in shared memory as 16 elements of
// 16 bits do; both factors lie along k, as these instructions turn nothing.
//
// Sums of floats of eight bits are kept in about 14 bits within the instructions of Hopper (DeepSeek-V3
// Technical Report, section 3.3.2), so that few of them are added there (cuda_group_product.h).
#pragma once
#include "cuda_matrix_numbers.h"
#include "cuda_warpgroup.h"

namespace tile {

#define TILE_NUMBERS_8 "%8, %9, %10"
#define TILE_NUMBERS_16 "%16, %17, %18"
#define TILE_NUMBERS_32 "%32, %33, %34"
#define TILE_NUMBERS_64 "%64, %65, %66"
#define TILE_NUMBERS_128 "%128, %129, %130"

#define TILE_NUMBERS_COLUMNS(columns, count, letter, form, signs)                          \
  if constexpr (kColumns == columns) {                                                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns form " {" TILE_NAMES_##count \
                 "}, " TILE_NUMBERS_##count signs ";"                                      \
                 : TILE_SUMS_##count(letter, 0)                                            \
                 : "l"(first), "l"(second), "n"((int)kAdds));                              \
  }
// sums += first * second, or sums = first * second; kColumns / 2 of them, of a thread. Integers have no
// signs, and 256 columns as CUTLASS has them: the manual's list ends before.
#define TILE_GROUP_NUMBERS(A, B, Sum, letter, form, signs)                                       \
  template <int kColumns, bool kAdds>                                                            \
  TILE_INLINE void multiply_group_of(As<A>, As<B>, Sum* sums, uint64_t first, uint64_t second) { \
    static_assert(kColumns >= 16 && kColumns <= 256 && (kColumns & kColumns - 1) == 0);          \
    TILE_NUMBERS_COLUMNS(16, 8, letter, form, signs)                                             \
    TILE_NUMBERS_COLUMNS(32, 16, letter, form, signs)                                            \
    TILE_NUMBERS_COLUMNS(64, 32, letter, form, signs)                                            \
    TILE_NUMBERS_COLUMNS(128, 64, letter, form, signs)                                           \
    TILE_NUMBERS_COLUMNS(256, 128, letter, form, signs)                                          \
  }
TILE_GROUP_NUMBERS(float, float, float, "f", "k8.f32.tf32.tf32", ", 1, 1")
TILE_GROUP_NUMBERS(signed char, signed char, int, "r", "k32.s32.s8.s8", "")
TILE_GROUP_NUMBERS(signed char, unsigned char, int, "r", "k32.s32.s8.u8", "")
TILE_GROUP_NUMBERS(unsigned char, signed char, int, "r", "k32.s32.u8.s8", "")
TILE_GROUP_NUMBERS(unsigned char, unsigned char, int, "r", "k32.s32.u8.u8", "")
TILE_GROUP_NUMBERS(f8e4m3fn, f8e4m3fn, float, "f", "k32.f32.e4m3.e4m3", ", 1, 1")
TILE_GROUP_NUMBERS(f8e4m3fn, f8e5m2, float, "f", "k32.f32.e4m3.e5m2", ", 1, 1")
TILE_GROUP_NUMBERS(f8e5m2, f8e4m3fn, float, "f", "k32.f32.e5m2.e4m3", ", 1, 1")
TILE_GROUP_NUMBERS(f8e5m2, f8e5m2, float, "f", "k32.f32.e5m2.e5m2", ", 1, 1")

}  // namespace tile
