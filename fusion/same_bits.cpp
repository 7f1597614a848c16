#include "fusion/same_bits.h"

#include <algorithm>

#include "fusion/short_list.h"

namespace tilefuse {

bool same_bits(const TileGraph& graph, const Structure& structure, const Schedule& a, const Schedule& b) {
  const bool adds =
      std::any_of(structure.reductions.begin(), structure.reductions.end(), [&](TileValueId id) {
        const auto* reduce = std::get_if<TileReduce>(&graph[id].op);
        return reduce != nullptr && (reduce->kind == ReduceKind::Sum || reduce->kind == ReduceKind::Prod);
      });
  if (!adds) return true;
  const auto along_reduced = [&](const Schedule& s) {
    return s.lane_axis && structure.is_reduced(*s.lane_axis);
  };
  if (a.split != b.split || (a.walk == Walk::Online) != (b.walk == Walk::Online)) return false;
  if (a.accumulate_in_scratch != b.accumulate_in_scratch || along_reduced(a) != along_reduced(b))
    return false;
  return !along_reduced(a) || (a.lanes == b.lanes && a.lane_axis == b.lane_axis && a.unroll == b.unroll);
}

void rank_by_cost(std::vector<Schedule>& schedules,
                  const std::function<bool(const Schedule&, const Schedule&)>& adds_alike) {
  const Schedule nominal = schedules.front();
  std::stable_sort(schedules.begin(), schedules.end(), is_cheaper);
  const auto first = std::find_if(schedules.begin(), schedules.end(),
                                  [&](const Schedule& schedule) { return adds_alike(schedule, nominal); });
  std::rotate(schedules.begin(), first, first + 1);
}

}  // namespace tilefuse
