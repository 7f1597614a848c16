// Pieces of floats for products of warpgroups, which take from shared memory what they multiply: floats that
// threads have rounded to tf32, or taken apart into two such numbers (cuda_matrix_numbers.h). They go through
// registers on their way.
#pragma once
#include "cuda_product.h"

namespace tile {

// Of a line along k, from element k on, zeros behind its end.
template <class T, bool kIsWide>
TILE_INLINE uint4 floats_from(const Operand<T, true, kIsWide>& from, int row, int64_t k, int64_t depth) {
  union {
    uint4 chunk;
    float elements[4];
  } raw;
  raw.chunk = make_uint4(0, 0, 0, 0);
  const int64_t left = row < from.rows ? depth - k : 0;
  const T* first = from.at(row, k);
  if (kIsWide && left >= 4) {
    raw.chunk = *(const uint4*)first;
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < left) raw.elements[e] = narrowed<T, float>(first[e]);
    }
  }
  return raw.chunk;
}

TILE_INLINE uint4 rounded_chunk(uint4 chunk) {
  return make_uint4(rounded_to_tf32(__uint_as_float(chunk.x)), rounded_to_tf32(__uint_as_float(chunk.y)),
                    rounded_to_tf32(__uint_as_float(chunk.z)), rounded_to_tf32(__uint_as_float(chunk.w)));
}

// A few chunks at a time are under way. Of three terms, rests are in a piece of their own, `rest` bytes
// further.
template <class P, int kThreads, int kTerms, class T, bool kIsWide>
TILE_INLINE void load_float_piece(char* piece, const Operand<T, true, kIsWide>& from, int64_t first_k,
                                  int64_t depth, int rest) {
  enum : int {
    kAll = P::kLines * P::kChunks,
    kOwn = (kAll + kThreads - 1) / kThreads,  // of a thread
    kMost = kIsWide ? 4 : 2,
    kAtATime = kOwn < kMost ? kOwn : kMost,
  };
#pragma unroll 1
  for (int own = 0; own < kOwn; own += kAtATime) {
    uint4 chunks[kAtATime];
#pragma unroll
    for (int i = 0; i < kAtATime; ++i) {
      const int at = (own + i) * kThreads + thread_number();
      if (at < kAll) chunks[i] = floats_from(from, at / P::kChunks, first_k + at % P::kChunks * 4, depth);
    }
#pragma unroll
    for (int i = 0; i < kAtATime; ++i) {
      const int at = (own + i) * kThreads + thread_number();
      if (at >= kAll) continue;
      const unsigned to = shared_address(piece + P::place(at / P::kChunks, at % P::kChunks));
      if constexpr (kTerms == 3) {
        uint4 whole, left;
        take_apart(chunks[i].x, whole.x, left.x);
        take_apart(chunks[i].y, whole.y, left.y);
        take_apart(chunks[i].z, whole.z, left.z);
        take_apart(chunks[i].w, whole.w, left.w);
        store_chunk(to, whole);
        store_chunk(to + rest, left);
      } else {
        store_chunk(to, rounded_chunk(chunks[i]));
      }
    }
  }
}

}  // namespace tile
