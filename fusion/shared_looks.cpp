#include "fusion/shared_looks.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tilefuse {
namespace {

// By how many places along each axis two loads of a buffer look at the same elements: what one brings into a
// cache the other finds there. nullopt: they don't.
std::optional<std::vector<int64_t>> places_apart(const TileLoad& a, const Access& along_a, const TileLoad& b,
                                                 const Access& along_b, const std::vector<double>& extent) {
  if (!(a.buffer == b.buffer) || !a.gathered.empty() || !b.gathered.empty()) return std::nullopt;
  const auto apart = (a.offset - b.offset).constant();
  if (!apart) return std::nullopt;
  std::vector<std::pair<int64_t, size_t>> walked;  // stride, axis; long strides first
  for (size_t axis = 0; axis < extent.size(); ++axis) {
    const AxisAccess &in_a = along_a.along[axis], &in_b = along_b.along[axis];
    if (in_a.kind != in_b.kind || in_a.stride != in_b.stride) return std::nullopt;
    if (in_a.kind == AxisAccess::Kind::Irregular) return std::nullopt;
    if (in_a.stride != 0) walked.emplace_back(in_a.stride, axis);
  }
  std::sort(walked.rbegin(), walked.rend());
  std::vector<int64_t> places(extent.size(), 0);
  int64_t left = *apart;
  for (const auto& [stride, axis] : walked) {
    places[axis] = std::llround(double(left) / double(stride));
    if (std::abs(double(places[axis])) >= extent[axis]) return std::nullopt;
    left -= places[axis] * stride;
  }
  return places;
}

}  // namespace

SharedLooks::SharedLooks(const TileGraph& graph, const RegionFacts& facts) : graph_(graph), facts_(facts) {
  for (const Access& access : facts.accesses) {
    if (access.load) group(access);
  }
}

void SharedLooks::group(const Access& access) {
  const auto& load = std::get<TileLoad>(graph_[*access.load].op);
  for (const Access* first : firsts_) {
    const auto& its_load = std::get<TileLoad>(graph_[*first->load].op);
    const auto places = places_apart(load, access, its_load, *first, facts_.extent);
    if (!places) continue;
    first_of_[*access.load] = *first->load;
    std::vector<Spread>& spread = spread_[*first->load];
    spread.resize(places->size());
    for (size_t axis = 0; axis < places->size(); ++axis) {
      spread[axis].low = std::min(spread[axis].low, (*places)[axis]);
      spread[axis].high = std::max(spread[axis].high, (*places)[axis]);
    }
    return;
  }
  firsts_.push_back(&access);
}

std::optional<TileValueId> SharedLooks::first(TileValueId load) const {
  const auto found = first_of_.find(load);
  return found == first_of_.end() ? std::nullopt : std::optional(found->second);
}

double SharedLooks::beyond_tasks(const Access& access, const std::vector<NestLoop>& nest,
                                 const Footprints& footprints, double usable) const {
  const auto found = access.load ? spread_.find(*access.load) : spread_.end();
  if (found == spread_.end()) return 1;
  double factor = 1;
  for (size_t i = 0; i < nest.size(); ++i) {
    const NestLoop& loop = nest[i];
    if (!loop.over_tasks || footprints.room(i + 1) <= usable) continue;
    const Spread& spread = found->second[loop.axis.index];
    const double reach = loop.step + double(spread.high - spread.low);
    factor *= std::min(facts_.extent[loop.axis.index], reach) / loop.step;
  }
  return factor;
}

}  // namespace tilefuse
