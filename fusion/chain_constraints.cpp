// collect_chain_constraints: the decisions of a chain's tasks, and what bounds them.
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "fusion/chain_solve.h"
#include "fusion/decision_variables.h"
#include "fusion/dots.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// The likeliest first: those of a rough search.
constexpr std::array<int64_t, 8> kTiles = {64, 32, 128, 16, 96, 48, 8, 256};
constexpr std::array<int64_t, 5> kBlocks = {128, 64, 256, 32, 512};
constexpr size_t kRoughTiles = 2, kRoughBlocks = 1;
constexpr int64_t kShortExtent = 64;

DecisionValue numbered(int64_t number) { return {number, std::to_string(number)}; }

class ChainSystemMaker {
 public:
  ChainSystemMaker(const TileGraph& graph, const Target& target, const ChainAxes& axes, const Pins& pins,
                   const SizeHints& hints, bool rough)
      : graph_(graph), target_(target), axes_(axes), pins_(pins), hints_(hints), rough_(rough) {
    system_.constraints.tile_graph = graph.name;
    system_.constraints.target = target.name;
    system_.dots = dots_in(graph, target);
  }
  ChainSystem make();

 private:
  VariableId add(const std::string& name, std::vector<DecisionValue> domain);
  void require(decltype(Constraint::rule) rule, std::string origin) {
    system_.constraints.constraints.push_back({std::move(rule), std::move(origin), ConstraintKind::Limit});
  }
  Choice having(VariableId variable, int64_t number, bool is) const;
  void add_grid();
  void add_walk();
  void add_scratch(Walk walk);
  Product bytes_of(const ScratchTile& tile, Walk walk) const;
  Factor length(VariableId variable, AxisId axis) const;
  double largest(AxisId axis) const;

  const TileGraph& graph_;
  const Target& target_;
  const ChainAxes& axes_;
  const Pins& pins_;
  const SizeHints& hints_;
  bool rough_;
  ChainSystem system_;
};

// A pinned number joins the domain.
VariableId ChainSystemMaker::add(const std::string& name, std::vector<DecisionValue> domain) {
  if (const auto pin = pins_.decisions.find(name); pin != pins_.decisions.end()) {
    add_pinned_number(pin->second, domain);
  }
  system_.constraints.variables.push_back({name, std::move(domain)});
  return VariableId{static_cast<uint32_t>(system_.constraints.variables.size() - 1)};
}

Choice ChainSystemMaker::having(VariableId variable, int64_t number, bool is) const {
  const std::vector<DecisionValue>& domain = system_.constraints.variables[variable.index].domain;
  Choice choice{variable, 0};
  for (size_t i = 0; i < domain.size(); ++i) {
    if ((domain[i].number == number) == is) choice.values |= ValueSet{1} << i;
  }
  return choice;
}

// Tasks are tiles of the rows, which go innermost; of other shared axes they have one coordinate.
void ChainSystemMaker::add_grid() {
  std::vector<AxisId> order = axes_.shared;
  std::stable_partition(order.begin(), order.end(), [&](AxisId axis) { return axis != axes_.rows; });
  for (const AxisId axis : order) {
    std::vector<DecisionValue> domain;
    const int64_t extent = hinted_size(graph_[axis].extent, hints_);
    for (const int64_t tile : std::span(kTiles).first(rough_ ? kRoughTiles : kTiles.size())) {
      if (axis == axes_.rows && tile < extent) domain.push_back(numbered(tile));
    }
    if (axis == axes_.rows && extent <= *std::max_element(kTiles.begin(), kTiles.end())) {
      domain.push_back({0, "all"});
    }
    const bool is_short = extent > 1 && extent <= kShortExtent;  // heads, not rows
    if (axis != axes_.rows || domain.empty() || is_short) domain.push_back(numbered(1));
    system_.grid.emplace_back(axis, add("grid." + graph_[axis].name, std::move(domain)));
  }
}

