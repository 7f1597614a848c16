#include "fusion/loop_nest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fusion/matrix_tiles.h"
#include "fusion/panels.h"

namespace tilefuse {
namespace {

constexpr double kLineBytes = 64;
constexpr double kTableShare = 0.5;   // of a cache: a table this small stays while other things pass through
constexpr int64_t kPageBytes = 4096;  // of which caches know the offset in an address

double tile_extent(const RegionFacts& facts, const AxisTile& tile) {
  const double extent = facts.extent[tile.axis.index];
  return tile.tile == 0 ? extent : std::min(extent, double(tile.tile));
}

bool varies(const Access& access, AxisId axis) { return access.varies_along(axis); }

// Lines at a distance that divides a page share the sets of a cache: as many times more of it are taken.
struct Spacing {
  double distance = 0;  // bytes; 0: not lines apart
  double trips = 1;
  double crowding(double run_bytes) const {
    return std::clamp(distance / run_bytes, 1.0, std::max(1.0, trips));
  }
};

std::vector<Spacing> spacings(const std::vector<NestLoop>& nest, const Access& access) {
  std::vector<Spacing> found;
  found.reserve(nest.size());
  for (const NestLoop& loop : nest) {
    const AxisAccess& along = access.along[loop.axis.index];
    const bool is_strided = along.kind == AxisAccess::Kind::Strided;
    found.push_back(
        {is_strided ? double(std::gcd(along.stride * access.element_bytes, kPageBytes)) : 0, loop.trips});
  }
  return found;
}

// What looks that fall anywhere touch at most; 0: they don't.
double bytes_of_table(const Access& access) {
  return access.table_bytes == 0 ? 0 : access.table_bytes + kLineBytes;
}

bool shares_lines(const Access& access, const AxisAccess& along) {
  return along.kind == AxisAccess::Kind::Strided &&
         std::abs(double(along.stride)) * access.element_bytes < kLineBytes;
}

// Elements that lie in one piece, from the innermost loop on: every `gap`-th of so many.
struct Run {
  double elements = 1, gap = 1;

