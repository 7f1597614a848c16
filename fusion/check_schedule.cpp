#include "fusion/check_schedule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/contains.h"
#include "fusion/check_chain.h"
#include "fusion/launches.h"
#include "fusion/matrix_tiles.h"
#include "fusion/panels.h"
#include "fusion/region_facts.h"
#include "fusion/scan.h"
#include "fusion/scatter.h"
#include "fusion/shared_reads.h"

namespace tilefuse {
namespace {

constexpr int kLineBytes = 64;

class Checker {
 public:
  Checker(const TileGraph& graph, const Schedule& schedule, Structure structure)
      : graph_(graph), schedule_(schedule), structure_(std::move(structure)) {}

  void check_lanes();
  void check_grid();
  void check_walk();
  void check_keep();
  void check_rows();
  void check_tiles();
  void check_columns();
  void check_split();
  void check_accumulate();
  void check_staged();
  void check_streamed();
  void check_scatter();
  void check_limits(const Target& target);
  std::vector<std::string> findings() && { return std::move(findings_); }

 private:
  void require(bool condition, const std::string& finding) {
    if (!condition) findings_.push_back(finding);
  }
  const std::string& name(AxisId axis) const { return graph_[axis].name; }
  bool lanes_are_parallel() const {
    return schedule_.lane_axis && !structure_.is_reduced(*schedule_.lane_axis);
  }
  bool has_reductions() const { return !structure_.reductions.empty(); }
  const AxisTile* tile_of(AxisId axis) const;
  void check_resident();
  void check_online();
  void check_staged_load(const StagedLoad& staged);
  void check_panel(const StagedLoad& staged);
  double staged_bytes(const StagedLoad& staged) const;
  std::optional<std::string> why_not_streamed(BufferId buffer) const;
  double largest_extent(AxisId axis) const;  // 1e300: no bound is known
  double held_elements(const TileValue& value) const;

