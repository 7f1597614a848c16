// The sums of a tile of a matrix product, by the threads of a block: operands go to shared memory piece by
// piece, a few pieces ahead, and from there through matrix instructions into sums in registers.
//
// An operand is a matrix of rows (m of the first, n of the second) along k. Its memory has lines, `pitch`
// elements apart, within which elements are next to each other: along k, a line a row, or along the rows, a
// line a step of k. What is outside the matrix counts as zero.
//
// Elements are multiplied as cuda_matrix_numbers.h says. In shared memory, those of 8 bits lie along k
// always: others are turned on the way there, one by one.
//
// In shared memory a line is a whole number of chunks of 16 bytes, and chunks of lines that lie at the same
// place change places: eight rows of a matrix, and eight chunks that are written together, are in different
// banks. Lines of more than eight chunks are cut: all lines' first eight, then all lines' second eight.
#pragma once
#include "cuda_matrix_numbers.h"

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
// What is computed of each element, from its row and its step of k: by a function of those, of which the
// first row is that of the tile.
template <class F>
struct Computed {};
template <class F, bool kIsAlongK>
struct Operand<Computed<F>, kIsAlongK, false> {
  const F& element;
  int64_t first, rows;
};
#define TILE_COMPUTED(name, is_along_k)                                                                     \
  template <class F>                                                                                        \
  TILE_INLINE Operand<Computed<F>, is_along_k, false> name(const F& element, int64_t first, int64_t rows) { \
    return {element, first, rows};                                                                          \
  }
TILE_COMPUTED(computed_along_k, true)
TILE_COMPUTED(computed_along_rows, false)

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

// A piece of an operand in shared memory: kRows x kDepth elements of 16 bits, or what takes as many bytes.
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

// Floats along the rows, which are loaded one by one: four lines, of which a warp wants eight elements each,
// are in different banks.
template <int kRows, int kDepth>
struct PieceOfWords : Piece<kRows * 2, kDepth, false> {
  using Plain = Piece<kRows * 2, kDepth, false>;
  static TILE_INLINE int place(int line, int chunk) {
    const int turn = line / (8 / Plain::kPlaces) * 2 % Plain::kPlaces;
    return ((chunk / Plain::kTogether * Plain::kLines + line) * Plain::kTogether +
            (chunk % Plain::kTogether ^ turn)) *
           16;
  }
};

// Of elements of type E: lines along k, or along the rows where those can be multiplied from.
template <class E, int kRows, int kDepth, bool kIsAlongK>
struct PieceOf {
  using Type = Piece<kRows, kDepth, kIsAlongK>;
};
template <int kRows, int kDepth>
struct PieceOf<float, kRows, kDepth, true> {
  using Type = Piece<kRows, kDepth * 2, true>;
};
template <int kRows, int kDepth>
struct PieceOf<float, kRows, kDepth, false> {
  using Type = PieceOfWords<kRows, kDepth>;
};
#define TILE_PIECE_OF_BYTES(E)                     \
  template <int kRows, int kDepth, bool kIsAlongK> \
  struct PieceOf<E, kRows, kDepth, kIsAlongK> {    \
    using Type = Piece<kRows, kDepth / 2, true>;   \
  };
TILE_PIECE_OF_BYTES(signed char)
TILE_PIECE_OF_BYTES(unsigned char)
TILE_PIECE_OF_BYTES(f8e4m3fn)
TILE_PIECE_OF_BYTES(f8e5m2)

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
TILE_INLINE E narrowed(T x) {
  if constexpr (sizeof(E) == 1 || Same<T, E>::kValue) {
    return *(const E*)&x;  // of eight bits: as it lies
  } else {
    E result;
    narrow((float)widened(x), result);
    return result;
  }
}

