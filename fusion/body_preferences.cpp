#include "fusion/body_preferences.h"

#include <algorithm>

#include "fusion/element_cost.h"
#include "fusion/rule_writer.h"

namespace tilefuse {
namespace {

// Values of an iteration: with more, there is always one to compute while another is waited for. Rows of such
// bodies were no faster, and took compilers ten times as long. But six of 70 values that have a sine and a
// cosine in common take 0.57 of the time of one, two of 150 that are a window 0.85 (Granite Rapids).
constexpr double kLongBody = 128, kLongBodyOfDear = 512, kLongBodyOfWindows = 384;
// Of the registers: functions side by side of a map, and of a reduction, whose vectors wait for more.
constexpr double kFunctionsOfMap = 0.125, kFunctionsOfReduction = 0.25;

bool is_walked(const TileGraph& graph, const Structure& structure, TileValueId value) {
  return structure.reductions.empty() ? graph[value].axes.size() > 1
                                      : structure.varies_along_reduced(graph, value);
}

class BodyPreferenceWriter : private RuleWriter {
 public:
  BodyPreferenceWriter(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                       ScheduleSystem& system)
      : RuleWriter(system, ConstraintKind::Preference),
        graph_(graph),
        target_(target),
        facts_(facts),
        structure_(facts.structure),
        system_(system) {}

  void prefer_short_bodies();
  void prefer_few_functions();

 private:
  std::optional<AxisId> row_of(const RowOrder& order) const;
  bool share_dear_values(AxisId row) const;
  bool lies_apart(TileValueId value) const;
  bool is_of_vectors(TileValueId value) const;

  const TileGraph& graph_;
  const Target& target_;
  const RegionFacts& facts_;
  const Structure& structure_;
  ScheduleSystem& system_;
};

std::optional<AxisId> BodyPreferenceWriter::row_of(const RowOrder& order) const {
  return order.axis < 0 ? innermost_row_axis(structure_) : AxisId{static_cast<uint32_t>(order.axis)};
}

// Whether rows along an axis have in common something dear that is computed for every vector, or loaded
// element by element: nine taps of a filter that lie apart, say.
bool BodyPreferenceWriter::share_dear_values(AxisId row) const {
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const TileValue& value = graph_.values[v];
    const bool varies = std::ranges::binary_search(value.axes, row);
    if (!is_walked(graph_, structure_, TileValueId{v}) || varies) continue;
    if (is_dear(graph_, value, target_) || lies_apart(TileValueId{v})) return true;
  }
  return false;
}

// What no lanes load in one piece, whatever they go along.
bool BodyPreferenceWriter::lies_apart(TileValueId value) const {
  const auto access =
      std::ranges::find_if(facts_.accesses, [&](const Access& found) { return found.load == value; });
  if (access == facts_.accesses.end()) return false;
  const auto is = [&](AxisAccess::Kind kind) {
    return std::ranges::any_of(access->along, [&](const AxisAccess& along) { return along.kind == kind; });
  };
  return is(AxisAccess::Kind::Strided) && !is(AxisAccess::Kind::Unit);
}

void BodyPreferenceWriter::prefer_short_bodies() {
  const double window = facts_.shared_reads.any() ? kLongBodyOfWindows : kLongBody;
  const double walked = walked_values(graph_, structure_);
  for (const RowOrder& order : row_orders()) {
    const std::optional<AxisId> row = row_of(order);
    const double dear = row && share_dear_values(*row) ? kLongBodyOfDear : kLongBody;
    const double most = std::max(dear, window) / walked;
    std::vector<Choice> choices = order.elsewhere;
    choices.push_back(where(system_.rows, [&](int64_t rows) { return rows == 1 || double(rows) <= most; }));
    require(std::move(choices), "rows side by side keep the body short");
  }
}

// Not one for each row: what varies along the lanes. Those of a map mostly are its last axis.
bool BodyPreferenceWriter::is_of_vectors(TileValueId value) const {
  if (!structure_.reductions.empty()) return is_walked(graph_, structure_, value);
  return !structure_.parallel.empty() &&
         std::ranges::binary_search(graph_[value].axes, structure_.parallel.back());
}

// Dear functions hide their latency in a few vectors; of more, their constants and what they have computed
// do not fit the registers together. With 32 of them, sines and cosines of eight vectors took 2.5 to 3.2
// times as long as those of four, sums of sigmoids of twelve 1.35 times (Zen 4). Rows of a window gain more
// by what they share.
void BodyPreferenceWriter::prefer_few_functions() {
  if (facts_.shared_reads.any()) return;
  const double share = structure_.reductions.empty() ? kFunctionsOfMap : kFunctionsOfReduction;
  for (const RowOrder& order : row_orders()) {
    const std::optional<AxisId> row = row_of(order);
    double of_rows = 0, of_all = 0;  // functions
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      const TileValue& value = graph_.values[v];
      if (!is_of_vectors(TileValueId{v}) || !is_dear(graph_, value, target_)) continue;
      ++(row && std::ranges::binary_search(value.axes, *row) ? of_rows : of_all);
    }
    AtMost fits{{}, std::max(of_rows + of_all, share * double(target_.vector_registers)), "functions"};
    fits.sum = {{of_rows, {number_of(system_.rows), number_of(system_.columns), number_of(system_.unroll)}},
                {of_all, {number_of(system_.unroll)}}};
    if (system_.rows_along) {
      for (Product& product : fits.sum) product.factors.push_back(if_equal(*system_.rows_along, order.axis));
    }
    require(std::move(fits), "functions side by side fit the vector registers");
  }
}

}  // namespace

double walked_values(const TileGraph& graph, const Structure& structure) {
  double count = 0;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    count += is_walked(graph, structure, TileValueId{v}) ? 1 : 0;
  }
  return count;
}

void add_body_preferences(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                          ScheduleSystem& system) {
  BodyPreferenceWriter writer(graph, target, facts, system);
  writer.prefer_short_bodies();
  writer.prefer_few_functions();
}

}  // namespace tilefuse
