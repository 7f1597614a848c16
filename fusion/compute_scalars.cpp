// Code without lanes: what compilers make of it.
#include <algorithm>

#include "fusion/compute_cost.h"
#include "fusion/contraction.h"
#include "fusion/neighbour_tiles.h"

namespace tilefuse {
namespace {

constexpr double kWrittenOutShare = 0.1;
// Of reductions with a chain for each: g++ 12 finds vectors for two rows of maxima of 2 x 2 that are stored
// as well, 28 us, and none for three or more, 170 to 180 us.
constexpr int kMostRowsWrittenOut = 2;
constexpr int64_t kFewElements = 8;
constexpr double kScalarShare = 0.5;  // of a vector's cycles: more of the narrow instructions go side by side

}  // namespace

// Without lanes, a compiler writes out a last axis of a few elements, and finds vectors along the next one:
// where all is 4 bytes wide, in straight lines, without calls and without conditions. Whether it does so for
// windows of two that are stored as well differs from one walk of tasks to the next (28 to 58 us); lanes
// along the windows need no luck.
bool ComputeCost::is_written_out() const {
  const auto few = [&](AxisId axis) {
    const auto extent = graph_[axis].extent.constant();
    return extent && *extent <= kFewElements;
  };
  const auto is_plain = [&](const TileValue& value) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    const bool asks = load != nullptr && !load->guard.empty();
    const bool fits = size_in_bytes(value.dtype) == 4 && info(value.dtype).compute == value.dtype;
    return fits && !asks && cycles_per_register(graph_, value, target_).whole == 0;
  };
  const auto is_straight = [&](const Access& access) {
    return std::none_of(access.along.begin(), access.along.end(),
                        [](const AxisAccess& along) { return along.kind == AxisAccess::Kind::Irregular; });
  };
  const std::vector<AxisId>& reduced = facts_.structure.reduced;
  const AxisId last{uint32_t(graph_.axes.size()) - 1};
  const auto stores_windows = [&](const TileStore& store) {
    const std::vector<AxisId>& lanes = facts_.structure.parallel;
    return !reduced.empty() && std::any_of(lanes.begin(), lanes.end(), [&](AxisId axis) {
      return walks_windows_of_two(graph_, store.offset, axis, reduced.back());
    });
  };
  return graph_.axes.size() > 1 && !has_contraction(graph_) && few(last) &&
         std::none_of(graph_.stores.begin(), graph_.stores.end(), stores_windows) &&
         std::all_of(reduced.begin(), reduced.end(), few) &&
         std::all_of(graph_.values.begin(), graph_.values.end(), is_plain) &&
         std::all_of(facts_.accesses.begin(), facts_.accesses.end(), is_straight);
}

bool ComputeCost::is_written_out(const Lanes& lanes) const {
  const bool few_chains = facts_.structure.reduced.empty() || lanes.side_by_side <= kMostRowsWrittenOut;
  return !lanes.axis && is_written_out_ && few_chains;
}

double ComputeCost::scalar_share(const Lanes& lanes) const {
  return is_written_out(lanes) ? kWrittenOutShare : kScalarShare;
}

double ComputeCost::scalar_store_share(const Lanes& lanes) const {
  return is_written_out(lanes) ? kWrittenOutShare : 1;
}

double ComputeCost::iteration_share(const Lanes& lanes) const { return scalar_share(lanes) / kScalarShare; }

}  // namespace tilefuse