void ChainSystemMaker::add_walk() {
  std::vector<DecisionValue> walks;
  for (const Walk walk : {Walk::Online, Walk::MultiPass}) {
    walks.push_back({static_cast<int64_t>(walk), std::string(walk_name(walk))});
  }
  system_.walk = add("walk", std::move(walks));
  std::vector<DecisionValue> blocks;
  for (const int64_t block : std::span(kBlocks).first(rough_ ? kRoughBlocks : kBlocks.size())) {
    if (axes_.walked && block < hinted_size(graph_[*axes_.walked].extent, hints_)) {
      blocks.push_back(numbered(block));
    }
  }
  blocks.push_back({0, "none"});
  system_.block = add("block", std::move(blocks));
  const auto online = static_cast<int64_t>(Walk::Online);
  require(AnyOf{{having(system_.walk, online, true), having(system_.block, 0, true)}},
          "only an online walk has blocks");
  const Choice is_not_online = having(system_.walk, online, false);
  if (!axes_.walked) return require(AnyOf{{is_not_online}}, "no online walk: " + axes_.why_not_online);
  require(AnyOf{{is_not_online, having(system_.block, 0, false)}}, "an online walk has blocks");
}

double ChainSystemMaker::largest(AxisId axis) const {
  const int64_t most = bounds(graph_[axis].extent).high;
  return most == std::numeric_limits<int64_t>::max() ? 1e300 : double(most);
}

Factor ChainSystemMaker::length(VariableId variable, AxisId axis) const {
  Factor factor{variable, {}, {}};
  for (const DecisionValue& value : system_.constraints.variables[variable.index].domain) {
    factor.by_value.push_back(value.number == 0 ? largest(axis)
                                                : std::min(double(value.number), largest(axis)));
  }
  return factor;
}

Product ChainSystemMaker::bytes_of(const ScratchTile& tile, Walk walk) const {
  Product product{double(tile.element_bytes), {}};
  for (const AxisId axis : tile.axes) {
    const auto shared = std::find_if(system_.grid.begin(), system_.grid.end(),
                                     [&](const auto& item) { return item.first == axis; });
    if (shared != system_.grid.end()) {
      product.factors.push_back(length(shared->second, axis));
    } else if (walk == Walk::Online && axis == axes_.walked) {
      product.factors.push_back(length(system_.block, axis));
    } else {
      product.constant *= largest(axis);
    }
  }
  Factor walks{system_.walk, {}, {}};
  for (const DecisionValue& value : system_.constraints.variables[system_.walk.index].domain) {
    walks.by_value.push_back(value.number == static_cast<int64_t>(walk) ? 1 : 0);
  }
  product.factors.push_back(std::move(walks));
  return product;
}

// Tiles stay in a cache: with tiles of one element each, the chain says which there are.
void ChainSystemMaker::add_scratch(Walk walk) {
  const Choice other = having(system_.walk, static_cast<int64_t>(walk), false);
  Schedule sample;
  sample.dots = system_.dots;
  sample.walk = walk;
  for (const AxisId axis : axes_.shared) sample.grid.push_back({axis, axis == axes_.rows ? 2 : 1});
  if (walk == Walk::Online) {
    if (!axes_.walked) return;
    sample.block = AxisTile{*axes_.walked, 2};
  }
  const Result<Chain> chain = make_chain(graph_, axes_, sample);
  if (!chain) return require(AnyOf{{other}}, chain.unsupported().reason);
  AtMost fits{{}, double(target_.l2_bytes) / 2, "B"};
  for (const ScratchTile& tile : chain->tiles) fits.sum.push_back(bytes_of(tile, walk));
  require(std::move(fits), "the tiles of " + std::string(walk_name(walk)) + " nests fit half of L2");
}

ChainSystem ChainSystemMaker::make() {
  add_grid();
  add_walk();
  add_scratch(Walk::Online);
  add_scratch(Walk::MultiPass);
  return std::move(system_);
}

}  // namespace

ChainSystem collect_chain_constraints(const TileGraph& graph, const Target& target, const ChainAxes& axes,
                                      const Pins& pins, const SizeHints& hints, bool rough) {
  ChainSystem system = ChainSystemMaker(graph, target, axes, pins, hints, rough).make();
  add_pins(pins, system.constraints);
  return system;
}

}  // namespace tilefuse
