// What a GPU kernel that is bound by memory needs to know of a tile graph: which axis is walked, along which
// one neighbouring threads stand, which axes number the rows, how wide an access may be.
//
//   softmax over [s0, 1024]:  inner = col, lanes = col, outer = {row}, crossing = {%0, %e}
//   sum down [4096, 768]:     inner = row, lanes = col, outer = {col}: a row of the kernel is a column
//
// Reductions walk one axis (gpu_axes.h), but for those that are carried across rows (gpu_carried.h). What is
// not covered is refused with a sentence: see docs/cuda.md.
#pragma once
#include <optional>
#include <vector>

#include "core/result.h"
#include "fusion/gpu_access.h"
#include "fusion/gpu_carried.h"
#include "fusion/structure.h"

namespace tilefuse {

struct GpuRegion {
  Structure structure;  // of what is done with each row, as all below
  // Reductions across rows; their axis is none of the others: a block walks along it.
  std::optional<GpuCarried> carried;
  AxisId inner;  // the reduced axis; of a map the one of the lanes
  // Neighbouring threads are neighbours along this axis: `inner`, or, where the elements of a reduction are
  // apart, the last one of `outer`. What a thread takes at once lies along it, too.
  AxisId lanes;
  std::vector<AxisId> outer;  // the others, outermost first: together they number the rows
  Expr rows;                  // how many there are
  GpuAccesses accesses;       // along `lanes`
  // Loads of a map whose neighbours lie along another axis, `turned`, the last of `outer`: they go through
  // shared memory.
  std::vector<TileValueId> staged;
  AxisId turned;
  std::vector<TileValueId> crossing;  // vary along inner, computed in one pass, wanted in a later one
  int kept_words =
      0;  // 32-bit registers an element of a row takes where all of `crossing` stays in registers
  // Loads that several passes want of rows whose length is known: these may be kept in shared memory.
  std::vector<TileValueId> wanted_again;
  bool fits_int = false;  // every offset into every buffer is an int
  int carried_words = 0;  // 32-bit registers an element of a row takes of what is carried
  bool reduces() const { return !structure.reductions.empty(); }
  bool is_across() const { return lanes != inner; }
};

// Axes that lanes may stand along, the one to prefer first.
std::vector<AxisId> lane_axes(const TileGraph& graph);
// What is done with each row: the graph, without what is carried across rows.
TileGraph graph_of_rows(const TileGraph& graph);
Result<GpuRegion> analyze_gpu_region(const TileGraph& graph, AxisId lanes);
Result<GpuRegion> analyze_gpu_region(const TileGraph& graph);  // along the first of lane_axes

bool scans(const TileGraph& graph);
bool reduces_to_position(const TileGraph& graph);  // of an extreme
bool varies_along(const TileGraph& graph, TileValueId value, AxisId axis);
// The first value that no kernel for GPUs computes, and why.
std::optional<Unsupported> value_without_kernel(const TileGraph& graph);
// The same where it computes what becomes of sums of tensor cores: in registers that hold no f64.
std::optional<Unsupported> value_without_matrix_kernel(const TileGraph& graph);
bool offsets_fit_int(const TileGraph& graph);  // every one, into every buffer
// The same, and conditions on coordinates, where sizes bound them.
bool conditions_fit_int(const TileGraph& graph);

}  // namespace tilefuse
