// A chain of products that the tensor cores of a GPU compute in one kernel: products whose results, scores,
// stay in registers, what is computed of them, reductions of that along an axis that is walked in blocks, and
// further products along the same axis, all of them carried from block to block by the corrections that
// online_reductions.h derives. All scores have the same rows and the same walk, all results the same rows.
//
//   %s = sum of %Q * %K over d : [q, k];  %m = max %s over k;  %p = exp(%s - %m);  %l = sum %p over k
//   %o = sum of %p * %V over k : [q, v];  %y = %o / %l
//   => rows = q, walked = k, depth = d, width = v; carried: a maximum, an anchor, two sums
//
//   %s = sum of %K * %Q over d : [k, q];  %w = exp(%s - %log[q]);  %a = sum of %V * %G over v : [k, q]
//   %gv = sum of %w * %G over q : [k, v];  %gk = sum of %w * (%a - %mean[q]) * %Q over q : [k, d]
//   => rows = k, walked = q; two scores, two totals; %Q and %G come to shared memory once for both
//
// Unsupported: why tensor cores cannot, in a sentence.
#pragma once
#include <string>
#include <vector>

#include "core/result.h"
#include "fusion/expand_online.h"
#include "fusion/gpu_access.h"
#include "fusion/gpu_bulk_factor.h"
#include "fusion/gpu_factor.h"

namespace tilefuse {

// Reductions of one block that need nothing of each other, and what is computed on the way to them.
struct ChainGroup {
  std::vector<TileValueId> reductions;  // of rows: products are not among them
  std::vector<size_t> totals;           // whose weights are made here
  std::vector<TileValueId> kept;        // made here of scores, and wanted by later groups
};

// What a block of the walk needs of a factor in shared memory, for one product or several.
struct ChainPiece {
  GpuFactor factor;         // of which one axis is the walk
  int length = 16;          // along the other one, in whole matrices
  bool is_of_rows = false;  // the walk numbers its rows: of scores; else it is what is summed over
  GpuBulkFactor bulk;       // the same for copies by tensor maps, where the chain has them

  // Whether elements along the walk are next to each other in memory, and lines of the piece.
  bool is_along_walk() const { return factor.is_along_k != is_of_rows; }
};

// A product whose results stay in registers, and are gone with their block of the walk.
struct ChainScores {
  TileValueId scores;
  AxisId depth;  // summed over
  int length = 16;
  GpuFactor rows;    // along depth: in shared memory all along
  GpuFactor walked;  // along depth
  size_t piece = 0;  // of `walked`
  GpuBulkFactor rows_bulk;
};

// A product along the walk.
struct ChainTotal {
  TileValueId product;  // of one block: what is added to `moved`
  TileValueId total;    // of the whole walk, as the region has it
  TileValueId weights;  // its computed factor
  // What the blocks before have left of it: before and after it has been corrected.
  TileValueId carry, moved;
  size_t width = 0;  // of widths
  GpuFactor factor;  // width along walked
  size_t piece = 0;
};

// An axis of results, of which a block has all.
struct ChainWidth {
  AxisId axis;
  int length = 16;
  GpuAccesses accesses;
};

struct GpuChain {
  TileGraph graph;  // the region's values, and behind them what is carried and how it moves
  std::vector<ChainScores> scores;
  std::vector<ChainTotal> totals;
  std::vector<ChainWidth> widths;
  std::vector<ChainPiece> pieces;
  std::string why_not_bulk;                                  // empty: tensor maps can copy all factors
  std::vector<CarriedValue> carried;                         // of the rows, all but the products
  std::vector<ChainGroup> groups;                            // in the order in which they are made
  std::vector<std::pair<TileValueId, TileValueId>> results;  // as of an ExpandedPass
  AxisId rows, walked;
  std::vector<AxisId> batch;  // the other axes, outermost first
  DType dtype = DType::BF16;  // of what is multiplied
  std::vector<Expr> nothing;  // of neutral_where
  GpuAccesses of_scores;      // along `walked`
  bool fits_int = false;
  bool has_long_function = false;  // computed of scores
  int score_maps = 0;              // that are computed of one

  // One product in front of the walk and one along it, as in attention: what threads that only copy, and
  // scores ahead, are made for.
  bool is_pair() const { return scores.size() == 1 && totals.size() == 1; }
  const ChainWidth& width_of(const ChainTotal& total) const { return widths[total.width]; }
  // Elements of one row: of all first factors, of all results, and of all that one step of the walk brings.
  int depth_sum() const;
  int width_sum() const;
  int piece_sum() const;
  int widest_access() const;
};

Result<GpuChain> analyze_gpu_chain(const TileGraph& graph);

}  // namespace tilefuse
