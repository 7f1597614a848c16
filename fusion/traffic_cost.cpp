#include "fusion/traffic_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fusion/contraction.h"
#include "fusion/matrix_tiles.h"
#include "fusion/panels.h"
#include "fusion/stored_copy.h"

namespace tilefuse {
namespace {

constexpr double kLineBytes = 64;
constexpr double kSequentialBytes = 4096;   // a piece this long costs what a straight walk costs
constexpr double kPageRestartBytes = 4096;  // what a jump to a page costs whose address is not remembered
constexpr double kTrackedRows = 8;          // walked side by side, each is fetched ahead as one alone is
constexpr double kLongRowBytes = 512;       // shorter ones side by side are one walk, or nearly
constexpr double kPageBytes = 4096, kRememberedBytes = 2048 * kPageBytes;

// Pages of a virtual machine crowd some sets of L2 and leave others free: what is walked again is found there
// less and less, long before and long after it has the size of the cache.
double share_beyond_l2(const Target& target, double bytes) {
  const double usable = target.rate("cache.usable");
  const double all = target.rate_or("cache.L2.found", usable), none = target.rate_or("cache.L2.lost", usable);
  const double size = bytes / double(target.l2_bytes);
  return size <= all ? 0 : size >= none ? 1 : (size - all) / (none - all);
}

// Bytes from one of the rows that an access walks side by side to the next; 0: there is one at a time.
double rows_apart(const Access& access, const Schedule& schedule) {
  const std::optional<AxisId> row = row_axis(schedule);
  if (schedule.rows == 1 || !row) return 0;
  return double(access.along[row->index].stride) * access.element_bytes;
}

TrafficCost::Home home_of(const Target& target, double bytes, int threads) {
  const double shared_l3 = usable_bytes(target, MemoryLevel::L3, 1);
  const double each = bytes / threads, beyond_l2 = share_beyond_l2(target, each);
  if (beyond_l2 == 0) return {level_holding(target, each, 1), 0};
  return {bytes <= shared_l3 ? MemoryLevel::L3 : MemoryLevel::Dram, beyond_l2};
}

// The share of what one pass touches that a later one still finds in a cache, as it comes to each element at
// the same place of its own walk: between two looks at the first element lies all of the earlier pass,
// between those at the last one all of the later.
double share_found(double earlier_bytes, double later_bytes, double usable) {
  const double least = std::min(earlier_bytes, later_bytes), most = std::max(earlier_bytes, later_bytes);
  if (most <= usable) return 1;
  return least >= usable ? 0 : (usable - least) / (most - least);
}

}  // namespace

TrafficCost::TrafficCost(const TileGraph& graph, const Target& target, const RegionFacts& facts, int threads)
    : graph_(graph),
      facts_(facts),
      home_(home_of(target, facts.home_bytes, threads)),
      own_home_(home_of(target, facts.footprint_bytes, threads)),
      usable_{usable_bytes(target, MemoryLevel::L1, threads), usable_bytes(target, MemoryLevel::L2, threads),
              usable_bytes(target, MemoryLevel::L3, threads)},
      tables_(target, threads),
      restart_{target.rate("restart.L3.far"), target.rate("restart.L3.near"),
               target.rate_or("restart.DRAM.far", 0)},
      l2_write_share_(
          bandwidth_gbs(target, MemoryLevel::L2, "read", 1) /
          target.rate_or("bandwidth.L2.write.1", bandwidth_gbs(target, MemoryLevel::L2, "read", 1))),
      whole_line_reads_(target.rate_or("share.whole_line_reads", 0)),
      read_beside_(has_contraction(graph) ? 0 : target.rate_or("share.read_beside", 0)),
      written_beside_(has_contraction(graph) ? 0 : target.rate_or("share.written_beside", 0)),
      moved_beside_(
          has_contraction(graph) || facts.shared_reads.any() ? 0 : target.rate_or("share.moved_beside", 0)),
      walked_element_bytes_(largest_element_bytes(facts)),
      access_(graph.values.size(), nullptr),
      shared_looks_(graph, facts) {
  for (const Access& access : facts.accesses) {
    if (access.load) access_[access.load->index] = &access;
  }
}

std::vector<const Access*> TrafficCost::accesses_of_pass(size_t pass,
                                                         const std::vector<std::vector<TileValueId>>& passes,
                                                         const Structure& structure) const {
  std::vector<bool> in_this_pass(graph_.values.size(), false), is_found(graph_.values.size(), false);
  for (TileValueId value : passes[pass]) in_this_pass[value.index] = true;
  std::vector<const Access*> found;
  for (const Access& access : facts_.accesses) {
    bool here = false;
    if (access.load) {
      const bool varies = structure.varies_along_reduced(graph_, *access.load);
      here = varies ? in_this_pass[access.load->index] : pass == 0;
      is_found[access.load->index] = here;
    } else {
      const TileStore& store = graph_.stores[*access.store];
      const bool in_pass = structure.stores_in_pass(store);
      here = in_pass ? structure.pass_of(graph_, store) == static_cast<int>(pass) : pass + 1 >= passes.size();
    }
    if (here) found.push_back(&access);
  }
  std::erase_if(found, [&](const Access* access) {
    const auto first = access->load ? shared_looks_.first(*access->load) : std::nullopt;
    return first && is_found[first->index];
  });
  return found;
}

bool TrafficCost::reads_in(const Access& access, size_t pass,
                           const std::vector<std::vector<TileValueId>>& passes) const {
  if (!access.load || !facts_.structure.varies_along_reduced(graph_, *access.load)) return false;
  return std::any_of(passes[pass].begin(), passes[pass].end(), [&](TileValueId value) {
    return access_[value.index] != nullptr && access_[value.index]->buffer == access.buffer;
  });
}

bool TrafficCost::is_streamed(const Access& access, const Schedule& schedule) const {
  return access.store && store_path(access.buffer, schedule) == StorePath::Streamed;
}

double TrafficCost::scratch_bytes(TileValueId value, const Schedule& schedule) const {
  double bytes = held_bytes(graph_[value].dtype);
  for (AxisId axis : graph_[value].axes) {
    if (facts_.structure.is_reduced(axis)) {
      bytes *= facts_.extent[axis.index];
    } else if (axis == schedule.lane_axis) {
      bytes *= schedule.lanes * schedule.unroll;
    } else if (axis == row_axis(schedule)) {
      bytes *= schedule.rows;
    }
  }
  return bytes;
}

// The pass whose store of a kept value is counted as such; nullopt: the value has scratch of its own.
std::optional<size_t> TrafficCost::writing_pass(TileValueId value, const Schedule& schedule) const {
  const auto store = read_back(graph_, facts_.structure, schedule, value);
  if (!store) return std::nullopt;
  return static_cast<size_t>(facts_.structure.pass_of(graph_, graph_.stores[*store]));
}

double TrafficCost::touched_bytes(const Access& access, const Schedule& schedule) const {
  double elements = 1, contiguous = 1;
  for (uint32_t a = 0; a < facts_.extent.size(); ++a) {
    const AxisAccess::Kind kind = access.along[a].kind;
    if (kind == AxisAccess::Kind::Broadcast) continue;
    double size = 1;
    if (facts_.structure.is_reduced(AxisId{a})) size = facts_.extent[a];
    if (AxisId{a} == row_axis(schedule)) size = schedule.rows;
    if (AxisId{a} == schedule.lane_axis && !facts_.structure.is_reduced(AxisId{a})) {
      size = schedule.lanes * schedule.unroll;
    }
    (kind == AxisAccess::Kind::Unit ? contiguous : elements) *= size;
  }
  return elements * std::max(kLineBytes, contiguous * access.element_bytes);
}

WalkedPasses TrafficCost::walked(std::vector<std::vector<TileValueId>> values,
                                 const Structure& structure) const {
  WalkedPasses passes{std::move(values), {}};
  for (size_t pass = 0; pass < passes.values.size(); ++pass) {
    passes.accesses.push_back(accesses_of_pass(pass, passes.values, structure));
  }
  return passes;
}

WalkLooks TrafficCost::looks(const WalkedPasses& passes, std::vector<NestLoop> nest,
                             const Schedule& schedule) const {
  WalkLooks looks{std::vector<double>(passes.values.size(), 0), {}, std::move(nest)};
  for (TileValueId value : schedule.keep) {
    const std::optional<size_t> writing = writing_pass(value, schedule);
    for (size_t pass = 0; pass < looks.windows.size(); ++pass) {
      if (pass != writing) looks.windows[pass] += scratch_bytes(value, schedule);
    }
  }
  const bool packs = packs_panels(facts_.structure, schedule);
  for (size_t pass = 0; pass < passes.accesses.size(); ++pass) {
    PassLooks& found = looks.passes.emplace_back();
    for (const Access* access : passes.accesses[pass]) {
      looks.windows[pass] += touched_bytes(*access, schedule);
      const bool is_turned = access->load && !packs && is_staged(*access->load, schedule);
      (is_turned ? found.turned : found.accesses).push_back(access);
    }
    found.panels = read_from_panels(found.accesses, schedule);
    found.footprints = Footprints(looks.nest, found.accesses);
  }
  return looks;
}

// The pass; nullopt: none reads it.
std::optional<size_t> TrafficCost::last_read_before(
    const Access& access, size_t pass, const std::vector<std::vector<TileValueId>>& passes) const {
  std::optional<size_t> last;
  for (size_t earlier = 0; earlier < pass; ++earlier) {
    if (reads_in(access, earlier, passes)) last = earlier;
  }
  return last;
}

// Of what a pass reads again, the share that is still in a cache.
double TrafficCost::found_again(const Access& access, size_t pass,
                                const std::vector<std::vector<TileValueId>>& passes,
                                const std::vector<double>& windows, double usable) const {
  const std::optional<size_t> last = last_read_before(access, pass, passes);
  if (!last) return 0;
  double between = 0;
  for (size_t p = *last + 1; p < pass; ++p) between += windows[p];
  return share_found(windows[*last] + between, windows[pass] + between, usable);
}

void TrafficCost::add_dram(const Access& access, double bytes, const std::vector<NestLoop>& nest,
                           const Schedule& schedule, Moved& moved) const {
  const bool streamed = is_streamed(access, schedule);
  const double lines = bytes / kLineBytes;
  const MemoryWalk walk = memory_walk(nest, access);
  if (walk.rows > 1 && walk.run_bytes < kSequentialBytes) {
    using Jumped = DramTables::Jumped;
    const Jumped kind = access.load ? Jumped::Read : streamed ? Jumped::WriteStreamed : Jumped::Write;
    moved.ns += lines * tables_.columns_ns(kind, walk.rows, std::max(kLineBytes, walk.run_bytes));
    return;
  }
  (access.load ? moved.read : streamed ? moved.streamed : moved.written) += lines;
  if (const double piece = part_bytes(facts_, schedule, access); piece > 0) {
    const double restarts = restart_.dram_bytes / std::max(kLineBytes, piece);
    moved.ns += lines * restarts * tables_.interleaved_ns(DramTables::Walked::Read, 1, kSequentialBytes);
  }
  const bool is_whole = access.load && schedule.lane_axis &&
                        access.along[schedule.lane_axis->index].kind == AxisAccess::Kind::Unit &&
                        schedule.lanes * access.element_bytes >= kLineBytes;
  if (is_whole) moved.read_whole += lines;
}

// A turned tile is read once, in pieces as long as the tile, and passes through scratch; later passes find it
// there.
void TrafficCost::add_turned(const Access& access, bool is_again, const Schedule& schedule, Traffic& traffic,
                             Moved& moved) const {
  double elements = 1, tile_elements = 1, run = 1, rows = 1;
  for (const AxisTile& tile : schedule.grid) {
    if (!access.varies_along(tile.axis)) continue;
    const double extent = facts_.extent[tile.axis.index];
    const double length = tile.tile == 0 ? extent : std::min(extent, double(tile.tile));
    elements *= extent;
    tile_elements *= length;
    (access.along[tile.axis.index].kind == AxisAccess::Kind::Unit ? run : rows) *= length;
  }
  for (const AxisId axis : facts_.structure.reduced) {
    if (!access.varies_along(axis)) continue;
    const double extent = facts_.extent[axis.index];
    elements *= extent;
    tile_elements *= extent;
    rows *= extent;
  }
  const bool is_in_l2 = tile_elements * 4 > usable_[0];
  if (is_again) {
    if (is_in_l2) traffic.l2_bytes += elements * 4;
    return;
  }
  const double bytes = elements * access.element_bytes;
  if (home_.level > MemoryLevel::L1) traffic.l2_bytes += bytes;
  traffic.l3_bytes += bytes * home_.beyond_l2;
  if (is_in_l2) traffic.l2_bytes += 2 * elements * 4;
  if (home_.level != MemoryLevel::Dram) return;
  moved.ns +=
      bytes / kLineBytes *
      tables_.columns_ns(DramTables::Jumped::Read, rows, std::max(kLineBytes, run * access.element_bytes));
}

// A line written pairs with a line read, as in a copy; what is left over is read or written alone. A
// prefetcher that looks at accesses sees fewer where each takes a whole line; beside writes that makes no
// difference.
double TrafficCost::dram_ns(const Moved& moved, const Schedule& schedule) const {
  using Walked = DramTables::Walked;
  // One row after the other is a straight walk, but where each is walked again.
  const bool again =
      facts_.structure.passes > 1 && schedule.lane_axis && facts_.structure.is_reduced(*schedule.lane_axis);
  double run = 1 << 16;
  if ((schedule.rows > 1 || again) && schedule.lane_axis)
    run = facts_.extent[schedule.lane_axis->index] * walked_element_bytes_;
  const double rows = facts_.structure.contracts ? 1 : schedule.rows;  // kernels of products ask ahead
  const double streamed = std::min(moved.read, moved.streamed);
  const double copied = std::min(moved.read - streamed, moved.written);
  const double whole = moved.read == 0 ? 0 : moved.read_whole / moved.read * whole_line_reads_;
  return moved.ns + streamed * tables_.interleaved_ns(Walked::CopyStreamed, rows, run) +
         copied * tables_.interleaved_ns(Walked::Copy, rows, run) +
         (moved.read - streamed - copied) * (1 + whole) * tables_.interleaved_ns(Walked::Read, rows, run) +
         (moved.streamed - streamed) * tables_.write_ns(true) +
         (moved.written - copied) * tables_.write_ns(false);
}

// What misses a cache above the level where the data live moves; a streamed store goes to memory from
// anywhere.
bool TrafficCost::moves(const Access& access, size_t level, const Schedule& schedule) const {
  if (is_streamed(access, schedule)) return level == 2;
  return static_cast<MemoryLevel>(level) < home_of_access(access).level;
}

const TrafficCost::Home& TrafficCost::home_of_access(const Access& access) const {
  return graph_[access.buffer].role == Buffer::Role::Scratch ? own_home_ : home_;
}

// Rows that are read side by side and do not lie within some lines of each other are not fetched ahead.
double TrafficCost::read_in_l2(const Access& access, const Schedule& schedule) const {
  return rows_apart(access, schedule) * schedule.rows <= kFetchedAheadBytes ? 1 : 1 + read_beside_;
}

// One row after the other is one walk, which goes on ahead of the last; of rows side by side each is one.
double TrafficCost::moved_in_l3(const Access& access, const Schedule& schedule) const {
  return rows_apart(access, schedule) < kLongRowBytes ? 1 : 1 + moved_beside_;
}

// A line written goes both ways between L1 and L2; on from there it is the way to L3 that counts. Rows that
// are written side by side wait for each other.
double TrafficCost::written_in_l2(const Home& home, const Schedule& schedule) const {
  const double beside = 1 + written_beside_ * (schedule.rows * schedule.columns - 1);
  return (1 + (l2_write_share_ - 1) * (1 - home.beyond_l2)) * beside;
}

// A panel fits L2, but for those of a constant, which come from memory.
bool TrafficCost::misses(const Access& access, size_t level, const Schedule& schedule) const {
  const bool is_panel = access.load && !access.is_packed_once && is_staged(*access.load, schedule);
  return moves(access, level, schedule) && !(is_panel && level > 0);
}

// A panel as the multiplications read it.
Access TrafficCost::panel_access(const Access& access, const Schedule& schedule) const {
  Access panel = access;
  const bool in_dots = facts_.dots != DotKind::None && walks_dots(graph_, facts_.structure, schedule);
  panel.element_bytes = in_dots ? 4 / info(schedule.dots).count : 4;
  panel.is_shared = false;
  for (const AxisId axis : facts_.structure.reduced) {
    if (!access.varies_along(axis)) continue;
    panel.along[axis.index] = {AxisAccess::Kind::Strided, int64_t{schedule.lanes} * schedule.unroll};
  }
  panel.along[schedule.lane_axis->index] = {AxisAccess::Kind::Unit, 1};
  return panel;
}

// What rows of matrix tiles load and store: whole lines, each once, so that none pushes out another that is
// wanted.
Access TrafficCost::row_access(const Access& access, const Schedule& schedule) const {
  Access rows = access;
  if (const auto row = row_axis(schedule)) rows.along[row->index].stride |= 1;  // shares no sets of a cache
  return rows;
}

// Points what is staged at its panel, and rows of tiles at what they load, which lives as long as what is
// returned.
std::vector<Access> TrafficCost::read_from_panels(std::vector<const Access*>& accesses,
                                                  const Schedule& schedule) const {
  std::vector<Access> panels;
  panels.reserve(accesses.size());
  for (const Access*& access : accesses) {
    const bool is_panel = access->load && is_staged(*access->load, schedule);
    if (!is_panel && !takes_tile_rows(schedule.rows)) continue;
    panels.push_back(is_panel ? panel_access(*access, schedule) : row_access(*access, schedule));
    access = &panels.back();
  }
  return panels;
}

void TrafficCost::add_l3(const Access& access, double bytes, const std::vector<NestLoop>& nest,
                         const Schedule& schedule, Traffic& traffic) const {
  const MemoryWalk walk = in_pieces(memory_walk(nest, access), part_bytes(facts_, schedule, access));
  const double moved =
      bytes * home_of_access(access).beyond_l2 * piece_factor(access, walk) * moved_in_l3(access, schedule);
  traffic.l3_bytes += moved;
  const bool is_repeated = bytes > kRepeatsAskedAhead * accessed_bytes(facts_, access);
  if (is_repeated && walks_far_in_jumps(access, schedule)) traffic.l3_waited += moved;
}

Traffic TrafficCost::pass_traffic(size_t pass, const WalkedPasses& passes, const WalkLooks& looks,
                                  const Schedule& schedule, Moved& moved) const {
  const PassLooks& look = looks.passes[pass];
  Traffic traffic;
  for (const Access* access : look.turned) {
    add_turned(*access, last_read_before(*access, pass, passes.values).has_value(), schedule, traffic, moved);
  }
  for (size_t level = 0; level < 3; ++level) {
    const std::vector<double> missed = look.footprints.missed_bytes(usable_.at(level));
    for (size_t i = 0; i < look.accesses.size(); ++i) {
      const Access& access = *look.accesses[i];
      if (!misses(access, level, schedule)) continue;
      const double bytes =
          missed[i] * access.share_read *
          shared_looks_.beyond_tasks(access, looks.nest, look.footprints, usable_.at(level)) *
          (1 - found_again(access, pass, passes.values, looks.windows, usable_.at(level)));
      if (bytes == 0) continue;
      const Home& home = home_of_access(access);
      if (level == 0)
        traffic.l2_bytes +=
            bytes * (access.store ? written_in_l2(home, schedule) : read_in_l2(access, schedule));
      if (level == 1) add_l3(access, bytes, looks.nest, schedule, traffic);
      if (level == 2) add_dram(access, bytes, looks.nest, schedule, moved);
    }
  }
  return traffic;
}

// Whether a product reads another row of an operand at each step of its sum, and more than L2 holds on the
// whole walk. A core sees no more than a few steps ahead, as long as L3 takes to answer, and processors do
// not follow such walks beyond L2: what every block of rows brings from there anew, and kernels do not ask
// for ahead, comes on top of the arithmetic (Zen 4, 128 rows, 256 columns and 16384 steps of f32 in two
// parts: 9.6 ms of multiplications and 4.1 of bytes took 14.1).
bool TrafficCost::walks_far_in_jumps(const Access& access, const Schedule& schedule) const {
  const bool is_direct = access.load && !is_staged(*access.load, schedule);
  if (!facts_.structure.contracts || !is_direct || !schedule.lane_axis) return false;
  if (access.along[schedule.lane_axis->index].kind != AxisAccess::Kind::Unit) return false;
  if (touched_bytes(access, schedule) / double(schedule.split) <= usable_[1]) return false;
  const std::vector<AxisId>& reduced = facts_.structure.reduced;
  return std::ranges::find(reduced, *schedule.lane_axis) == reduced.end() &&
         access.along[reduced.back().index].kind == AxisAccess::Kind::Strided;
}

// By how much walking L3 in short pieces is slower: the prefetcher begins anew with each, and so does the
// translation of addresses where there are more pages than it remembers.
double TrafficCost::piece_factor(const Access& access, const MemoryWalk& walk) const {
  if (walk.rows <= kTrackedRows) return 1;
  const bool jumps_pages = std::any_of(
      access.along.begin(), access.along.end(),
      [&](const AxisAccess& along) { return double(along.stride * access.element_bytes) >= kPageBytes; });
  const bool forgets = access.is_shared && jumps_pages && facts_.home_bytes > kRememberedBytes;
  const double restart = forgets ? kPageRestartBytes : jumps_pages ? restart_.far_bytes : restart_.near_bytes;
  return 1 + restart / std::max(kLineBytes, walk.run_bytes);
}

Traffic TrafficCost::packing(const std::vector<NestLoop>& nest, const Schedule& schedule) const {
  Traffic traffic;
  if (!packs_panels(facts_.structure, schedule)) return traffic;
  for (const StagedLoad& staged : schedule.staged) {
    const Access& access = *access_[staged.load.index];
    if (access.is_packed_once) continue;
    double bytes = accessed_bytes(facts_, access);
    for (const NestLoop& loop : nest) {
      if (loop.over_tasks && !access.varies_along(loop.axis)) bytes *= loop.trips;
    }
    const bool turns = staged.contiguous != schedule.lane_axis;
    const double run = turns ? facts_.extent[staged.contiguous.index] : schedule.lanes * schedule.unroll;
    const MemoryWalk walk{run * access.element_bytes, kTrackedRows + 1};
    if (home_.level > MemoryLevel::L1) traffic.l2_bytes += bytes;
    traffic.l3_bytes += bytes * home_.beyond_l2 * piece_factor(access, walk);
    if (home_.level != MemoryLevel::Dram) continue;
    traffic.dram_ns += bytes / kLineBytes *
                       tables_.interleaved_ns(DramTables::Walked::Read, schedule.lanes,
                                              facts_.extent[staged.contiguous.index] * access.element_bytes);
  }
  return traffic;
}

// Of kept values, the share that each pass moves between L1 and L2: what is not found any more, and in the
// first pass, which writes them, what some later one does not find.
std::vector<double> TrafficCost::spilled_shares(const std::vector<double>& windows) const {
  std::vector<double> lost = {0};
  for (size_t pass = 1; pass < windows.size(); ++pass) {
    lost.push_back(1 - share_found(windows[pass - 1], windows[pass], usable_[0]));
  }
  lost.front() = *std::max_element(lost.begin(), lost.end());
  return lost;
}

// Kept values in one pass.
double TrafficCost::spilled_bytes(size_t pass, const Schedule& schedule) const {
  double bytes = 0;
  for (TileValueId kept : schedule.keep) {
    if (writing_pass(kept, schedule) == pass) continue;
    double elements = 1;
    for (AxisId axis : graph_[kept].axes) elements *= facts_.extent[axis.index];
    bytes += elements * held_bytes(graph_[kept].dtype);
  }
  return bytes;
}

std::vector<Traffic> TrafficCost::passes(const WalkedPasses& passes, const WalkLooks& looks,
                                         const Schedule& schedule) const {
  const double widest = *std::max_element(looks.windows.begin(), looks.windows.end());
  const bool stays = widest <= usable_[0];
  const std::vector<double> spilled = spilled_shares(looks.windows);
  std::vector<Traffic> result;
  result.reserve(passes.values.size());
  Moved moved;
  for (size_t pass = 0; pass < passes.values.size(); ++pass) {
    result.push_back(pass_traffic(pass, passes, looks, schedule, moved));
    const double kept = spilled[pass] * spilled_bytes(pass, schedule);
    result.back().l2_bytes += kept;
    result.back().kept_beside = kept * home_.beyond_l2;
    if (stays && pass + 1 < passes.values.size()) continue;
    result.back().dram_ns = dram_ns(std::exchange(moved, {}), schedule);
  }
  return result;
}

double TrafficCost::lower_bound_ns() const {
  return own_home_.level == MemoryLevel::Dram ? facts_.footprint_bytes / kLineBytes * tables_.cheapest_ns()
                                              : 0;
}

}  // namespace tilefuse
