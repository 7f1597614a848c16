// Matrix tiles: registers of 16 rows of 64 bytes. One instruction multiplies 16 rows of one factor with a
// panel of 16 lanes, as many neighbours along the summed axis as 16 dots take (dots.h), and adds to 16 x 16
// sums of 32 bits:
//
//   %x[i*768 + k]     bf16    a tile: rows i to i + 15, k to k + 31
//   panel of %w       pairs   a tile: 16 pairs along k, lanes j to j + 15
//   %s                f32     a tile: 16 rows, 16 lanes
//
// A schedule walks a region so where it takes a multiple of 16 rows side by side, and dots. Sums pass through
// scratch, as do rows that do not lie in 64 bytes at a time: those of a tile of neighbours are turned, rows
// that end inside of 64 bytes copied, zeros behind them. Intel's AMX ("The Intel 64 manual, volume 1,
// chapter 18"): bf16 into f32, and bytes, with a sign or without, into i32. A kernel made for a processor
// without it adds up the same dots one by one.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "fusion/dots.h"

namespace tilefuse {

constexpr int kTileRows = 16, kTileLanes = 16;
constexpr int kMostSumTiles = 4;  // of the eight: two are left for each factor

// Whether the rows of a schedule are those of tiles.
inline bool takes_tile_rows(int64_t rows) { return rows % kTileRows == 0; }

// Elements of the summed axis that one instruction takes.
inline int64_t tile_step(DotKind kind) { return int64_t{kTileLanes} * info(kind).count; }

// "clk_per_tile.bf16": the rate of a profile that has the instruction for dots of a kind.
std::string tile_rate(DotKind kind);
bool multiplies_in_tiles(DotKind kind, const Target& target);

enum class TileRows : uint8_t { AsTheyLie, Copied, Turned };

// How rows of a factor along `rows` get into tiles; absent: they do not.
std::optional<TileRows> tile_rows(const TileGraph& graph, TileValueId load, AxisId rows, AxisId summed,
                                  DotKind kind);

// The factors of each reduction's products, in the order of structure.reductions, if some schedule with this
// lane axis and this axis of rows may multiply them in tiles; else empty.
std::vector<Dot> tile_factors(const TileGraph& graph, const Structure& structure, AxisId lanes, AxisId rows);

// Of the summed axis, where rows of tiles share panels that L1 does not hold: a part of a panel is multiplied
// with all rows of a task before the next one, and sums pass through scratch in between. Absent: all at once.
std::optional<AxisTile> tile_block(const Structure& structure, const std::vector<double>& extent,
                                   const Schedule& schedule, int64_t l1_bytes);

// Where every sum is stored once as it is, whole vectors of it: tiles go there themselves, by store the
// elements from each row to the next. Empty: sums pass through scratch.
std::vector<int64_t> stored_rows_of_sums(const TileGraph& graph, const Structure& structure,
                                         const Schedule& schedule);

// Whether the schedule walks the region so: it takes rows of tiles, stages all panels, and nothing forbids
// it.
bool walks_tiles(const TileGraph& graph, const Structure& structure, const Schedule& schedule);

}  // namespace tilefuse
