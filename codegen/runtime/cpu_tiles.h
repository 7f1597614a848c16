// Matrix tiles (fusion/matrix_tiles.h): blocks of sums of 16 rows by 16 lanes, 64 bytes of each row at a
// time.
#pragma once
#include "cpu_dots.h"
#include "cpu_horizontal.h"

namespace tile {

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)
#define TILE_AMX 1
#else
#define TILE_AMX 0
#endif

constexpr int kTileRows = 16, kTileInts = 16;

// What ldtilecfg reads: "The Intel 64 manual, volume 1, 18.2".
struct TileShapes {
  unsigned char palette = 1, start_row = 0, unused[14] = {};
  unsigned short row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {};
};
// Registers 0 to 3 hold sums, 4 and 5 rows of a factor: so many of each; 6 and 7 hold panels.
TILE_INLINE void shape_tiles(int64_t rows) {
#if TILE_AMX
  TileShapes shapes;
  for (int i = 0; i < 6; ++i) shapes.rows[i] = (unsigned char)rows;
  shapes.rows[6] = shapes.rows[7] = kTileRows;
  asm volatile("ldtilecfg %0" ::"m"(shapes));
#else
  (void)rows;
#endif
}
// Linux hands tiles to processes that have asked for them, once: "Using XSTATE features in user space
// applications", ARCH_REQ_XCOMP_PERM. Whoever chose this kernel knows that it does.
TILE_INLINE void ask_for_tiles() {
#if TILE_AMX && defined(__linux__)
  static int has_asked = 0;
  if (__builtin_expect(__atomic_load_n(&has_asked, __ATOMIC_RELAXED), 1)) return;
  constexpr long kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  long result = kArchPrctl;
  asm volatile("syscall" : "+a"(result) : "D"(kRequestPermission), "S"(kTileData) : "rcx", "r11", "memory");
  __atomic_store_n(&has_asked, 1, __ATOMIC_RELAXED);
#endif
}
// At the beginning and at the end of whoever multiplies: what follows must not find the registers in use.
TILE_INLINE void open_tiles() {
  ask_for_tiles();
  shape_tiles(kTileRows);
}
TILE_INLINE void close_tiles() {
#if TILE_AMX
  asm volatile("tilerelease" ::: "memory");
#endif
}

#if TILE_AMX
template <int kTile>
TILE_INLINE void load_tile(const void* p, int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kTile>
TILE_INLINE void store_tile(void* p, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kTile>
TILE_INLINE void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <class Row, class Panel, int kSum, int kRow, int kPanel>
TILE_INLINE void add_tile_product() {
  if constexpr (__is_same(Row, bf16)) {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRow), "i"(kPanel));
  } else if constexpr (Facts<Row>::kIsSigned && Facts<Panel>::kIsSigned) {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRow), "i"(kPanel));
  } else if constexpr (Facts<Row>::kIsSigned) {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRow), "i"(kPanel));
  } else if constexpr (Facts<Panel>::kIsSigned) {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRow), "i"(kPanel));
  } else {
    asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRow), "i"(kPanel));
  }
}