// Elements of a chunk, from that row and step on, towards k or, of lines along the rows, the next rows.
template <bool kIsTurned, class E, class T, bool kIsAlongK>
TILE_INLINE void load_elements(E* to, int most, int count, const Operand<T, kIsAlongK, false>& from,
                               int64_t row, int64_t k) {
  const T* first = from.at(row, k);
#pragma unroll
  for (int e = 0; e < most; ++e) {
    if (e < count) to[e] = narrowed<T, E>(first[kIsTurned ? e * from.pitch : e]);
  }
}
template <bool kIsTurned, class E, class F, bool kIsAlongK>
TILE_INLINE void load_elements(E* to, int most, int count, const Operand<Computed<F>, kIsAlongK, false>& from,
                               int64_t row, int64_t k) {
  static_assert(!kIsTurned);
#pragma unroll
  for (int e = 0; e < most; ++e) {
    if (e < count)
      narrow((float)from.element(from.first + row + (kIsAlongK ? 0 : e), k + (kIsAlongK ? e : 0)), to[e]);
  }
}

template <class E, class P, int kThreads, class T, bool kIsAlongK, bool kIsWide>
TILE_INLINE void load_ragged_piece(char* piece, const Operand<T, kIsAlongK, kIsWide>& from, int64_t first_k,
                                   int64_t depth) {
  // Elements that are loaded one by one wait in registers: of two chunks at a time.
  enum : int {
    kAtATime = kIsWide ? (P::kLines * P::kChunks + kThreads - 1) / kThreads : 2,
    kInChunk = Multiplied<E>::kInChunk,
    kIsTurned = sizeof(E) == 1 && !kIsAlongK,  // its lines in shared memory lie along k all the same
  };
#pragma unroll kAtATime
  for (int first = 0; first < P::kLines * P::kChunks; first += kThreads) {
    const int i = first + thread_number();
    if ((P::kLines * P::kChunks) % kThreads != 0 && i >= P::kLines * P::kChunks) break;
    // Neighbours read what is next to each other: of what is turned, rows.
    const int line = kIsTurned ? i % P::kLines : i / P::kChunks;
    const int chunk = kIsTurned ? i / P::kLines : i % P::kChunks, along = chunk * kInChunk;
    constexpr bool kLinesAreRows = kIsAlongK || kIsTurned;
    const int64_t row = kLinesAreRows ? line : along, k = first_k + (kLinesAreRows ? along : line);
    const bool has_line = kLinesAreRows ? row < from.rows : k < depth;
    const int64_t left = has_line ? (kLinesAreRows ? depth - k : from.rows - row) : 0;
    const int count = left < 0 ? 0 : left < kInChunk ? (int)left : (int)kInChunk;
    char* to = piece + P::place(line, chunk);
    if constexpr (kIsWide) {
      begin_copy(shared_address(to), count > 0 ? from.at(row, k) : from.from, (int)sizeof(E) * count);
    } else {
      union {
        uint4 chunk;
        E elements[kInChunk];
      } raw;
      raw.chunk = make_uint4(0, 0, 0, 0);
      load_elements<kIsTurned>(raw.elements, kInChunk, count, from, row, k);
      store_chunk(shared_address(to), raw.chunk);
    }
  }
}

