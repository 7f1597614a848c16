// A chain of two products that the tensor cores of a GPU compute in one kernel: a product whose results stay
// in registers, what is computed of them, reductions of that along an axis that is walked in blocks, and a
// second product along the same axis, all of them carried from block to block by the corrections that
// online_reductions.h derives.
//
//   %s = sum of %Q * %K over d : [q, k];  %m = max %s over k;  %p = exp(%s - %m);  %l = sum %p over k
//   %o = sum of %p * %V over k : [q, v];  %y = %o / %l
//   => rows = q, walked = k, depth = d, width = v; carried: a maximum, an anchor, two sums
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
  std::vector<TileValueId> reductions;  // of rows: the second product is not among them
  bool has_product = false;
  std::vector<TileValueId> kept;  // made here of scores, and wanted by later groups
};

struct GpuChain {
  TileGraph graph;  // the region's values, and behind them what is carried and how it moves
  TileValueId scores;
  TileValueId product;  // of one block: what is added to `moved`
  TileValueId total;    // that product of the whole walk, as the region has it
  TileValueId weights;  // its computed factor
  // What the blocks before have left of the second product: before and after it has been corrected.
  TileValueId carry, moved;
  std::vector<CarriedValue> carried;                         // of the rows, all but the product
  std::vector<ChainGroup> groups;                            // in the order in which they are made
  std::vector<std::pair<TileValueId, TileValueId>> results;  // as of an ExpandedPass
  AxisId rows, walked;
  AxisId depth, width;                       // summed over, and of results; they may be one axis
  std::vector<AxisId> batch;                 // the other axes, outermost first
  int depth_length = 16, width_length = 16;  // in whole matrices
  DType dtype = DType::BF16;                 // of what is multiplied
  GpuFactor first, second, third;            // rows along depth; walked along depth; width along walked
  // The same for copies by tensor maps, where `why_not_bulk` is empty.
  GpuBulkFactor first_bulk, second_bulk, third_bulk;
  std::string why_not_bulk;
  std::vector<Expr> nothing;          // of neutral_where
  GpuAccesses of_scores, of_results;  // along `walked` and `width`
  bool fits_int = false;
  bool has_long_function = false;  // computed of scores
  int score_maps = 0;              // that are computed of one
};

Result<GpuChain> analyze_gpu_chain(const TileGraph& graph);

}  // namespace tilefuse
