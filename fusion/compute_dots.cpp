// What walks in dots and in matrix tiles cost, and what is packed for them and for other sums of products.
#include <cmath>

#include "fusion/compute_cost.h"
#include "fusion/matrix_tiles.h"
#include "fusion/panels.h"

namespace tilefuse {

void ComputeCost::set_dot_rates() {
  if (dots_ == DotKind::None) return;
  const double apart = info(dots_).count * target_.rate("clk_per_vector.fma");
  rates_.dot = target_.rate_or(std::string(info(dots_).rate), apart);
  rates_.tile = target_.rate_or(tile_rate(dots_), 0);
}

ComputeCost::DotWalk ComputeCost::dot_walk(const Schedule& schedule) const {
  if (dots_ == DotKind::None || !walks_dots(graph_, facts_.structure, schedule)) return {};
  if (!takes_tile_rows(schedule.rows)) return {.step = double(info(dots_).count)};
  return {double(tile_step(dots_)), true, row_axis(schedule)};
}

// Of a walk of which the rows are not known yet.
ComputeCost::DotWalk ComputeCost::least_dot_walk() const {
  return {double(has_tiles_ ? tile_step(dots_) : info(dots_).count), has_tiles_, std::nullopt};
}

// Of one element of the summed axis, where several are done at once (dots.h): nothing is widened.
PortCycles ComputeCost::dot_cycles(TileValueId value, const Lanes& lanes, const DotWalk& walk) const {
  PortCycles cycles;
  const double registers = registers_of_vector(DType::F32, lanes.count, vectors_);
  if (access_[value.index] == nullptr) {
    if (!std::holds_alternative<TileReduce>(graph_[value].op)) return {};
    // Little goes beside products in tiles: a Granite Rapids core takes 2900 to 3500 cycles for 128 x 64 sums
    // over 64, where the products alone take 1024, their stores and those of the results as long each.
    if (walk.in_tiles) return {.whole = rates_.tile / kTileRows * registers / walk.step};
    return {.vector = rates_.dot * registers / walk.step};
  }
  if (sets_[axes_[value.index]][lanes.axis->index]) {  // of a panel
    cycles.load = registers / rates_.load / info(dots_).count;
    return cycles;
  }
  cycles.load = 1 / rates_.load / walk.step;
  if (!walk.rows) return cycles;
  const AxisId summed = facts_.structure.reduced.front();
  const auto how = tile_rows(graph_, value, *walk.rows, summed, dots_);
  if (how == TileRows::AsTheyLie) return cycles;
  cycles.load *= 2;
  cycles.store = 1 / rates_.store / walk.step;
  if (how == TileRows::Turned) cycles.shuffle = std::log2(kTileRows) / rates_.permute / walk.step;
  return cycles;
}

// Sums that something is computed of leave tiles by way of scratch, and come back for each other part of the
// summed axis.
PortCycles ComputeCost::tile_sum_cycles(const Schedule& schedule, const Lanes& lanes) const {
  if (!dot_walk(schedule).in_tiles) return {};
  if (!stored_rows_of_sums(graph_, facts_.structure, schedule).empty()) return {};
  const double registers = registers_of_vector(DType::F32, lanes.count, vectors_);
  const double parts =
      !schedule.block ? 1
                      : std::ceil(facts_.extent[schedule.block->axis.index] / double(schedule.block->tile));
  const double sums = registers * double(facts_.structure.reductions.size());
  const double back = (parts - 1) * (1 / rates_.load + 1 / rates_.store);  // before and after anything else
  return {.load = sums / rates_.load, .store = sums / rates_.store, .whole = sums * back};
}

// Of one vector of a panel on its way through registers.
double ComputeCost::vector_packing_cycles(const StagedLoad& staged, bool in_dots,
                                          const Schedule& schedule) const {
  const bool turns = staged.contiguous != schedule.lane_axis;
  const double turning = std::log2(schedule.lanes) / rates_.permute;
  if (in_dots) {
    // Nothing is widened, and a block is short: the next one begins meanwhile (Zen 5: attention in blocks of
    // 64 keys packs four times as much as in blocks of 256, and takes 1 % longer).
    const double load = (turns ? 1 : 2) / rates_.load;
    const double joining = target_.rate_or("clk_per_vector.join", 1 / rates_.permute);
    return std::max({load, turns ? turning : joining, 1 / rates_.store});
  }
  // A block is loaded, turned and stored one after the other.
  const PortCycles& each = cycles_[staged.load.index];
  const double shuffle = each.shuffle + (turns ? turning : 0);
  return each.load + shuffle + each.store + 1 / rates_.store + each.vector + each.whole;
}

// Panels that are not packed once are filled once in a task: blocks of vectors go through registers. In
// dots, every lane holds several elements.
double ComputeCost::packing_cycles(const std::vector<NestLoop>& nest, const Schedule& schedule) const {
  double cycles = 0;
  if (!packs_panels(facts_.structure, schedule)) return cycles;
  const bool in_dots = dot_walk(schedule).step > 1;
  for (const StagedLoad& staged : schedule.staged) {
    const Access& access = *access_[staged.load.index];
    if (access.is_packed_once) continue;
    double vectors = registers_of_vector(graph_[staged.load].dtype, schedule.lanes, vectors_);
    for (uint32_t a = 0; a < facts_.extent.size(); ++a) {
      if (!access.varies_along(AxisId{a})) continue;
      const double extent = facts_.extent[a];
      vectors *= AxisId{a} == schedule.lane_axis ? std::ceil(extent / schedule.lanes) : extent;
    }
    for (const NestLoop& loop : nest) {
      if (loop.over_tasks && !access.varies_along(loop.axis)) vectors *= loop.trips;
    }
    if (in_dots) vectors /= info(dots_).count;
    cycles += vectors * vector_packing_cycles(staged, in_dots, schedule);
  }
  return cycles;
}

}  // namespace tilefuse