// One step along the summed axis: row tile after row tile, each with all panels; those after the first are
// loaded between the products of the one before.
template <class Row, class Panel, int kRows, int kVectors, int kWidth, int kTile = 0>
TILE_INLINE void add_tile_step(const char* rows, int64_t row_bytes, const int* panel) {
  constexpr int kRow = kTile / kVectors, kVector = kTile % kVectors;
  constexpr int kRowTile = 4 + kRow % 2, kPanelTile = 6 + kVector % 2;
  constexpr bool stays = kVectors <= 2 && kRow > 0;  // a panel has a register of its own
  if constexpr (kVector == 0) load_tile<kRowTile>(rows + kRow * kTileRows * row_bytes, row_bytes);
  if constexpr (!stays) load_tile<kPanelTile>(panel + kVector * kTileInts, kWidth * 4);
  add_tile_product<Row, Panel, kTile, kRowTile, kPanelTile>();
  if constexpr (kTile + 1 < kRows * kVectors) {
    add_tile_step<Row, Panel, kRows, kVectors, kWidth, kTile + 1>(rows, row_bytes, panel);
  }
}
template <int kTile, int kVectors, int kWidth>
constexpr int64_t kSumsOffset = (kTile / kVectors * kTileRows * kWidth + kTile % kVectors * kTileInts) * 4;
template <int kTiles, int kVectors, int kWidth>
TILE_INLINE void start_tiles(const char* sums, bool adds) {
  constexpr int kTile = kTiles - 1;
  adds ? load_tile<kTile>(sums + kSumsOffset<kTile, kVectors, kWidth>, kWidth * 4) : clear_tile<kTile>();
  if constexpr (kTiles > 1) start_tiles<kTiles - 1, kVectors, kWidth>(sums, adds);
}
template <int kTiles, int kVectors, int kWidth>
TILE_INLINE void store_tiles(char* sums) {
  constexpr int kTile = kTiles - 1;
  store_tile<kTile>(sums + kSumsOffset<kTile, kVectors, kWidth>, kWidth * 4);
  if constexpr (kTiles > 1) store_tiles<kTiles - 1, kVectors, kWidth>(sums);
}
template <class Row, class Panel, int kRows, int kVectors, int kWidth, int kSumWidth>
TILE_INLINE void multiply_row_tiles(char* sums, const char* rows, int64_t row_bytes, const int* panel,
                                    int64_t steps, bool adds) {
  start_tiles<kRows * kVectors, kVectors, kSumWidth>(sums, adds);
  for (int64_t step = 0; step < steps; ++step) {
    add_tile_step<Row, Panel, kRows, kVectors, kWidth>(rows + step * 64, row_bytes,
                                                       panel + step * kTileRows * kWidth);
  }
  store_tiles<kRows * kVectors, kVectors, kSumWidth>(sums);
}
// The last rows are fewer than a tile has.
template <class Row, class Panel, int kRows, int kVectors, int kWidth, int kSumWidth>
TILE_INLINE void multiply_last_rows(char* sums, const char* rows, int64_t row_bytes, int64_t row_count,
                                    const int* panel, int64_t steps, bool adds) {
  int64_t done = 0;
  for (; done + kTileRows <= row_count; done += kTileRows) {
    multiply_row_tiles<Row, Panel, 1, kVectors, kWidth, kSumWidth>(
        sums + done * kSumWidth * 4, rows + done * row_bytes, row_bytes, panel, steps, adds);
  }
  if (done == row_count) return;
  shape_tiles(row_count - done);
  multiply_row_tiles<Row, Panel, 1, kVectors, kWidth, kSumWidth>(
      sums + done * kSumWidth * 4, rows + done * row_bytes, row_bytes, panel, steps, adds);
  shape_tiles(kTileRows);
}
#endif

// Without the instructions: the same dots one by one.
TILE_INLINE float add_dots(float sum, const bf16* row, const bf16* panel) {
  sum += convert<float>(load_one(row)) * convert<float>(load_one(panel));
  return sum + convert<float>(load_one(row + 1)) * convert<float>(load_one(panel + 1));
}
template <class Row, class Panel>
TILE_INLINE int add_dots(int sum, const Row* row, const Panel* panel) {
  for (int i = 0; i < 4; ++i) sum = (int)((unsigned)sum + (unsigned)((int)row[i] * (int)panel[i]));
  return sum;
}
template <class Row, class Panel, int kVectors, int kWidth, int kSumWidth, class Sum>
TILE_INLINE void add_up_dots(Sum* sums, const char* rows, int64_t row_bytes, int64_t row_count,
                             const int* panel, int64_t steps, bool adds) {
  for (int64_t row = 0; row < row_count; ++row) {
    const Row* factor = (const Row*)(rows + row * row_bytes);
    for (int64_t lane = 0; lane < kVectors * kTileInts; ++lane) {
      Sum sum = adds ? sums[row * kSumWidth + lane] : 0;
      for (int64_t i = 0; i < steps * kTileInts; ++i) {
        sum = add_dots(sum, factor + i * (4 / (int)sizeof(Row)), (const Panel*)(panel + i * kWidth + lane));
      }
      sums[row * kSumWidth + lane] = sum;
    }
  }
}