// All of it inside the matrix: the chunks of a thread are the same distance apart.
template <class E, class P, int kThreads, class T, bool kIsAlongK>
TILE_INLINE void load_whole_piece(unsigned piece, const Operand<T, kIsAlongK, true>& from, int64_t first_k) {
  const int line = thread_number() / P::kChunks, chunk = thread_number() % P::kChunks;
  const int along = chunk * Multiplied<E>::kInChunk;
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
    kAlong = P::kChunks * Multiplied<E>::kInChunk,
    kRows = kIsAlongK ? P::kLines : kAlong,
    kDepth = kIsAlongK ? kAlong : P::kLines,
    // Lines, of which eight have the same pattern as the next eight.
    kApart = kThreads % P::kChunks == 0 ? kThreads / P::kChunks : 1,
  };
  if constexpr (kIsWide && kApart % 8 == 0 && P::kLines % kApart == 0) {
    if (from.rows >= kRows && depth - first_k >= kDepth)
      return load_whole_piece<E, P, kThreads>(shared_address(piece), from, first_k);
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

// The same of elements of any type, from element k on.
template <class E, class P, bool kIsAlongK, bool kRowsFirst>
TILE_INLINE void load_fragment_of(Fragment& to, unsigned piece, int row, int k) {
  if constexpr (sizeof(E) == 4 && !kIsAlongK) {
    const int lane = thread_number() % kWarp;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int own_row = row + lane / 4 + (kRowsFirst ? i % 2 : i / 2) * 8;
      const int own_k = k + lane % 4 + (kRowsFirst ? i / 2 : i % 2) * 4;
      to.whole[i] = load_word(piece + P::place(own_k, own_row / 4) + own_row % 4 * 4);
    }
  } else {
    load_fragment<P, sizeof(E) == 1 || kIsAlongK, kRowsFirst>(to.whole, piece, row, k * (int)sizeof(E) / 2);
  }
}

// The sums of lane `lane` of warp `warp` are those of kWarpM / 16 x kWarpN / 8 matrices, which are numbered
// along n first: of matrix (i, j), row i * 16 + half * 8 + lane / 4 of the warp's, columns
// j * 8 + lane % 4 * 2 and the next one, at ((i * kWarpN / 8 + j) * 2 + half) * 2. `memory`, which the
// threads share, has place for the pieces of all stages. kTerms: products that are made of each product of
// floats, one of tf32, or three that lose next to nothing.
template <class E, int kBlockM, int kBlockN, int kStep, int kWarpM, int kWarpN, int kStages, int kTerms = 1,
          class Sum, class A, bool kA, bool kWideA, class B, bool kB, bool kWideB>
TILE_INLINE void multiply_tiles(Sum* sums, E* memory, const Operand<A, kA, kWideA>& a,
                                const Operand<B, kB, kWideB>& b, int64_t depth) {
  enum : int {
    kWarpsM = kBlockM / kWarpM,
    kWarpsN = kBlockN / kWarpN,
    kThreads = kWarpsM * kWarpsN * kWarp,
    kTilesM = kWarpM / 16,
    kTilesN = kWarpN / 8,
    // What is left of floats in three products, and floats of eight bits that are converted, have no
    // registers for more than one instruction's depth.
    kAtOnce = kTerms == 3 || (sizeof(E) == 1 && Same<Sum, float>::kValue) ? 1 : kStep / Multiplied<E>::kDepth,
  };
  static_assert(kStages >= 2 && kStep % Multiplied<E>::kDepth == 0 && kWarpM % 16 == 0 && kWarpN % 16 == 0);
  using PieceA = typename PieceOf<E, kBlockM, kStep, kA>::Type;
  using PieceB = typename PieceOf<E, kBlockN, kStep, kB>::Type;
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
#pragma unroll kAtOnce
    for (int kk = 0; kk < kStep; kk += Multiplied<E>::kDepth) {
      Fragment fragments_a[kTilesM], fragments_b[kTilesN / 2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        load_fragment_of<E, PieceA, kA, true>(fragments_a[i], from_a, first_row + i * 16, kk);
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j)
        load_fragment_of<E, PieceB, kB, false>(fragments_b[j], from_b, first_column + j * 16, kk);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) make_ready<E, kTerms>(fragments_a[i]);
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j) make_ready<E, kTerms>(fragments_b[j]);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
          multiply_fragments<E, A, B, kTerms>(sums + (i * kTilesN + j) * 4, fragments_a[i],
                                              fragments_b[j / 2], j % 2);
        }
      }
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

// Neighbours along n.
template <class Sum>
TILE_INLINE Vec<Sum> lanes_of(const Sum* sums) {
  Vec<Sum> result;
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
