// The sums of a tile of a matrix product, by the threads of a block: operands go to shared memory piece by
// piece, a few pieces ahead, and from there through matrix instructions into sums in registers.
//
// An operand is a matrix of rows (m of the first, n of the second) along k. Its memory has lines, `pitch`
// elements apart, within which elements are next to each other: along k, a line a row, or along the rows, a
// line a step of k. What is outside the matrix counts as zero.
//
// In shared memory a line is a whole number of chunks of 16 bytes, and chunks of lines that lie at the same
// place change places: eight rows of a matrix, and eight chunks that are written together, are in different
// banks. Lines of more than eight chunks are cut: all lines' first eight, then all lines' second eight.
#pragma once
#include "cuda_matrix.h"

namespace tile {

enum : int { kChunkElements = 8 };  // of 16 bits in 16 bytes

// kIsWide: every line starts at a multiple of 16 bytes, and T is what is multiplied: copied as it is.
template <class T, bool kIsAlongK, bool kIsWide>
struct Operand {
  const T* from;
  int64_t pitch, rows;  // rows: from the first one of the tile on

  TILE_INLINE const T* at(int64_t row, int64_t k) const {
    return from + (kIsAlongK ? row * pitch + k : k * pitch + row);
  }
};
#define TILE_OPERAND(name, is_along_k, is_wide)                                                  \
  template <class T>                                                                             \
  TILE_INLINE Operand<T, is_along_k, is_wide> name(const T* from, int64_t pitch, int64_t rows) { \
    return {from, pitch, rows};                                                                  \
  }
TILE_OPERAND(wide_along_k, true, true)
TILE_OPERAND(wide_along_rows, false, true)
TILE_OPERAND(single_along_k, true, false)
TILE_OPERAND(single_along_rows, false, false)

// The tile of a block: down kRows rows of tiles, then the next column of those, then further down. Blocks
// that run together share lines of both operands.
template <class T>
struct Tile {
  T row, column;
};
template <class T, int kRows>
TILE_INLINE Tile<T> compact_tile(T number, T down, T across) {
  const T first = number / (kRows * across) * kRows, rest = number - first * across;
  const T rows = down - first < kRows ? down - first : T(kRows);
  return {first + rest % rows, rest / rows};
}

// A piece of an operand in shared memory: kRows x kDepth elements.
template <int kRows, int kDepth, bool kIsAlongK>
struct Piece {
  enum : int {
    kLines = kIsAlongK ? kRows : kDepth,
    kChunks = (kIsAlongK ? kDepth : kRows) / kChunkElements,  // of a line
    kBytes = kRows * kDepth * 2,
    // Chunks that change places: the power of two in their number, of the eight that fill all banks.
    kPlaces = kChunks % 8 == 0   ? 8
              : kChunks % 4 == 0 ? 4
              : kChunks % 2 == 0 ? 2
                                 : 1,
    kTogether = kChunks % 8 == 0 ? 8 : kChunks,  // of a line, next to each other
  };

