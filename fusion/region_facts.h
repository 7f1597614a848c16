// What a region's accesses do along every axis, and which values each pass computes: read once from a tile
// graph, and shared by the constraints, the cost model and check_schedule.
//
// Sizes come twice: `extent` at the hints, for costs; extents as expressions in the graph, for legality.
#pragma once
#include <optional>
#include <vector>

#include "core/result.h"
#include "fusion/live_range.h"
#include "fusion/online_walk.h"
#include "fusion/schedule.h"
#include "fusion/shared_reads.h"
#include "fusion/solve.h"
#include "fusion/structure.h"

namespace tilefuse {

struct AxisAccess {
  enum class Kind : uint8_t { Broadcast, Unit, Strided, Irregular };
  Kind kind = Kind::Broadcast;
  int64_t stride = 0;      // elements, at the hints; 0 unless Strided
  bool is_uneven = false;  // Unit, but some neighbours are the same element, of a resized row, say, or change
                           // places within a vector
};

struct Access {  // one load or one store
  std::optional<TileValueId> load;
  std::optional<size_t> store;  // index in TileGraph::stores
  BufferId buffer;
  int element_bytes = 4;
  std::vector<AxisAccess> along;  // by AxisId
  bool is_shared = false;         // by rows of a contraction (panels.h)
  bool is_packed_once = false;    // where it is staged
  double share_read = 1;          // of a load under guards: of the coordinates that it varies along
  double table_bytes = 0;         // of its buffer, where an axis is Irregular: looks fall anywhere in there
  bool in_neighbours =
      false;  // of a tile of neighbours (neighbour_tiles.h): loaded as vectors of every other
  bool varies_along(AxisId axis) const { return along[axis.index].kind != AxisAccess::Kind::Broadcast; }
};

struct RegionFacts {
  Structure structure;
  std::vector<double> extent;    // by AxisId, at the hints
  std::vector<bool> is_literal;  // by AxisId: the extent is the same for all hints
  std::vector<Access> accesses;  // loads in the order of the values, then stores
  double footprint_bytes = 0;    // of all buffers, each counted as far as it is touched
  double home_bytes = 0;         // and of what is touched around the region: decides where operands lie
  bool has_scan = false;
  bool has_index_reduction = false;
  SharedReads shared_reads;      // of a region without reductions
  DotKind dots = DotKind::None;  // that some schedule may walk it in (dots.h)
  std::vector<LiveShare> live;   // of a contraction: of the steps of its walk, those that add anything
  std::optional<OnlineWalk> online;
  std::string why_not_online;
  std::optional<int64_t> literal_extent(std::optional<AxisId> axis) const {
    if (!axis || !is_literal[axis->index]) return std::nullopt;
    return static_cast<int64_t>(extent[axis->index]);
  }
  // The passes of a schedule's walk.
  const Structure& nest(const Schedule& schedule) const {
    return schedule.walk == Walk::Online && online ? online->structure : structure;
  }
};

Result<RegionFacts> collect_region_facts(const TileGraph& graph, const SizeHints& hints);
// With what an online walk would be, which estimates do without.
Result<RegionFacts> collect_schedule_facts(const TileGraph& graph, const SizeHints& hints);

// Bytes of one row of everything that is walked along reduced axes; and of what all rows share.
struct WalkedBytes {
  double apart = 0, shared = 0;
};
WalkedBytes walked_bytes(const RegionFacts& facts);

int64_t hinted_size(const Expr& size, const SizeHints& hints);
double hinted_elements(const std::vector<Expr>& shape, const SizeHints& hints);
double bytes_of_buffers(const TileGraph& graph, const SizeHints& hints);

// Values that vary along reduced axes, are computed in one pass and wanted in a later one: what `keep` may
// hold. Literals and coordinates are never worth it.
std::vector<TileValueId> crossing_values(const TileGraph& graph, const Structure& structure);

// Values computed in each pass, in topological order: a kept value is computed in the first pass that needs
// it, others again in every pass. Values that vary along no reduced axis belong to no pass.
std::vector<std::vector<TileValueId>> values_of_passes(const TileGraph& graph, const Structure& structure,
                                                       const std::vector<TileValueId>& keep);

bool has_unit_access(const RegionFacts& facts, AxisId axis);  // of some load or store

// The innermost parallel axis of the grid order that is not the lane axis: the one that `rows` blocks.
std::optional<AxisId> row_axis(const Schedule& schedule);
// The next one out: that of `columns`.
std::optional<AxisId> column_axis(const Schedule& schedule);

// Whether something is computed for a vector of lanes that rows side by side have in common: coordinates and
// weights of a resized image, say.
bool rows_share_work(const TileGraph& graph, AxisId lane, AxisId row);

// Bytes of one element held on chip: f16 and bf16 are held in f32.
int held_bytes(DType dtype);

}  // namespace tilefuse
