#include "fusion/merge_judge.h"

#include <algorithm>

#include "fusion/launches.h"
#include "fusion/rate_tables.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

// A merge has to save this much, and this share of the smaller part: below it the prediction is noise.
constexpr double kMarginUs = 0.05;
constexpr double kMarginShare = 0.001;
// But a kernel that is little more than its launch goes into its neighbour at a tie, too: it has a
// compilation, a place in memory and a dispatch of its own, and the price of so little beside so much is
// noise.
constexpr double kOfLaunch = 1.1;
constexpr double kTieShare = 0.01;
// What a chain can save at most, of the time of its parts: below it nobody asks the solver.
constexpr double kLeastChainShare = 0.02;
// Estimates of regions with products were up to three times what the solver found, never more.
constexpr double kHopelessEstimate = 3;

}  // namespace

MergeJudge::MergeJudge(const Graph& graph, const FusionGroups& groups, const PartitionOptions& options,
                       GroupPrices& apart, RegionPrices& prices)
    : graph_(graph), groups_(groups), options_(options), apart_(apart), prices_(prices) {}

MergeJudge::Verdict MergeJudge::pair(GroupId first, GroupId second) {
  auto verdict = prices_.unless_broken([&] { return weigh(first, second); });
  if (!verdict) return NotSchedulable{verdict.unsupported().reason};
  return *std::move(verdict);
}

// Maps in front of a chain or behind it; what reduces joins by `chain` alone.
bool MergeJudge::extends_chain(GroupId first, GroupId second) {
  return (apart_.is_chain(first) && apart_.kind(second) == GroupKind::Maps) ||
         (apart_.is_chain(second) && apart_.kind(first) == GroupKind::Maps);
}

// Why nothing computes the two together; nullopt: something may.
std::optional<std::string> MergeJudge::no_nest(const TileGraph& tiles, GroupId first, GroupId second) {
  if (takes_launches(tiles)) {
    const auto launches = launches_of(tiles);
    return launches ? no_nest((*launches)[kMainLaunch], first, second) : launches.unsupported().reason;
  }
  const auto structure = analyze_structure(tiles);
  if (!structure && extends_chain(first, second)) return std::nullopt;
  if (!structure) return structure.unsupported().reason;
  if (const auto repeated = repeated_reduction(tiles, *structure)) return repeated->reason;
  return std::nullopt;
}

// What the two move as two kernels, each buffer counted once: what one kernel moves, and what it would keep.
double MergeJudge::bytes_apart(const TileGraph& tiles, GroupId first, GroupId second) const {
  const std::vector<ValueId> left = groups_.region(first, second).outputs;
  double bytes = compulsory_bytes(tiles, options_.hints);
  for (const GroupId part : {first, second}) {
    for (const ValueId output : groups_.region(part).outputs) {
      if (std::find(left.begin(), left.end(), output) == left.end())
        bytes += hinted_bytes(graph_[output], options_.hints);
    }
  }
  return bytes;
}

MergeJudge::Verdict MergeJudge::weigh(GroupId first, GroupId second) {
  const int nodes = int(groups_.members(first).size() + groups_.members(second).size());
  nodes_examined_ += nodes;
  if (nodes > options_.max_region_nodes) return RegionTooLarge{nodes, options_.max_region_nodes};
  if (const auto blocking = groups_.blocking_node(first, second)) {
    return WouldCycle{graph_[graph_[*blocking].results[0]].name};
  }
  const auto tiles = prices_.tiles(graph_, groups_.region(first, second), {options_.eager_numerics});
  if (!tiles) return NotSchedulable{tiles.unsupported().reason};
  if (auto why = no_nest(*tiles, first, second)) return NotSchedulable{*std::move(why)};
  const bool is_solved = prices_.wants_solver(*tiles);
  const double in_use = is_solved ? 0 : bytes_apart(*tiles, first, second);
  const auto cost = [&](GroupId group) {
    return is_solved ? apart_.solved_cost(group) : apart_.cost_beside(group, in_use);
  };
  const double first_us = cost(first), second_us = cost(second);
  const double apart_us = first_us + second_us;
  if (is_solved) {
    const double estimate_us = prices_.estimated(*tiles);
    if (estimate_us > kHopelessEstimate * apart_us) return NoGain{apart_us, estimate_us};
  }
  // A share of the smaller one: the launch of a small map counts beside a region of any size.
  const double least_us = std::min(first_us, second_us);
  const bool is_launch = least_us < kOfLaunch * prices_.launch_us();
  const double worth_us =
      is_launch ? apart_us * (1 + kTieShare) : apart_us - kMarginShare * least_us - kMarginUs;
  const Result<double> price = prices_.of(*tiles, worth_us);
  if (!price) return NotSchedulable{price.unsupported().reason};
  if (*price > worth_us) return NoGain{apart_us, *price};
  return JointPrice{*price, apart_us, is_solved};
}