  static TILE_INLINE int place(int line, int chunk) {
    const int turn = line / (8 / kPlaces) % kPlaces;
    return ((chunk / kTogether * kLines + line) * kTogether + (chunk % kTogether ^ turn)) * 16;
  }
};

// Memory that the threads of a block share, once in a kernel: declared, or given at the launch, without which
// no kernel has more than 48 KiB.
template <class E, int kCount>
TILE_INLINE E* shared_elements() {
  __shared__ __align__(1024) E elements[kCount];
  return elements;
}
template <class E>
TILE_INLINE E* given_elements() {
  extern __shared__ __align__(1024) char given_memory[];
  return (E*)given_memory;
}

template <class T, class E>
TILE_INLINE unsigned short narrowed(T x) {
  if constexpr (Same<T, E>::kValue) return x.bits;
  E result;
  narrow((float)widened(x), result);
  return result.bits;
}

template <class E, class P, int kThreads, class T, bool kIsAlongK, bool kIsWide>
TILE_INLINE void load_ragged_piece(char* piece, const Operand<T, kIsAlongK, kIsWide>& from, int64_t first_k,
                                   int64_t depth) {
  // Elements that are loaded one by one wait in registers: of two chunks at a time.
  enum : int { kAtATime = kIsWide ? (P::kLines * P::kChunks + kThreads - 1) / kThreads : 2 };
#pragma unroll kAtATime
  for (int first = 0; first < P::kLines * P::kChunks; first += kThreads) {
    const int i = first + thread_number();
    if ((P::kLines * P::kChunks) % kThreads != 0 && i >= P::kLines * P::kChunks) break;
    const int line = i / P::kChunks, chunk = i % P::kChunks, along = chunk * kChunkElements;
    const int64_t row = kIsAlongK ? line : along, k = first_k + (kIsAlongK ? along : line);
    const bool has_line = kIsAlongK ? row < from.rows : k < depth;
    const int64_t left = has_line ? (kIsAlongK ? depth - k : from.rows - row) : 0;
    const int count = left < 0 ? 0 : left < kChunkElements ? (int)left : kChunkElements;
    char* to = piece + P::place(line, chunk);
    if constexpr (kIsWide) {
      begin_copy(shared_address(to), count > 0 ? from.at(row, k) : from.from, 2 * count);
    } else {
      union {
        uint4 chunk;
        unsigned short elements[kChunkElements];
      } raw;
      raw.chunk = make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int e = 0; e < kChunkElements; ++e) {
        if (e < count) raw.elements[e] = narrowed<T, E>(from.at(row, k)[e]);
      }
      store_chunk(shared_address(to), raw.chunk);
    }
  }
}

// All of it inside the matrix: the chunks of a thread are the same distance apart.
template <class P, int kThreads, class T, bool kIsAlongK>
TILE_INLINE void load_whole_piece(unsigned piece, const Operand<T, kIsAlongK, true>& from, int64_t first_k) {
  const int line = thread_number() / P::kChunks, chunk = thread_number() % P::kChunks;
  const int along = chunk * kChunkElements;
  const T* first = kIsAlongK ? from.at(line, first_k + along) : from.at(along, first_k + line);
  const unsigned to = piece + P::place(line, chunk);
#pragma unroll
  for (int further = 0; further < P::kLines; further += kThreads / P::kChunks)
    begin_copy(to + further * P::kTogether * 16, first + further * from.pitch, 16);
}

template <class E, class P, int kThreads, class T, bool kIsAlongK, bool kIsWide>
TILE_INLINE void load_piece(char* piece, const Operand<T, kIsAlongK, kIsWide>& from, int64_t first_k,
                            int64_t depth) {
  enum : int {
    kAlong = P::kChunks * kChunkElements,
    kRows = kIsAlongK ? P::kLines : kAlong,
    kDepth = kIsAlongK ? kAlong : P::kLines,
    // Lines, of which eight have the same pattern as the next eight.
    kApart = kThreads % P::kChunks == 0 ? kThreads / P::kChunks : 1,
  };
  if constexpr (kIsWide && kApart % 8 == 0 && P::kLines % kApart == 0) {
    if (from.rows >= kRows && depth - first_k >= kDepth)
      return load_whole_piece<P, kThreads>(shared_address(piece), from, first_k);
  }
  load_ragged_piece<E, P, kThreads>(piece, from, first_k, depth);
}

// 16 rows along 16 steps of k: four matrices, of which the second is further along the rows (of the first
// operand) or along k (of the second one).
template <class P, bool kIsAlongK, bool kRowsFirst>
TILE_INLINE void load_fragment(unsigned (&to)[4], unsigned piece, int row, int k) {
  const int lane = thread_number() % kWarp, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
  row += kRowsFirst ? second : third;
  k += kRowsFirst ? third : second;
  if constexpr (kIsAlongK) {
    load_matrices(to, piece + P::place(row + lane % 8, k / kChunkElements));
  } else {
    load_matrices_turned(to, piece + P::place(k + lane % 8, row / kChunkElements));
  }
}

