// Products of matrices by a warpgroup, four warps together, of what lies in shared memory, while its threads
// go on: "wgmma" of sm_90a. PTX ISA, chapter "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
// Instructions".
//
// An instruction adds the product of 64 x 16 and 16 x kColumns elements of 16 bits to sums in f32 (of other
// numbers: cuda_warpgroup_numbers.h). Warp w of
// the group (its number modulo four) has rows 16 * w to 16 * w + 15, in each lane as mma.sync has them
// (cuda_matrix.h): its first factor, where that comes from registers, and the sums of kColumns / 8 matrices
// of 16 x 8, one after another ("Matrix Fragments for wgmma.mma_async.m64nNk16").
//
// A factor in shared memory is lines of kLineBytes, 16 (no pattern), 32, 64 or 128, of chunks of 16 bytes, of
// which those at the same place in eight lines have changed places: bits 4 to 6 of an address, as many as a
// line has, are what they would be, exclusive or bits 7 to 9. The first line is at a multiple of eight lines
// ("Shared Memory Matrix Layout", "Canonical Layouts"). Along k, a line is a row, and eight rows are `stride`
// bytes from the next eight; without a pattern the second chunk of all rows is `leading` bytes from the
// first. Turned, a line is a step of k and as many rows as fill it; then eight steps are `stride` bytes from
// the next eight, and its rows `leading` bytes from those that follow; without a pattern it is the other way
// round.
//
// All threads of the group take part in each of these functions, in this order:
//
//   show_to_products()      products behind a barrier behind this see what the thread wrote to shared memory
//   settle(sums)            what was computed of sums, or of factors in registers, is; no compiler moves it
//   begin_products()        and it is over
//   multiply_group<...>()   as often as wanted, on the same sums or others
//   commit_products()       these are a group of products
//   wait_for_products<n>()  but for the last n groups all are done
//   settle(sums)            sums, and factors in registers, may be touched again
#pragma once
#include "cuda_matrix.h"

namespace tile {

enum : int { kGroupWarps = 4, kGroupRows = 64 };

TILE_INLINE void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
TILE_INLINE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TILE_INLINE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroupsLeft>
TILE_INLINE void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsLeft) : "memory");
}