// sums[r][lane], or 0 unless it adds, + all of rows[r][k] * panel[k][lane]: `row_count` rows, at most 16 *
// kRows, `row_bytes` from each to the next; 16 * kVectors lanes of a panel of neighbours that is kWidth lanes
// wide; rows of sums are kSumWidth of them apart. A step is 64 bytes of a row, 16 rows of the panel.
template <class Row, class Panel, int kRows, int kVectors, int kWidth, int kSumWidth = kWidth, class Sum,
          class Factor>
TILE_INLINE void multiply_tiles(Sum* sums, const Factor* rows, int64_t row_bytes, int64_t row_count,
                                const int* panel, int64_t steps, bool adds) {
#if TILE_AMX && defined(TILEFUSE_EXACT_BF16)
  constexpr bool has_tiles = !__is_same(Row, bf16);  // they take subnormals for zero
#else
  constexpr bool has_tiles = TILE_AMX != 0;
#endif
  if constexpr (has_tiles) {
#if TILE_AMX
    if (row_count == kRows * kTileRows) {
      return multiply_row_tiles<Row, Panel, kRows, kVectors, kWidth, kSumWidth>(
          (char*)sums, (const char*)rows, row_bytes, panel, steps, adds);
    }
    multiply_last_rows<Row, Panel, kRows, kVectors, kWidth, kSumWidth>(
        (char*)sums, (const char*)rows, row_bytes, row_count, panel, steps, adds);
#endif
  } else {
    add_up_dots<Row, Panel, kVectors, kWidth, kSumWidth>(sums, (const char*)rows, row_bytes, row_count, panel,
                                                         steps, adds);
  }
}

// Rows of a tile of neighbours, of which those of one pair lie beside each other, `apart` pairs from each to
// the next, as rows of `width` pairs; zeros behind the last.
template <class T>
TILE_INLINE void turn_rows(int* to, int64_t width, const T* from, int64_t apart, int64_t row_count,
                           int64_t pairs) {
  const int* source = (const int*)from;
  for (int64_t row = 0; row < row_count; row += kTileRows) {
    const int64_t left = row_count - row;
    for (int64_t pair = 0; pair < pairs; pair += kTileInts) {
      Vec<int> block[kTileInts];
#pragma GCC unroll 16
      for (int i = 0; i < kTileInts; ++i) {
        const int* at = source + (pair + i) * apart + row;
        const int64_t there = pair + i < pairs ? left : 0;
        block[i] = there >= kTileRows ? load(at) : load(at, there);
      }
      transpose_block(block);
#pragma GCC unroll 16
      for (int i = 0; i < kTileRows; ++i) store(to + (row + i) * width + pair, block[i]);
    }
  }
}
// Rows of `length` elements as rows of `width` times 4 bytes; zeros behind the last.
template <class T>
TILE_INLINE void copy_rows(int* to, int64_t width, const T* from, int64_t row_bytes, int64_t row_count,
                           int64_t length) {
  constexpr int64_t kElements = kLanes * 4 / (int)sizeof(T);
  for (int64_t row = 0; row < row_count; ++row) {
    const T* source = (const T*)((const char*)from + row * row_bytes);
    for (int64_t i = 0; i < length; i += kElements) {
      const int64_t left = length - i;
      store(to + row * width + i / kElements * kLanes,
            left >= kElements ? load_neighbours(source + i) : load_neighbours(source + i, left));
    }
  }
}

}  // namespace tile
