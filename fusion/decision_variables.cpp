#include "fusion/decision_variables.h"

#include <algorithm>
#include <charconv>

#include "core/nearest_name.h"
#include "core/result.h"
#include "fusion/contraction.h"
#include "fusion/element_cost.h"
#include "fusion/matrix_tiles.h"
#include "fusion/panels.h"
#include "fusion/rate_tables.h"
#include "fusion/scatter.h"

namespace tilefuse {
namespace {

constexpr int kMostTiles = 24;  // values in the domain of a tile
constexpr int64_t kMostSplit = 256;

std::optional<int64_t> positive_number(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

DecisionValue numbered(int64_t number) { return {number, std::to_string(number)}; }

class VariableMaker {
 public:
  VariableMaker(const TileGraph& graph, const Target& target, const RegionFacts& facts, const Pins& pins)
      : graph_(graph), target_(target), facts_(facts), pins_(pins) {}
  ScheduleSystem make();

 private:
  VariableId add(std::string name, std::vector<DecisionValue> domain);
  void add_lanes();
  void add_walk();
  void add_stage();
  void add_grid();
  std::vector<DecisionValue> tiles(AxisId axis) const;
  std::vector<DecisionValue> rows() const;
  bool would_share_rows(AxisId axis) const;
  std::vector<DecisionValue> axes_of_rows() const;
  std::vector<DecisionValue> splits() const;
  bool asks_ahead(BufferId buffer) const;
  std::vector<DecisionValue> store_paths(const std::string& name, BufferId buffer) const;
  std::vector<DecisionValue> with_pinned(const std::string& name, std::vector<DecisionValue> domain) const;

  const TileGraph& graph_;
  const Target& target_;
  const RegionFacts& facts_;
  const Pins& pins_;
  ScheduleSystem system_;
};

VariableId VariableMaker::add(std::string name, std::vector<DecisionValue> domain) {
  std::vector<Variable>& variables = system_.constraints.variables;
  variables.push_back({std::move(name), std::move(domain)});
  return VariableId{static_cast<uint32_t>(variables.size() - 1)};
}

std::vector<DecisionValue> VariableMaker::with_pinned(const std::string& name,
                                                      std::vector<DecisionValue> domain) const {
  const auto pin = pins_.decisions.find(name);
  if (pin == pins_.decisions.end()) return domain;
  add_pinned_number(pin->second, domain);
  return domain;
}

void VariableMaker::add_lanes() {
  std::vector<DecisionValue> axes;
  for (size_t a = graph_.axes.size(); a-- > 0;)
    axes.push_back({static_cast<int64_t>(a), graph_.axes[a].name});
  axes.push_back({-1, "none"});
  system_.lane_axis = add("lane_axis", std::move(axes));
  const int full = target_.vector_bytes / 4;
  std::vector<DecisionValue> lanes;
  for (int count : {full, full / 2, full / 4, 2 * full, 1}) {
    const bool known = std::any_of(lanes.begin(), lanes.end(),
                                   [&](const DecisionValue& value) { return value.number == count; });
    const bool generated = count == 1 || (count >= 4 && count <= 32);
    if (generated && !known) lanes.push_back(numbered(count));
  }
  system_.lanes = add("lanes", std::move(lanes));
}

void VariableMaker::add_walk() {
  system_.accumulate = add("accumulate", {{0, "registers"}, {1, "scratch"}});
  std::vector<DecisionValue> walks;
  for (Walk walk : {Walk::MultiPass, Walk::Resident, Walk::Online, Walk::None}) {
    walks.push_back({static_cast<int64_t>(walk), std::string(walk_name(walk))});
  }
  system_.walk = add("walk", std::move(walks));
  for (TileValueId value : crossing_values(graph_, facts_.structure)) {
    system_.keep.emplace_back(value, add("keep." + graph_[value].name, {{0, "no"}, {1, "yes"}}));
  }
}

// Loads that are contiguous along some parallel axis: turned, when another one is the lane axis. What rows
// share may be packed, whichever axis it is contiguous along.
void VariableMaker::add_stage() {
  for (const Access& access : facts_.accesses) {
    if (!access.load || access.in_neighbours) continue;
    std::vector<DecisionValue> axes = {{-1, "direct"}};
    std::vector<AxisId> candidates = facts_.structure.parallel;
    if (is_shared_by_rows(graph_, facts_.structure, *access.load)) {
      candidates.insert(candidates.end(), facts_.structure.reduced.begin(), facts_.structure.reduced.end());
    }
    for (AxisId axis : candidates) {
      const AxisAccess& along = access.along[axis.index];
      if (along.kind != AxisAccess::Kind::Unit || along.is_uneven) continue;
      axes.push_back({static_cast<int64_t>(axis.index), graph_[axis].name});
    }
    if (axes.size() == 1) continue;
    system_.stage.emplace_back(*access.load, add("stage." + graph_[*access.load].name, std::move(axes)));
  }
}

std::vector<DecisionValue> VariableMaker::tiles(AxisId axis) const {
  std::vector<DecisionValue> domain = {{0, "all"}};
  const double extent = facts_.extent[axis.index];
  if (extent <= 1) return domain;
  for (int64_t tile = 1; double(tile) < extent && domain.size() < kMostTiles; tile *= 2) {
    domain.push_back(numbered(tile));
  }
  return domain;
}

std::vector<DecisionValue> VariableMaker::splits() const {
  std::vector<DecisionValue> domain;
  for (int64_t parts = 1; parts <= kMostSplit; parts *= 2) domain.push_back(numbered(parts));
  return domain;
}

// Vectors side by side, or rows of matrix tiles.
std::vector<DecisionValue> VariableMaker::rows() const {
  std::vector<DecisionValue> domain = {numbered(1), numbered(2), numbered(3),
                                       numbered(4), numbered(6), numbered(8)};
  if (system_.tile_dots == DotKind::None) return domain;
  for (const int tiles : {2, 1, 4}) domain.push_back(numbered(int64_t{tiles} * kTileRows));
  return domain;
}

// Of an axis that a loop is cut along, rows differ in what they want computed; copied ones go inside anyway.
bool VariableMaker::would_share_rows(AxisId axis) const {
  const Structure& structure = facts_.structure;
  return facts_.extent[axis.index] > 1 && breakpoints(graph_, axis).empty() &&
         std::ranges::find(structure.copied, axis) == structure.copied.end();
}

// The innermost axis beside the lanes, and of all others the one along which rows have most in common, if
// that is worth computing once: a table of sines that is multiplied with every head, of heads. Or what the
// user asks for.
std::vector<DecisionValue> VariableMaker::axes_of_rows() const {
  std::vector<DecisionValue> domain = {{-1, "innermost"}};
  const Structure& structure = facts_.structure;
  if (!structure.reductions.empty() || structure.parallel.size() < 3 || scatters(graph_)) return domain;
  const auto shared_along = [&](AxisId axis) {
    return cycles_shared_by_rows(graph_, structure.parallel.back(), axis, target_);
  };
  const auto pin = pins_.decisions.find("rows_along");
  const AxisId innermost = *innermost_row_axis(structure);
  double most = shared_along(innermost) + kDearCycles;
  std::optional<AxisId> best;
  for (const AxisId axis : structure.parallel) {
    if (axis == structure.parallel.back() || axis == innermost) continue;
    if (pin != pins_.decisions.end() && pin->second == graph_[axis].name) {
      best = axis;
      break;
    }
    const double shared = would_share_rows(axis) ? shared_along(axis) : 0;
    if (shared < most) continue;
    most = shared;
    best = axis;
  }
  if (best) domain.push_back({static_cast<int64_t>(best->index), graph_[*best].name});
  return domain;
}

void VariableMaker::add_grid() {
  for (AxisId axis : facts_.structure.parallel) {
    const std::string name = "grid." + graph_[axis].name;
    system_.grid.emplace_back(axis, add(name, with_pinned(name, tiles(axis))));
  }
}

// The store buffer of a core waits for lines in order: those of outputs that lie beyond L1 are asked for one
// iteration before, where the target gains by it. In-order waits cost most where other stores hit L1. What a
// contraction stores next to a block comes after all other rows.
bool VariableMaker::asks_ahead(BufferId buffer) const {
  if (target_.rate_or("stores.ahead", 0) == 0) return false;
  if (facts_.home_bytes <= usable_bytes(target_, MemoryLevel::L1, 1)) return false;
  if (has_contraction(graph_) && !walks_again_to_store(graph_, facts_.structure)) return false;
  return std::none_of(graph_.stores.begin(), graph_.stores.end(),
                      [&](const TileStore& store) { return store.buffer == buffer && store.scatter; });
}

std::vector<DecisionValue> VariableMaker::store_paths(const std::string& name, BufferId buffer) const {
  const auto value = [](StorePath path, const char* text) {
    return DecisionValue{static_cast<int64_t>(path), text};
  };
  const auto pin = pins_.decisions.find(name);
  const std::string_view pinned = pin == pins_.decisions.end() ? "" : std::string_view(pin->second);
  const bool is_ahead = pinned == "ahead" || (pinned != "cached" && asks_ahead(buffer));
  return {is_ahead ? value(StorePath::Ahead, "ahead") : value(StorePath::Cached, "cached"),
          value(StorePath::Streamed, "streamed")};
}

ScheduleSystem VariableMaker::make() {
  system_.constraints.tile_graph = graph_.name;
  system_.constraints.target = target_.name;
  if (multiplies_in(facts_.dots, target_)) system_.dots = facts_.dots;
  if (multiplies_in_tiles(facts_.dots, target_)) system_.tile_dots = facts_.dots;
  add_lanes();
  add_walk();
  system_.unroll = add("unroll", {numbered(1), numbered(2), numbered(4)});
  if (auto axes = axes_of_rows(); axes.size() > 1) system_.rows_along = add("rows_along", std::move(axes));
  system_.rows = add("rows", rows());
  system_.columns =
      add("columns", {numbered(1), numbered(2), numbered(3), numbered(4), numbered(6), numbered(8)});
  system_.split = add("split", with_pinned("split", splits()));
  add_stage();
  for (const BufferId buffer : stored_outputs(graph_)) {
    const std::string name = "store." + graph_[buffer].name;
    system_.store.emplace_back(buffer, add(name, store_paths(name, buffer)));
  }
  add_grid();
  return std::move(system_);
}

// "pin lane = 8: softmax_0 has no decision lane; did you mean lanes?"
[[noreturn]] void refuse_pin(const std::string& pin, const std::string& owner, const std::string& kind,
                             const std::string& wanted, const std::vector<std::string_view>& known) {
  std::string text = pin;
  text.append(": ").append(owner).append(" has no ").append(kind).append(" ").append(wanted);
  if (const auto nearest = nearest_name(wanted, known))
    text.append("; did you mean ").append(*nearest).append("?");
  throw UserError(text);
}

}  // namespace

ScheduleSystem make_decision_variables(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                                       const Pins& pins) {
  return VariableMaker(graph, target, facts, pins).make();
}

void add_pinned_number(const std::string& text, std::vector<DecisionValue>& domain) {
  const std::optional<int64_t> number = positive_number(text);
  const bool known = std::any_of(domain.begin(), domain.end(),
                                 [&](const DecisionValue& value) { return value.text == text; });
  if (number && !known) domain.push_back(numbered(*number));
}

void add_pins(const Pins& pins, ConstraintSystem& system) {
  for (const auto& [name, text] : pins.decisions) {
    const std::string pin = std::string(name).append(" = ").append(text);
    const std::optional<VariableId> variable = system.find(name);
    std::vector<std::string_view> known;
    if (!variable) {
      for (const Variable& candidate : system.variables) known.emplace_back(candidate.name);
      refuse_pin("pin " + pin, system.tile_graph, "decision", name, known);
    }
    ValueSet value = 0, bit = 1;
    for (const DecisionValue& candidate : system.variables[variable->index].domain) {
      if (candidate.text == text) value = bit;
      bit <<= 1U;
      known.emplace_back(candidate.text);
    }
    if (value == 0) refuse_pin("pin " + pin, name, "value", text, known);
    system.constraints.push_back({AnyOf{{{*variable, value}}}, "pinned: " + pin, ConstraintKind::Pin});
  }
}

}  // namespace tilefuse