template <int kCount>
TILE_INLINE void settle(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount>
TILE_INLINE void settle(int (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}
TILE_INLINE void settle(unsigned (&values)[4]) {
  asm volatile("" : "+r"(values[0]), "+r"(values[1]), "+r"(values[2]), "+r"(values[3])::"memory");
}

// "Matrix Descriptor Format"; of a pattern that begins at a multiple of its eight lines.
template <int kLineBytes>
TILE_INLINE uint64_t shared_matrix(unsigned from, int leading, int stride) {
  static_assert(kLineBytes == 16 || kLineBytes == 32 || kLineBytes == 64 || kLineBytes == 128);
  const uint64_t pattern = kLineBytes == 128 ? 1 : kLineBytes == 64 ? 2 : kLineBytes == 32 ? 3 : 0;
  return (uint64_t)(from >> 4 & 0x3fff) | (uint64_t)(leading >> 4 & 0x3fff) << 16 |
         (uint64_t)(stride >> 4 & 0x3fff) << 32 | pattern << 62;
}

#define TILE_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TILE_NAMES_16 TILE_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TILE_NAMES_32 \
  TILE_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TILE_NAMES_64                                                                \
  TILE_NAMES_32                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TILE_NAMES_128                                                                           \
  TILE_NAMES_64                                                                                  \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"             \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TILE_FROM_SHARED_8 "%8, %9, 1, 1, 1, %10, %11;"
#define TILE_FROM_SHARED_16 "%16, %17, 1, 1, 1, %18, %19;"
#define TILE_FROM_SHARED_32 "%32, %33, 1, 1, 1, %34, %35;"
#define TILE_FROM_SHARED_64 "%64, %65, 1, 1, 1, %66, %67;"
#define TILE_FROM_SHARED_128 "%128, %129, 1, 1, 1, %130, %131;"
#define TILE_FROM_REGISTERS_8 "{%8, %9, %10, %11}, %12, 1, 1, 1, %13;"
#define TILE_FROM_REGISTERS_16 "{%16, %17, %18, %19}, %20, 1, 1, 1, %21;"
#define TILE_FROM_REGISTERS_32 "{%32, %33, %34, %35}, %36, 1, 1, 1, %37;"
#define TILE_FROM_REGISTERS_64 "{%64, %65, %66, %67}, %68, 1, 1, 1, %69;"
#define TILE_FROM_REGISTERS_128 "{%128, %129, %130, %131}, %132, 1, 1, 1, %133;"
#define TILE_SUMS_4(letter, i) \
  "+" letter(sums[i]), "+" letter(sums[i + 1]), "+" letter(sums[i + 2]), "+" letter(sums[i + 3])
#define TILE_SUMS_8(letter, i) TILE_SUMS_4(letter, i), TILE_SUMS_4(letter, i + 4)
#define TILE_SUMS_16(letter, i) TILE_SUMS_8(letter, i), TILE_SUMS_8(letter, i + 8)
#define TILE_SUMS_32(letter, i) TILE_SUMS_16(letter, i), TILE_SUMS_16(letter, i + 16)
#define TILE_SUMS_64(letter, i) TILE_SUMS_32(letter, i), TILE_SUMS_32(letter, i + 32)
#define TILE_SUMS_128(letter, i) TILE_SUMS_64(letter, i), TILE_SUMS_64(letter, i + 64)

// The operands are `count` sums of a thread, then the factors, then whether those in shared memory are
// turned.
#define TILE_GROUP_PRODUCT(columns, count, types, from, ...)                                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types " {" TILE_NAMES_##count \
               "}, " TILE_##from##_##count                                                          \
               : TILE_SUMS_##count("f", 0)                                                          \
               : __VA_ARGS__)
#define TILE_GROUP_COLUMNS(columns, count, from, ...)                    \
  if constexpr (kColumns == columns && Same<E, bf16>::kValue) {          \
    TILE_GROUP_PRODUCT(#columns, count, "bf16.bf16", from, __VA_ARGS__); \
  } else if constexpr (kColumns == columns) {                            \
    TILE_GROUP_PRODUCT(#columns, count, "f16.f16", from, __VA_ARGS__);   \
  }
#define TILE_GROUP_PRODUCTS(from, ...)           \
  TILE_GROUP_COLUMNS(16, 8, from, __VA_ARGS__)   \
  TILE_GROUP_COLUMNS(32, 16, from, __VA_ARGS__)  \
  TILE_GROUP_COLUMNS(64, 32, from, __VA_ARGS__)  \
  TILE_GROUP_COLUMNS(128, 64, from, __VA_ARGS__) \
  TILE_GROUP_COLUMNS(256, 128, from, __VA_ARGS__)

// sums += first * second; kColumns / 2 of them, of a thread.
template <class E, int kColumns, bool kTurnsFirst, bool kTurnsSecond>
TILE_INLINE void multiply_group(float* sums, uint64_t first, uint64_t second) {
  static_assert(kColumns >= 16 && kColumns <= 256 && (kColumns & kColumns - 1) == 0);
  TILE_GROUP_PRODUCTS(FROM_SHARED, "l"(first), "l"(second), "n"((int)kTurnsFirst), "n"((int)kTurnsSecond))
}
template <class E, int kColumns, bool kTurnsSecond>
TILE_INLINE void multiply_group(float* sums, const unsigned (&first)[4], uint64_t second) {
  static_assert(kColumns >= 16 && kColumns <= 256 && (kColumns & kColumns - 1) == 0);
  TILE_GROUP_PRODUCTS(FROM_REGISTERS, "r"(first[0]), "r"(first[1]), "r"(first[2]), "r"(first[3]), "l"(second),
                      "n"((int)kTurnsSecond))
}

}  // namespace tile