// Write and read of what would no longer lie in memory, at its slowest, and launches.
double MergeJudge::most_saved_us(const std::vector<GroupId>& parts) const {
  const Target& target = prices_.target();
  const double launch_us =
      target.rate("launch.host") + (options_.threads > 1 ? target.rate("launch.threads") : 0);
  const auto is_part = [&](NodeId node) {
    return groups_.is_computing(node) &&
           std::find(parts.begin(), parts.end(), groups_.group_of(node)) != parts.end();
  };
  double bytes = 0;
  for (const GroupId part : parts) {
    for (const NodeId node : groups_.members(part)) {
      for (const ValueId value : groups_.reads(node)) {
        const NodeId producer = graph_[value].producer;
        const bool crosses = is_part(producer) && groups_.group_of(producer) != part;
        if (crosses) bytes += 2 * hinted_bytes(graph_[value], options_.hints);
      }
    }
  }
  return bytes / bandwidth_gbs(target, MemoryLevel::Dram, "read", 1) / 1e3 +
         launch_us * double(parts.size() - 1);
}

// A rough price up to `searched_us` is searched for.
Result<double> MergeJudge::fused_us(const std::vector<GroupId>& parts, double worth_us, double searched_us) {
  const auto price = prices_.unless_broken([&]() -> Result<double> {
    const auto tiles = prices_.tiles(graph_, groups_.region(parts), {options_.eager_numerics});
    if (!tiles) return tiles.unsupported();
    const bool is_hopeless = prices_.estimated(*tiles) > kHopelessEstimate * worth_us;
    if (is_hopeless) return Unsupported{"its estimate is hopeless"};
    const Result<double> rough = prices_.of(*tiles, searched_us);
    const bool is_near = rough && *rough > worth_us && *rough <= searched_us;
    return is_near ? prices_.searched(*tiles) : rough;
  });
  return price ? *price : price.unsupported();
}

bool MergeJudge::holds_much_less(const std::vector<GroupId>& parts) const {
  double apart = 0;
  for (const GroupId part : parts) apart += hinted_bytes(graph_, groups_.region(part), options_.hints);
  return hinted_bytes(graph_, groups_.region(parts), options_.hints) <= kMuchLess * apart;
}

std::optional<JointPrice> MergeJudge::chain(const std::vector<GroupId>& parts) {
  double apart_us = 0;
  size_t nodes = 0;
  for (const GroupId part : parts) {
    nodes += groups_.members(part).size();
    apart_us += apart_.solved_cost(part);
  }
  if (nodes > static_cast<size_t>(options_.max_region_nodes)) return std::nullopt;
  const bool is_quick_to_plan = prices_.is_for_gpu();
  if (!is_quick_to_plan && most_saved_us(parts) < kLeastChainShare * apart_us) return std::nullopt;
  nodes_examined_ += int64_t(nodes);
  const bool holds_less = holds_much_less(parts);
  const double worth_us =
      holds_less ? (1 + kPriceMargin) * apart_us : (1 - kMarginShare) * apart_us - kMarginUs;
  const Result<double> price = fused_us(parts, worth_us, (holds_less ? kWorthSearching : 1) * worth_us);
  if (!price || *price > worth_us) return std::nullopt;
  return JointPrice{*price, apart_us, true};
}

FusionRefusal MergeJudge::with_own_names(const FusionRefusal& refusal, GroupId first, GroupId second) {
  if (!std::holds_alternative<NotSchedulable>(refusal)) return refusal;
  const auto why = prices_.unless_broken([&]() -> std::optional<std::string> {
    const auto tiles = prices_.named_tiles(graph_, groups_.region(first, second), {options_.eager_numerics});
    return tiles ? no_nest(*tiles, first, second) : std::nullopt;
  });
  return why && *why ? NotSchedulable{**why} : refusal;
}

}  // namespace tilefuse