  void skip(double stride, double trips) {
    if (stride * trips <= elements) return;
    gap = std::max(1.0, stride / elements);
    elements = stride * trips;
  }
  // One after the other: between those that are there already, and on behind the last of them.
  void walk(double trips) {
    elements = gap > 1 ? elements + std::max(0.0, trips - gap) : elements * trips;
    gap = std::max(1.0, gap / trips);
  }
};

struct Touched {
  double bytes = 0;  // by the loops from some loop on
  double room = 0;   // that they take in a cache
};
// By the first loop; at the end, of none.
std::vector<Touched> footprints(const std::vector<NestLoop>& nest, const Access& access) {
  std::vector<Touched> found(nest.size() + 1);
  const std::vector<Spacing> apart = spacings(nest, access);
  double elements = 1;
  Run run;
  for (size_t first = nest.size() + 1; first-- > 0;) {
    if (first < nest.size()) {
      const AxisAccess& along = access.along[nest[first].axis.index];
      // Stores, too: an image of which every other element is written in one loop, and the rest in the next,
      // leaves the cache once (bf16, 2.6 MB: priced as a line an element it took 1.6 ms, and takes 0.9).
      if (along.kind == AxisAccess::Kind::Unit) {
        run.walk(nest[first].trips);
      } else if (shares_lines(access, along)) {
        run.skip(std::abs(double(along.stride)), nest[first].trips);
      } else if (along.kind != AxisAccess::Kind::Broadcast) {
        elements *= nest[first].trips;
      }
    }
    const double run_bytes = std::max(kLineBytes, run.elements * access.element_bytes);
    double crowded = 1;
    for (size_t i = first; i < nest.size(); ++i) crowded = std::max(crowded, apart[i].crowding(run_bytes));
    found[first] = {elements * run_bytes, elements * run_bytes * crowded};
    if (const double all = bytes_of_table(access); all > 0 && found[first].bytes > all)
      found[first] = {all, all};
  }
  return found;
}

}  // namespace

std::vector<AxisId> panel_axes(const RegionFacts& facts, const Schedule& schedule) {
  std::vector<AxisId> axes;
  if (!packs_panels(facts.structure, schedule)) return axes;
  for (const Access& access : facts.accesses) {
    const bool is_packed = access.load && is_staged(*access.load, schedule);
    for (uint32_t a = 0; is_packed && a < access.along.size(); ++a) {
      if (access.varies_along(AxisId{a})) axes.push_back(AxisId{a});
    }
  }
  return axes;
}

namespace {

// What a part of a product reads again lies inside it: panels, and what rows share.
std::vector<NestLoop> loops_over_tasks(const RegionFacts& facts, const Schedule& schedule) {
  std::vector<NestLoop> loops;
  if (schedule.split > 1 && facts.structure.contracts) {
    const AxisId axis = facts.structure.reduced.front();
    const auto parts = double(schedule.split);
    loops.push_back({axis, parts, facts.extent[axis.index] / parts, true});
  }
  for (const AxisTile& tile : schedule.grid) {
    const double inner = tile_extent(facts, tile);
    const double whole = facts.extent[tile.axis.index] / inner;  // the last one may be short
    const double trips = tile.axis == schedule.lane_axis ? std::ceil(whole) : whole;
    if (trips > 1) loops.push_back({tile.axis, trips, inner, true});
  }
  return loops;
}

// Blocks of rows in the mean task: each task ends with one that may be short.
double row_blocks(const RegionFacts& facts, const AxisTile& tile, double rows) {
  const double extent = facts.extent[tile.axis.index], inner = tile_extent(facts, tile);
  const double whole = std::floor(extent / inner);
  const double blocks = whole * std::ceil(inner / rows) + std::ceil((extent - whole * inner) / rows);
  return blocks * inner / extent;
}

// Of the parallel axes in a task: around the loop over lanes, and inside it.
struct RowLoops {
  std::vector<NestLoop> outside, inside;
};
RowLoops loops_over_rows(const RegionFacts& facts, const Schedule& schedule) {
  RowLoops loops;
  const std::optional<AxisId> row = row_axis(schedule), column = column_axis(schedule);
  const std::vector<AxisId> packed = panel_axes(facts, schedule);
  const std::vector<AxisId> order =
      parallel_loop_order(facts.structure, schedule, packed, facts.literal_extent(schedule.lane_axis));
  const auto lane_place = std::find(order.begin(), order.end(), schedule.lane_axis);
  for (const AxisTile& tile : schedule.grid) {
    if (tile.axis == schedule.lane_axis) continue;
    const double rows = tile.axis == row ? schedule.rows : tile.axis == column ? schedule.columns : 1;
    const bool is_outside = std::find(order.begin(), lane_place, tile.axis) != lane_place;
    (is_outside ? loops.outside : loops.inside)
        .push_back({tile.axis, row_blocks(facts, tile, rows), rows, false});
  }
  return loops;
}

// Parts of the summed axis, in matrix tiles: around the rows of a task.
void cut_in_parts(const RegionFacts& facts, const Schedule& schedule, std::vector<NestLoop>& nest,
                  std::vector<NestLoop>& reduced) {
  if (!schedule.block || !takes_tile_rows(schedule.rows)) return;
  const auto [axis, tile] = *schedule.block;
  const double parts = std::ceil(facts.extent[axis.index] / double(tile));
  nest.push_back({axis, parts, double(tile)});
  for (NestLoop& loop : reduced) loop.trips /= loop.axis == axis ? parts : 1;
}

double tasks_along(const RegionFacts& facts, const AxisTile& tile) {  // the last may be part of one
  return tile.tile > 0 ? facts.extent[tile.axis.index] / double(tile.tile) : 1;
}

// Rows, and columns around them, that are written out.
void add_registers(const Schedule& schedule, std::vector<NestLoop>& nest) {
  const std::optional<AxisId> row = row_axis(schedule), column = column_axis(schedule);
  if (schedule.columns > 1 && column)
    nest.push_back({*column, double(schedule.columns), 1, false, true, true});
  if (schedule.rows > 1 && row) nest.push_back({*row, double(schedule.rows), 1, false, true, true});
}

}  // namespace

double task_count(const RegionFacts& facts, const Schedule& schedule) {
  double tasks = 1;
  for (const AxisTile& tile : schedule.grid) tasks *= std::ceil(tasks_along(facts, tile));
  return tasks;
}

double full_task_count(const RegionFacts& facts, const Schedule& schedule) {
  double tasks = 1;
  for (const AxisTile& tile : schedule.grid) tasks *= std::max(1.0, tasks_along(facts, tile));
  return tasks;
}

bool iterates_along_rows(const RegionFacts& facts, const Schedule& schedule) {
  if (!schedule.lane_axis) return true;
  const double row = facts.extent[schedule.lane_axis->index];
  double tile = row;
  for (const AxisTile& part : schedule.grid) {
    if (part.axis == *schedule.lane_axis) tile = tile_extent(facts, part);
  }
  const double iterations = std::floor(tile / (double(schedule.lanes) * schedule.unroll));
  return iterations > 2 || (iterations == 2 && tile == row);
}

std::vector<NestLoop> loop_nest(const RegionFacts& facts, const Schedule& schedule) {
  std::vector<NestLoop> nest = loops_over_tasks(facts, schedule);
  const std::optional<AxisId> lane = schedule.lane_axis;
  const auto [outside, inside] = loops_over_rows(facts, schedule);
  nest.insert(nest.end(), outside.begin(), outside.end());
  std::vector<NestLoop> reduced, lane_loop;
  for (AxisId axis : facts.structure.reduced) {
    NestLoop loop{axis, facts.extent[axis.index], 1, false};
    for (const NestLoop& outer : nest) loop.trips /= outer.axis == axis ? outer.trips : 1;
    (axis == lane ? lane_loop : reduced).push_back(loop);
  }
  const bool lane_inside = schedule.accumulate_in_scratch || (lane && facts.structure.is_reduced(*lane));
  const bool is_one_vector = is_whole_vector(facts.structure, schedule, facts.literal_extent(lane));
  const bool in_blocks = !lane_inside && (is_one_vector || !reduced.empty());
  double block = double(schedule.lanes) * schedule.unroll;
  for (const AxisTile& tile : schedule.grid) {
    if (tile.axis != lane) continue;
    const double extent = tile_extent(facts, tile);
    if (extent < schedule.lanes) block = extent;  // a vector that is not full reads no more than there is
    lane_loop.push_back(in_blocks ? NestLoop{tile.axis, std::ceil(extent / block), block, false}
                                  : NestLoop{tile.axis, extent, 1, false});
  }
  const auto& second = lane_inside ? reduced : lane_loop;
  const auto& third = lane_inside ? lane_loop : reduced;
  nest.insert(nest.end(), second.begin(), second.end());
  cut_in_parts(facts, schedule, nest, reduced);
  nest.insert(nest.end(), inside.begin(), inside.end());
  nest.insert(nest.end(), third.begin(), third.end());
  add_registers(schedule, nest);
  if (lane && in_blocks) nest.push_back({*lane, block, 1, false, true});
  return nest;
}

namespace {

bool counts_elements(const NestLoop& loop, const Schedule& schedule) {
  return loop.axis == schedule.lane_axis && !loop.over_tasks && loop.step == 1;
}

}  // namespace

double iterations_of(const NestLoop& loop, const Schedule& schedule) {
  return counts_elements(loop, schedule) ? std::ceil(loop.trips / schedule.lanes) : loop.trips;
}

double trips_of(const NestLoop& loop, const Schedule& schedule) {
  const double iterations = iterations_of(loop, schedule);
  return counts_elements(loop, schedule) ? std::ceil(iterations / schedule.unroll) : iterations;
}

double executions(const std::vector<NestLoop>& nest, const Schedule& schedule,
                  const std::vector<bool>& axes) {
  double count = 1, so_far = 1, copies = 1;
  for (const NestLoop& loop : nest) {
    const double times = iterations_of(loop, schedule);
    if (loop.in_registers) {
      copies *= axes[loop.axis.index] ? times : 1;
      continue;
    }
    so_far *= times;
    if (axes[loop.axis.index]) count = so_far;
  }
  return count * copies;
}

Footprints::Footprints(const std::vector<NestLoop>& nest, const std::vector<const Access*>& accesses)
    : accesses_(accesses.size()), room_(nest.size() + 1, 0), missed_(room_.size() * accesses.size()) {
  for (size_t a = 0; a < accesses.size(); ++a) {
    const Access* access = accesses[a];
    tables_.push_back(bytes_of_table(*access));
    const std::vector<Touched> touched = footprints(nest, *access);
    for (size_t level = 0; level <= nest.size(); ++level) {
      room_[level] += touched[level].room;
      size_t outer = level;
      while (outer > 0 && !varies(*access, nest[outer - 1].axis)) --outer;
      // Neighbours in a line are read one right after the other.
      while (outer > 0 && access->along[nest[outer - 1].axis.index].kind == AxisAccess::Kind::Unit) --outer;
      double bytes = touched[outer].bytes;
      for (size_t i = 0; i < outer; ++i) bytes *= nest[i].trips;
      missed_[level * accesses_ + a] = bytes;
    }
  }
}

std::vector<double> Footprints::missed_bytes(double limit) const {
  size_t level = 0;
  while (level + 1 < room_.size() && room_[level] > limit) ++level;
  const auto first = missed_.begin() + static_cast<std::ptrdiff_t>(level * accesses_);
  std::vector<double> missed(first, first + static_cast<std::ptrdiff_t>(accesses_));
  for (size_t a = 0; a < accesses_; ++a) {
    if (tables_[a] > 0 && tables_[a] <= kTableShare * limit) missed[a] = std::min(missed[a], tables_[a]);
  }
  return missed;
}

double scratch_rows(const RegionFacts& facts) {
  return std::min(double(kScratchRows), facts.extent[facts.structure.reduced.back().index]);
}

MemoryWalk memory_walk(const std::vector<NestLoop>& nest, const Access& access) {
  const auto goes_on = [&](const NestLoop& loop, double run) {
    const AxisAccess& along = access.along[loop.axis.index];
    const double stride = along.kind == AxisAccess::Kind::Unit ? 1 : double(along.stride);
    return along.kind != AxisAccess::Kind::Irregular && stride * loop.step == run;
  };
  Run run;
  double rows = 1;
  for (size_t i = nest.size(); i-- > 0;) {
    const NestLoop& loop = nest[i];
    const bool moves = access.varies_along(loop.axis) && loop.trips > 1;
    if (!moves || loop.side_by_side) continue;
    const AxisAccess& along = access.along[loop.axis.index];
    if (rows == 1 && run.gap > 1 && along.kind == AxisAccess::Kind::Unit && loop.step == 1) {
      run.walk(loop.trips);
    } else if (rows == 1 && shares_lines(access, along) && loop.step == 1) {
      run.skip(std::abs(double(along.stride)), loop.trips);
    } else if (!goes_on(loop, run.elements)) {
      rows *= loop.trips;
    } else if (rows == 1) {
      run.elements *= loop.trips;
    } else {
      break;
    }
    for (const NestLoop& beside : nest) {
      const bool is_close = run.elements * beside.trips * access.element_bytes <= kFetchedAheadBytes;
      if (beside.side_by_side && rows == 1 && is_close && goes_on(beside, run.elements))
        run.elements *= beside.trips;
    }
  }
  return {run.elements * access.element_bytes, rows};
}

MemoryWalk in_pieces(const MemoryWalk& walk, double piece_bytes) {
  if (piece_bytes == 0 || piece_bytes >= walk.run_bytes) return walk;
  return {piece_bytes, walk.rows * walk.run_bytes / piece_bytes};
}

double accessed_bytes(const RegionFacts& facts, const Access& access) {
  double bytes = access.element_bytes;
  for (uint32_t a = 0; a < facts.extent.size(); ++a) {
    if (access.varies_along(AxisId{a})) bytes *= facts.extent[a];
  }
  return bytes;
}

double largest_element_bytes(const RegionFacts& facts) {
  double most = 0, found = 4;
  for (const Access& access : facts.accesses) {
    const double bytes = access.load ? accessed_bytes(facts, access) : 0;
    if (bytes > most) found = access.element_bytes;
    most = std::max(most, bytes);
  }
  return found;
}

double part_bytes(const RegionFacts& facts, const Schedule& schedule, const Access& access) {
  if (schedule.split <= 1 || !access.load) return 0;
  const AxisId axis = facts.structure.reduced.front();
  const AxisAccess& along = access.along[axis.index];
  const double stride = along.kind == AxisAccess::Kind::Unit ? 1 : double(std::abs(along.stride));
  return facts.extent[axis.index] / double(schedule.split) * stride * access.element_bytes;
}

}  // namespace tilefuse