  const TileGraph& graph_;
  const Schedule& schedule_;
  Structure structure_;
  std::vector<std::string> findings_;
  bool merges_parts_ = false;  // an online walk whose parts can be merged
};

const AxisTile* Checker::tile_of(AxisId axis) const {
  for (const AxisTile& tile : schedule_.grid) {
    if (tile.axis == axis) return &tile;
  }
  return nullptr;
}

bool one_of(int64_t value, std::initializer_list<int64_t> allowed) {
  return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

void Checker::check_lanes() {
  require(one_of(schedule_.lanes, {1, 4, 8, 16, 32}),
          "lanes: " + std::to_string(schedule_.lanes) + " is none of 1, 4, 8, 16, 32");
  require(one_of(schedule_.unroll, {1, 2, 4}),
          "lanes: unroll " + std::to_string(schedule_.unroll) + " is not 1, 2 or 4");
  require((schedule_.lanes == 1) == !schedule_.lane_axis, "lanes: a lane axis goes with more than one lane");
  if (!schedule_.lane_axis) {
    require(schedule_.unroll == 1, "lanes: unroll needs a lane axis");
    return;
  }
  for (TileValueId reduction : structure_.reductions) {
    const auto* scan = std::get_if<TileScan>(&graph_[reduction].op);
    if (scan == nullptr || scan->axis != *schedule_.lane_axis || may_have_lanes(graph_[reduction])) continue;
    findings_.push_back("lanes: %" + graph_[reduction].name + " is a logical scan along " +
                        name(*schedule_.lane_axis) + ", which cannot be the lane axis");
  }
}

void Checker::check_grid() {
  std::set<AxisId> seen;
  for (const AxisTile& tile : schedule_.grid) {
    require(!structure_.is_reduced(tile.axis), "grid: " + name(tile.axis) + " is a reduced axis");
    require(seen.insert(tile.axis).second, "grid: " + name(tile.axis) + " is listed twice");
    require(tile.tile >= 0, "grid: the tile of " + name(tile.axis) + " is negative");
    if (tile.axis == schedule_.lane_axis) {
      const int64_t step = int64_t{schedule_.lanes} * schedule_.unroll;
      require(tile.tile % step == 0, "grid: the tile " + std::to_string(tile.tile) + " of the lane axis " +
                                         name(tile.axis) + " is no multiple of " + std::to_string(step));
    }
  }
  for (AxisId axis : structure_.parallel) {
    require(seen.contains(axis), "grid: the parallel axis " + name(axis) + " is missing");
  }
}

void Checker::check_walk() {
  require((schedule_.walk == Walk::None) == !has_reductions(),
          has_reductions() ? "walk: a region with reductions needs one" : "walk: there is no reduction");
  if (schedule_.walk == Walk::Online) check_online();
  require(schedule_.walk == Walk::Online || takes_tile_rows(schedule_.rows) || !schedule_.block,
          "walk: a block goes with an online walk, or with rows of matrix tiles");
  require(schedule_.walk != Walk::Resident || structure_.passes > 1, "walk: resident needs a second pass");
  if (schedule_.walk == Walk::Resident) check_resident();
}

void Checker::check_online() {
  const Result<OnlineWalk> online = plan_online_walk(graph_, structure_);
  if (!online) return require(false, "walk: no online walk: " + online.unsupported().reason);
  merges_parts_ = online->can_split;
  require(schedule_.keep.empty(), "keep: an online walk keeps nothing");
  require(schedule_.rows == 1, "rows: an online walk corrects one row at a time");
  if (!schedule_.block) return require(false, "walk: an online walk needs a block");
  const AxisTile& block = *schedule_.block;
  require(structure_.is_reduced(block.axis), "walk: the block axis " + name(block.axis) + " is not reduced");
  const int64_t step = block.axis == schedule_.lane_axis ? int64_t{schedule_.lanes} * schedule_.unroll : 1;
  require(block.tile > 0 && block.tile % step == 0,
          "walk: the block " + std::to_string(block.tile) + " is no multiple of " + std::to_string(step));
}

void Checker::check_resident() {
  std::set<TileValueId> read;
  for (const std::vector<TileValueId>& pass : values_of_passes(graph_, structure_, schedule_.keep)) {
    for (TileValueId value : pass) {
      if (!std::holds_alternative<TileLoad>(graph_[value].op)) continue;
      require(read.insert(value).second,
              "walk: resident, but %" + graph_[value].name + " would be read again in a later pass");
    }
  }
}

void Checker::check_keep() {
  const std::vector<TileValueId> crossing = crossing_values(graph_, structure_);
  std::set<TileValueId> seen;
  for (TileValueId value : schedule_.keep) {
    require(seen.insert(value).second, "keep: %" + graph_[value].name + " is listed twice");
    require(std::find(crossing.begin(), crossing.end(), value) != crossing.end(),
            "keep: no later pass needs %" + graph_[value].name);
  }
}

void Checker::check_rows() {
  if (takes_tile_rows(schedule_.rows)) {
    check_tiles();
  } else {
    require(
        one_of(schedule_.rows, {1, 2, 3, 4, 6, 8}),
        "rows: " + std::to_string(schedule_.rows) + " is not 1, 2, 3, 4, 6 or 8, nor rows of matrix tiles");
  }
  if (schedule_.columns > 1) check_columns();
  if (schedule_.rows <= 1) return;
  require(!schedule_.accumulate_in_scratch, "rows: accumulators in scratch are a row already");
  const std::optional<AxisId> axis = row_axis(schedule_);
  require(axis.has_value(), "rows: there is no parallel axis to block");
  if (!axis) return;
  const std::optional<AxisId>& lanes = schedule_.lane_axis;
  const bool shares =
      has_reductions() ||
      (lanes && (rows_share_work(graph_, *lanes, *axis) || SharedReads(graph_).any_along(*axis, *lanes)));
  require(shares, "rows: there is no reduction, and nothing that rows would share");
  const int64_t tile = tile_of(*axis)->tile;
  require(tile % schedule_.rows == 0, "rows: the tile " + std::to_string(tile) + " of " + name(*axis) +
                                          " is no multiple of " + std::to_string(schedule_.rows));
}

void Checker::check_tiles() {
  require(walks_tiles(graph_, structure_, schedule_),
          "rows: matrix tiles multiply a staged panel of narrow factors, in dots, along " +
              std::to_string(kTileLanes) + " lanes with rows of others, and do nothing else in the walk");
  const bool sums_along = schedule_.block && structure_.reduced == std::vector{schedule_.block->axis};
  const bool is_whole = sums_along && schedule_.block->tile % tile_step(schedule_.dots) == 0;
  require(!schedule_.block || is_whole, "walk: a block of matrix tiles is whole steps of the summed axis");
  const int64_t tiles = int64_t{schedule_.rows} / kTileRows * schedule_.unroll;
  require(tiles <= kMostSumTiles, "rows: " + std::to_string(tiles) + " matrix tiles of sums are more than " +
                                      std::to_string(kMostSumTiles));
}

void Checker::check_columns() {
  require(one_of(schedule_.columns, {1, 2, 3, 4, 6, 8}),
          "rows: " + std::to_string(schedule_.columns) + " columns are not 1, 2, 3, 4, 6 or 8");
  const bool is_simple =
      std::none_of(structure_.reductions.begin(), structure_.reductions.end(), [&](TileValueId id) {
        const auto* reduce = std::get_if<TileReduce>(&graph_[id].op);
        return reduce == nullptr || info(reduce->kind).is_index;
      });
  require(has_reductions() && structure_.passes == 1 && is_simple && !schedule_.accumulate_in_scratch,
          "rows: columns are sums of one pass that rows share");
  require(schedule_.lane_axis && structure_.is_reduced(*schedule_.lane_axis),
          "rows: columns need lanes along a reduced axis");
  const std::optional<AxisId> axis = column_axis(schedule_);
  require(axis.has_value(), "rows: there is no second parallel axis to block");
  if (!axis) return;
  require(tile_of(*axis)->tile % schedule_.columns == 0,
          "rows: the tile of " + name(*axis) + " is no multiple of " + std::to_string(schedule_.columns));
}

void Checker::check_split() {
  require(schedule_.split >= 1, "split: must be at least 1");
  if (schedule_.split <= 1) return;
  require(structure_.passes == 1 || merges_parts_,
          "split: needs reductions of one level, and no store along a reduced axis, or an online walk");
  require(!structure_.reduced.empty(), "split: there is no reduced axis");
  for (TileValueId reduction : structure_.reductions) {
    const TileValue& value = graph_[reduction];
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    require(reduce != nullptr, "split: the scan %" + value.name + " cannot be split");
    if (reduce != nullptr) {
      require(!info(reduce->kind).is_index, "split: %" + value.name + " finds a position");
    }
  }
}

void Checker::check_accumulate() {
  if (!schedule_.accumulate_in_scratch) return;
  require(has_reductions() && lanes_are_parallel(),
          "accumulate: accumulators in scratch need a parallel lane axis and a reduction");
  require(structure_.passes == 1,
          "accumulate: needs reductions of one level, and no store along a reduced axis");
  for (TileValueId reduction : structure_.reductions) {
    const auto* reduce = std::get_if<TileReduce>(&graph_[reduction].op);
    require(reduce != nullptr, "accumulate: %" + graph_[reduction].name + " is a scan");
    if (reduce == nullptr) continue;
    require(!info(reduce->kind).is_index, "accumulate: %" + graph_[reduction].name + " finds a position");
    const std::vector<AxisId>& domain = graph_[reduction].axes;
    require(schedule_.lane_axis && std::binary_search(domain.begin(), domain.end(), *schedule_.lane_axis),
            "accumulate: %" + graph_[reduction].name + " does not vary along the lane axis");
  }
}

void Checker::check_staged_load(const StagedLoad& staged) {
  const TileValue& value = graph_[staged.load];
  const std::string what = "stage: %" + value.name;
  const auto* load = std::get_if<TileLoad>(&value.op);
  require(load != nullptr, what + " is no load");
  const bool is_panel = structure_.contracts;
  require(schedule_.lane_axis.has_value(), what + " needs a lane axis");
  require(!is_panel || lanes_are_parallel(), what + " needs a parallel lane axis");
  if (load == nullptr || !schedule_.lane_axis || (is_panel && !lanes_are_parallel())) return;
  const bool is_whole = load->guard.empty() || (!is_panel && guarded_span(*load, staged.contiguous));
  require(load->gathered.empty() && is_whole, what + " is gathered or guarded");
  require(held_bytes(value.dtype) <= 4, what + " has elements of more than 4 bytes");
  const std::optional<Expr> along = stride_along(graph_, *load, staged.contiguous);
  require(along && along->is_constant(1), what + " is not contiguous along " + name(staged.contiguous));
  const std::optional<Expr> across = stride_along(graph_, *load, *schedule_.lane_axis);
  require(across && !across->is_constant(0), what + " does not walk the lane axis in even steps");
  if (is_panel) return check_panel(staged);
  require(!structure_.is_reduced(staged.contiguous), what + " is contiguous along a reduced axis");
  require(schedule_.split == 1 && !schedule_.accumulate_in_scratch && schedule_.walk != Walk::Online,
          what + " is turned for whole walks that add in registers");
  require(staged.contiguous != *schedule_.lane_axis, what + " is contiguous along the lane axis already");
  const std::optional<AxisId> column = column_axis(schedule_);
  const bool meets_columns = schedule_.columns > 1 && column && contains(value.axes, *column);
  require(!meets_columns || staged.contiguous != row_axis(schedule_),
          what + " is turned for one column at a time");
  for (AxisId axis : {staged.contiguous, *schedule_.lane_axis}) {
    if (structure_.is_reduced(axis)) continue;  // a task has all of it
    const AxisTile* tile = tile_of(axis);
    require(tile != nullptr && tile->tile % schedule_.lanes == 0,
            what + " needs a tile of " + name(axis) + " that is a multiple of the lanes");
  }
}

void Checker::check_panel(const StagedLoad& staged) {
  const std::string what = "stage: the panel of %" + graph_[staged.load].name;
  require(is_shared_by_rows(graph_, structure_, staged.load), what + " is shared by no rows");
  const bool along = staged.contiguous == schedule_.lane_axis || structure_.is_reduced(staged.contiguous);
  require(along, what + " is contiguous neither along its lanes nor along a reduced axis");
  const std::vector<AxisId>& axes = graph_[staged.load].axes;
  const std::optional<AxisId> row = row_axis(schedule_);
  require(!row || !std::binary_search(axes.begin(), axes.end(), *row), what + " is not shared by rows");
  require(!schedule_.accumulate_in_scratch, what + " goes with accumulators in registers");
  require(schedule_.walk != Walk::Online, what + " lies outside the blocks of an online walk");
}

void Checker::check_staged() {
  std::set<TileValueId> seen;
  for (const StagedLoad& staged : schedule_.staged) {
    require(seen.insert(staged.load).second, "stage: %" + graph_[staged.load].name + " is listed twice");
    check_staged_load(staged);
  }
}

// A streamed store writes whole, aligned lines: any other touches memory twice.
std::optional<std::string> Checker::why_not_streamed(BufferId buffer) const {
  if (graph_[buffer].role != Buffer::Role::Output) return "is no output";
  if (!schedule_.lane_axis) return "is stored one element at a time";
  const int bytes = size_in_bytes(graph_[buffer].dtype);
  if (schedule_.lanes * schedule_.unroll * bytes % kLineBytes != 0) {
    return "is stored " + std::to_string(schedule_.lanes * schedule_.unroll * bytes) +
           " bytes at a time, which is no whole line";
  }
  for (const TileStore& store : graph_.stores) {
    if (store.buffer != buffer) continue;
    if (store.scatter) return "is scattered into, which reads what is there";
    const std::optional<Expr> along = stride_along(graph_, store, *schedule_.lane_axis);
    if (!along || !along->is_constant(1)) return "is not contiguous along the lane axis";
    const std::optional<Affine> affine =
        affine_in(store.offset, static_cast<int>(schedule_.lane_axis->index));
    if (!affine || !is_multiple_of(affine->rest, kLineBytes / bytes))
      return "has rows that begin inside a line";
  }
  return std::nullopt;
}

void Checker::check_streamed() {
  std::set<BufferId> seen;
  for (BufferId buffer : schedule_.streamed) {
    require(seen.insert(buffer).second, "stores: %" + graph_[buffer].name + " is listed twice");
    if (const auto why = why_not_streamed(buffer))
      findings_.push_back("stores: %" + graph_[buffer].name + " " + *why);
  }
  for (BufferId buffer : schedule_.ahead) {
    require(seen.insert(buffer).second, "stores: %" + graph_[buffer].name + " is listed twice");
    require(graph_[buffer].role == Buffer::Role::Output, "stores: %" + graph_[buffer].name + " is no output");
  }
}

// Elements that may meet in one place are written by one task, in order.
void Checker::check_scatter() {
  if (!scatters(graph_)) return;
  std::optional<AxisId> outer;
  std::map<AxisId, int64_t> within;
  for (const MeetingAxis& meeting : meeting_axes(graph_)) within[meeting.axis] = meeting.within;
  for (const AxisTile& tile : schedule_.grid) {
    if (!within.contains(tile.axis)) continue;
    const int64_t block = within.at(tile.axis);
    require(tile.tile == 0 || (block > 0 && tile.tile % block == 0),
            "grid: elements of a scatter may meet along " + name(tile.axis) +
                ", of which a task has to take " +
                (block > 0 ? "multiples of " + std::to_string(block) : "all") + ", not " +
                std::to_string(tile.tile));
    require(!outer || *outer < tile.axis, "grid: " + name(tile.axis) + " is walked in another order");
    outer = tile.axis;
  }
  const std::optional<AxisId> row = row_axis(schedule_);
  if (row && within.contains(*row) && within.at(*row) > 0) {
    require(within.at(*row) % schedule_.rows == 0, "rows: " + std::to_string(schedule_.rows) +
                                                       " side by side do not go to one of the pieces of " +
                                                       std::to_string(within.at(*row)));
  }
  if (const auto lanes = schedule_.lane_axis) {
    require(!within.contains(*lanes), "lanes: elements of a scatter may meet along " + name(*lanes));
  }
  require(schedule_.split == 1, "split: a scatter is not split");
  require(schedule_.columns == 1, "rows: a scatter walks blocks of columns in another order");
}

double Checker::largest_extent(AxisId axis) const {
  const int64_t high = bounds(graph_[axis].extent).high;
  return high == std::numeric_limits<int64_t>::max() ? 1e300 : double(high);
}

// Elements of a kept value that one task holds at a time, at the largest sizes.
double Checker::held_elements(const TileValue& value) const {
  double elements = 1;
  for (AxisId axis : value.axes) {
    if (structure_.is_reduced(axis)) {
      elements *= largest_extent(axis);
    } else if (axis == schedule_.lane_axis) {
      elements *= schedule_.lanes * schedule_.unroll;
    } else if (axis == row_axis(schedule_)) {
      elements *= schedule_.rows;
    }
  }
  return elements;
}

double Checker::staged_bytes(const StagedLoad& staged) const {
  const bool in_dots = structure_.contracts && walks_dots(graph_, structure_, schedule_);
  const double element = in_dots ? 4.0 / info(schedule_.dots).count : 4;
  double bytes = structure_.contracts ? element * schedule_.lanes * schedule_.unroll : element;
  for (AxisId axis : graph_[staged.load].axes) {
    if (structure_.contracts && !structure_.is_reduced(axis)) continue;
    const AxisTile* tile = tile_of(axis);
    bytes *= tile != nullptr && tile->tile > 0 ? double(tile->tile) : largest_extent(axis);
    const bool is_cut = structure_.contracts && axis == structure_.reduced.front();
    if (is_cut) bytes /= double(schedule_.split);
  }
  return bytes;
}

void Checker::check_limits(const Target& target) {
  require(schedule_.lanes * 4 <= 2 * target.vector_bytes, "lanes: " + std::to_string(schedule_.lanes) +
                                                              " lanes are more than two registers of " +
                                                              std::to_string(target.vector_bytes) + " bytes");
  double kept = 0;
  for (TileValueId value : schedule_.keep) {
    kept += held_elements(graph_[value]) * held_bytes(graph_[value].dtype);
  }
  require(kept <= double(target.l2_bytes) / 2, "keep: the kept values take more than half of L2 (" +
                                                   std::to_string(target.l2_bytes / 2) + " bytes)");
  double panels = 0;
  for (const StagedLoad& staged : schedule_.staged) {
    if (is_packed_once(graph_, structure_, staged.load)) continue;
    const double bytes = staged_bytes(staged);
    panels += structure_.contracts ? bytes : 0;
    require(std::max(bytes, panels) <= double(target.l2_bytes) / 2,
            "stage: the " + std::string(structure_.contracts ? "panel" : "turned tile") + " of %" +
                graph_[staged.load].name + " takes more than half of L2");
  }
  if (schedule_.lanes == 1 || schedule_.accumulate_in_scratch || takes_tile_rows(schedule_.rows)) return;
  // Without blocking, spilling is the compiler's business.
  const auto single = static_cast<int64_t>(structure_.reductions.size());
  const int64_t vectors = single * schedule_.rows * schedule_.columns * schedule_.unroll;
  require(vectors == single || vectors < target.vector_registers,
          "lanes: " + std::to_string(vectors) + " accumulators do not fit " +
              std::to_string(target.vector_registers) + " registers");
}

std::vector<std::string> check_launches(const TileGraph& graph, const Schedule& schedule,
                                        const Target* target) {
  const Result<std::vector<TileGraph>> launches = launches_of(graph);
  if (!launches) return {"grid: " + launches.unsupported().reason};
  if (launches->size() != schedule.nests.size()) {
    return {"grid: " + graph.name + " takes " + std::to_string(launches->size()) + " launches, not " +
            std::to_string(schedule.nests.size())};
  }
  std::vector<std::string> findings;
  const int main = schedule.nests[kMainLaunch].lanes;
  for (size_t n = 0; n < launches->size(); ++n) {
    const Schedule& launch = schedule.nests[n];
    if (launch.lanes != 1 && main != 1 && launch.lanes != main) {
      findings.push_back("lanes: the launches of a region have vectors of one length, not " +
                         std::to_string(launch.lanes) + " and " + std::to_string(main));
    }
    if (n != kMainLaunch && launch.split != 1) {
      findings.push_back("split: " + launch.tile_graph + " is not split");
    }
    for (std::string& finding : check_schedule((*launches)[n], schedule.nests[n], target)) {
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace

std::vector<std::string> check_schedule(const TileGraph& graph, const Schedule& schedule,
                                        const Target* target) {
  if (takes_launches(graph)) return check_launches(graph, schedule, target);
  if (!schedule.nests.empty()) return check_chain(graph, schedule, target);
  Result<Structure> structure = analyze_structure(graph);
  if (!structure) return {"grid: " + structure.unsupported().reason};
  Checker checker(graph, schedule, *std::move(structure));
  checker.check_lanes();
  checker.check_grid();
  checker.check_walk();
  checker.check_keep();
  checker.check_rows();
  checker.check_split();
  checker.check_accumulate();
  checker.check_staged();
  checker.check_streamed();
  checker.check_scatter();
  if (target != nullptr) checker.check_limits(*target);
  return std::move(checker).findings();
}

}  // namespace tilefuse