// The sums of lane `lane` of warp `warp` are those of kWarpM / 16 x kWarpN / 8 matrices, which are numbered
// along n first: of matrix (i, j), row i * 16 + half * 8 + lane / 4 of the warp's, columns
// j * 8 + lane % 4 * 2 and the next one, at ((i * kWarpN / 8 + j) * 2 + half) * 2. `memory`, which the
// threads share, has place for the pieces of all stages.
template <class E, int kBlockM, int kBlockN, int kStep, int kWarpM, int kWarpN, int kStages, class A, bool kA,
          bool kWideA, class B, bool kB, bool kWideB>
TILE_INLINE void multiply_tiles(float* sums, E* memory, const Operand<A, kA, kWideA>& a,
                                const Operand<B, kB, kWideB>& b, int64_t depth) {
  enum : int {
    kWarpsM = kBlockM / kWarpM,
    kWarpsN = kBlockN / kWarpN,
    kThreads = kWarpsM * kWarpsN * kWarp,
    kTilesM = kWarpM / 16,
    kTilesN = kWarpN / 8,
  };
  static_assert(kStages >= 2 && kStep % 16 == 0 && kWarpM % 16 == 0 && kWarpN % 16 == 0);
  using PieceA = Piece<kBlockM, kStep, kA>;
  using PieceB = Piece<kBlockN, kStep, kB>;
  const auto piece_a = [&](int stage) { return (char*)memory + stage * (PieceA::kBytes + PieceB::kBytes); };
  const auto load_stage = [&](int stage, int64_t k) {
    load_piece<E, PieceA, kThreads>(piece_a(stage), a, k, depth);
    load_piece<E, PieceB, kThreads>(piece_a(stage) + PieceA::kBytes, b, k, depth);
  };
  const int warp = thread_number() / kWarp;
  const int first_row = warp / kWarpsN * kWarpM, first_column = warp % kWarpsN * kWarpN;
#pragma unroll
  for (int i = 0; i < kTilesM * kTilesN * 4; ++i) sums[i] = 0;

#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    load_stage(stage, stage * kStep);
    commit_copies();
  }
  int stage = 0;
  for (int64_t k = 0; k < depth; k += kStep) {
    wait_for_copies<kStages - 2>();
    meet_all();
    const int behind = stage == 0 ? kStages - 1 : stage - 1;  // what all threads have read
    const int64_t ahead = k + (kStages - 1) * kStep;
    if (ahead < depth) load_stage(behind, ahead);
    commit_copies();
    const unsigned from_a = shared_address(piece_a(stage)), from_b = from_a + PieceA::kBytes;
#pragma unroll
    for (int kk = 0; kk < kStep; kk += 16) {
      unsigned fragments_a[kTilesM][4], fragments_b[kTilesN / 2][4];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        load_fragment<PieceA, kA, true>(fragments_a[i], from_a, first_row + i * 16, kk);
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j)
        load_fragment<PieceB, kB, false>(fragments_b[j], from_b, first_column + j * 16, kk);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
          const unsigned* pair = fragments_b[j / 2] + j % 2 * 2;
          multiply_matrices<E>(sums + (i * kTilesN + j) * 4, fragments_a[i], pair[0], pair[1]);
        }
      }
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

// Neighbours along n.
TILE_INLINE Vec<float> lanes_of(const float* sums) {
  Vec<float> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = sums[i];
  return result;
}

// Where the sums of the thread are within the tile: of matrix 0, half 0.
template <int kWarpM, int kWarpsN>
TILE_INLINE int row_of_sums() {
  return thread_number() / kWarp / kWarpsN * kWarpM + thread_number() % kWarp / 4;
}
template <int kWarpN, int kWarpsN>
TILE_INLINE int column_of_sums() {
  return thread_number() / kWarp % kWarpsN * kWarpN + thread_number() % 4 * 2;
}

}  // namespace tile
