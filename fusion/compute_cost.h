// Cycles of arithmetic, widening, masks and scattered accesses in each pass of a schedule, on one thread.
//
// A value is computed as often as the innermost loop that it varies along runs; what does not vary further in
// is hoisted. Reductions are bound by their chains when too few accumulators run side by side.
#pragma once
#include <map>
#include <vector>

#include "fusion/element_cost.h"
#include "fusion/lanes_together.h"
#include "fusion/loop_nest.h"

namespace tilefuse {

class ComputeCost {
 public:
  ComputeCost(const TileGraph& graph, const Target& target, const RegionFacts& facts);

  // Cycles of one execution of everything that runs along the same axes, by the place of these in sets_.
  struct Work {
    std::vector<std::vector<PortCycles>> passes;
    std::vector<std::vector<TileValueId>> reductions;  // and scans, by pass
    std::vector<PortCycles> outside;
  };
  // Of all schedules that differ in their grid alone. passes: values_of_passes for the schedule's `keep`.
  Work work_of(const std::vector<std::vector<TileValueId>>& passes, const Schedule& schedule) const;

  double pass_cycles(size_t pass, const Work& work, const std::vector<NestLoop>& nest,
                     const Schedule& schedule) const;
  // Values that vary along no reduced axis, with their stores: once for an element of the parallel axes.
  double outside_cycles(const Work& work, const std::vector<NestLoop>& nest, const Schedule& schedule) const;
  // Of lanes that come together at the end of a row: nothing else is done meanwhile.
  double horizontal_cycles(const Schedule& schedule) const;
  double packing_cycles(const std::vector<NestLoop>& nest, const Schedule& schedule) const;
  // At most the cycles of all passes and of what is outside, for any schedule with these lanes.
  double lower_bound(const std::vector<std::vector<TileValueId>>& passes, int lanes,
                     std::optional<AxisId> lane_axis) const;

 private:
  struct Lanes {
    int count = 1;
    std::optional<AxisId> axis;
    bool in_pairs = false;
    int at_once = 0;        // elements of an iteration; 0: not settled
    bool is_alone = false;  // one vector an iteration
    int side_by_side = 1;   // rows, of all columns
    std::optional<AxisId> rows_of_two = std::nullopt;
  };
  Lanes lanes_of(const Schedule& schedule) const;
  void add_apart(const Access& access, const TileLoad& load, const Lanes& lanes, PortCycles& cycles) const;
  double cycles_apart(const Access& access, const TileLoad& load, const Lanes& lanes) const;
  int pieces_of(const Access& access, const TileLoad& load, const Lanes& lanes) const;
  bool exchanges_lanes(const TileLoad& load, const Lanes& lanes) const;
  // What becomes of a load on its way: `Turned` is found as an earlier pass has left it.
  enum class Staging : uint8_t { None, Turns, Turned };
  Staging staging_of(TileValueId value, size_t pass, const std::vector<std::vector<TileValueId>>& passes,
                     const Schedule& schedule) const;
  PortCycles value_cycles(TileValueId value, const Lanes& lanes, Staging staging) const;
  struct DotWalk {
    double step = 1;  // elements of the summed axis that are added up at a time
    bool in_tiles = false;
    std::optional<AxisId> rows = std::nullopt;  // of tiles; absent: not settled
  };
  DotWalk dot_walk(const Schedule& schedule) const;
  DotWalk least_dot_walk() const;
  void set_dot_rates();
  PortCycles dot_cycles(TileValueId value, const Lanes& lanes, const DotWalk& walk) const;
  PortCycles tile_sum_cycles(const Schedule& schedule, const Lanes& lanes) const;
  double vector_packing_cycles(const StagedLoad& staged, bool in_dots, const Schedule& schedule) const;
  PortCycles store_cycles(size_t store, const Lanes& lanes) const;
  double blocks_turned(const Access& access, const Lanes& lanes) const;
  bool crowds_sets(const Access& access, const Lanes& lanes) const;
  void add_kept(size_t pass, const std::vector<std::vector<TileValueId>>& passes, const Schedule& schedule,
                std::vector<PortCycles>& work) const;
  size_t set_of(std::vector<bool> axes);
  PortCycles total(const std::vector<PortCycles>& work, const std::vector<NestLoop>& nest,
                   const Schedule& schedule) const;
  std::vector<double> executions_of_sets(const std::vector<NestLoop>& nest, const Schedule& schedule) const;
  double chain_cycles(TileValueId reduction, double times, const Schedule& schedule) const;
  double scratch_visits(TileValueId reduction, double times, const std::vector<NestLoop>& nest,
                        const Schedule& schedule) const;
  double least_executions(const std::vector<bool>& axes, int lanes, std::optional<AxisId> lane_axis) const;
  void set_accesses();
  void set_sums();
  std::vector<double> least_shares() const;
  bool in_a_pass(TileValueId value) const;
  bool is_written_out() const;
  bool is_written_out(const Lanes& lanes) const;
  bool stores_in_turn(const TileStore& store, const Lanes& lanes) const;
  double scalar_share(const Lanes& lanes) const;  // of a vector's cycles
  double scalar_store_share(const Lanes& lanes) const;
  double steps_taken(const Schedule& schedule) const;
  double iteration_share(const Lanes& lanes) const;  // of the iterations that are left

  struct Rates {  // of the profile, looked up once
    double load, store, permute, chain, gather, gather_near, element_load, strided_load, strided_load_half,
        strided_load_narrow, strided_beside, strided_store, kept_beside, dot, tile;
  };

  const TileGraph& graph_;
  const Target& target_;
  const RegionFacts& facts_;
  VectorSizes vectors_;
  Rates rates_;
  std::vector<PortCycles> cycles_, store_cycles_;                // of one register, by value and by store
  std::vector<PortCycles> paired_cycles_, paired_store_cycles_;  // the same, in pairs
  bool is_written_out_ = false;
  LaneRates lane_rates_;
  struct Sums {  // of a pass, whose lanes come together
    int count = 0;
    double results = 0;
  };
  std::map<int, Sums> sums_;             // by pass
  bool has_tiles_ = false;               // of dots_
  DotKind dots_ = DotKind::None;         // that the target is faster in
  std::vector<bool> pairs_along_;        // by axis
  std::vector<std::vector<bool>> sets_;  // of axes that work is done along
  std::vector<size_t> axes_;             // by value: place in sets_
  std::vector<size_t> store_axes_;
  std::vector<std::vector<int64_t>> sharing_a_place_;  // by store and axis: of scatter.h, 1 for other stores
  std::vector<const Access*> access_;                  // by value: of a load
  std::vector<bool> turnable_;                         // by value: a load that may be turned
  std::vector<bool> shared_;                           // by value: a load that may be packed
  std::vector<double> least_share_;                    // by value: shared_reads.h
  std::vector<const Access*> store_access_;            // by store
};

}  // namespace tilefuse
