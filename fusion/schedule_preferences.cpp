#include "fusion/schedule_preferences.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>

#include "core/contains.h"
#include "fusion/body_preferences.h"
#include "fusion/contraction.h"
#include "fusion/element_cost.h"
#include "fusion/grid_preferences.h"
#include "fusion/matrix_tiles.h"
#include "fusion/rate_tables.h"
#include "fusion/rule_writer.h"
#include "fusion/schedule_limits.h"
#include "fusion/stored_copy.h"
#include "fusion/tile_limits.h"

namespace tilefuse {
namespace {

constexpr int64_t kRowsFromMemory = 4;
constexpr double kManyResults = 512;          // tasks of a cache line and more for many threads
constexpr double kLeastPartElements = 16384;  // of a split reduction
constexpr double kLeastPanelRows = 1024;      // of a part of a product whose operands are packed
constexpr double kRowsInL1 = 4;               // times its size: L2 brings the rest in time
constexpr double kLongRowMemory = 256;  // bytes: longer ones side by side defeat the prefetcher from afar
// Where it follows some. Four or eight gain no more on average and lose more often; two of a softmax in bf16,
// which computes more than it waits, took up to 1.3 times as long as one.
constexpr int64_t kLongRowsBeside = 2;
constexpr double kLongEpilogue = 1024;  // values of a block: compilers take seconds for some thousands
constexpr size_t kKeptOneByOne = 4;     // values of which each is decided by itself
constexpr int64_t kPageBytes = 4096;    // L1 tells lines apart by their place in a page
constexpr double kFewVectors = 8;       // of a row
constexpr double kShortWindow = 7;      // taps that compilers write out
constexpr double kOtherWays = 2;        // of L1, for what rows are multiplied with

class PreferenceWriter : private RuleWriter {
 public:
  PreferenceWriter(const TileGraph& graph, const Target& target, const RegionFacts& facts, double region_us,
                   ScheduleSystem& system)
      : RuleWriter(system, ConstraintKind::Preference),
        graph_(graph),
        target_(target),
        facts_(facts),
        structure_(facts.structure),
        region_us_(region_us),
        contracts_(has_contraction(graph) && !walks_again_to_store(graph, facts.structure)),
        system_(system) {}

  void prefer_lanes();
  void prefer_unroll();
  void prefer_walk();
  void prefer_rows();
  void prefer_split();
  void prefer_grid() { add_grid_preferences(graph_, target_, facts_, region_us_, system_); }
  void prefer_stage();
  void prefer_stores();

 private:
  double extent(AxisId axis) const { return facts_.extent[axis.index]; }
  bool is_shorter_than_a_vector(AxisId axis) const {
    return extent(axis) * sizeof(float) < double(target_.vector_bytes);
  }
  // Of several, which add alike however their tasks are cut.
  bool is_nest() const {
    return std::ranges::any_of(graph_.buffers,
                               [](const Buffer& buffer) { return buffer.role == Buffer::Role::Scratch; });
  }
  Choice lanes_are_results() const {
    return where(system_.lane_axis, [&](int64_t axis) {
      return axis < 0 || !structure_.is_reduced(AxisId{static_cast<uint32_t>(axis)});
    });
  }
  bool from_memory() const { return facts_.footprint_bytes > usable_bytes(target_, MemoryLevel::L3, 1); }
  bool from_afar() const { return lies_afar(target_, facts_.footprint_bytes); }
  std::vector<Choice> packed_along(AxisId axis) const;
  bool loads_better_by_halves(AxisId axis) const;
  bool reads_better_by_halves() const;
  bool adds_up_better_by_halves(AxisId axis) const;
  bool moves_small_elements() const;
  bool computes_dear_values() const;
  void prefer_rows_in_sets(const Access& access);
  bool rows_meet_in_windows() const;
  void prefer_dots_in_registers();
  void prefer_rows_from_memory();
  double most_in_a_pass() const;  // reductions
  void keep_alike(const std::vector<TileValueId>& resident);
  double stored_bytes(BufferId buffer) const;

  const TileGraph& graph_;
  const Target& target_;
  const RegionFacts& facts_;
  const Structure& structure_;
  double region_us_;
  bool contracts_;
  ScheduleSystem& system_;
};

bool PreferenceWriter::moves_small_elements() const {
  return std::any_of(facts_.accesses.begin(), facts_.accesses.end(),
                     [](const Access& access) { return access.element_bytes < 4; });
}

void PreferenceWriter::prefer_lanes() {
  const int full = target_.vector_bytes / 4;
  require({where(system_.lanes, [&](int64_t lanes) { return lanes <= full; })}, "one register of f32 lanes");
  bool any = false;
  for (uint32_t a = 0; a < graph_.axes.size(); ++a)
    any |= extent(AxisId{a}) >= 4 && has_unit_access(facts_, AxisId{a});
  for (uint32_t a = 0; a < graph_.axes.size(); ++a) {
    const AxisId axis{a};
    if (extent(axis) < 2 || (any && !has_unit_access(facts_, axis))) {
      std::vector<Choice> choices = packed_along(axis);
      const bool is_possible = !choices.empty();
      choices.push_back(lane_axis_is_not(axis));
      require(std::move(choices), "lanes along " + graph_[axis].name + " would load nothing in one piece");
      if (!is_possible) continue;
    }
    int enough = full;
    while (enough > 4 && enough >= 2 * extent(axis)) enough /= 2;
    const bool try_halves = enough == full && (loads_better_by_halves(axis) || reads_better_by_halves() ||
                                               adds_up_better_by_halves(axis));
    const int least = try_halves ? full / 2 : enough;
    require({lane_axis_is_not(axis),
             where(system_.lanes, [&](int64_t lanes) { return lanes == enough || lanes == least; })},
            "lanes that " + graph_[axis].name + " fills: " + std::to_string(enough));
  }
}

// What a product may pack in panels whose lanes are of this axis.
std::vector<Choice> PreferenceWriter::packed_along(AxisId axis) const {
  std::vector<Choice> packed;
  for (const auto& [load, stage] : system_.stage) {
    if (contracts_ && contains(graph_[load].axes, axis)) packed.push_back(is_not(stage, -1));
  }
  return packed;
}

// Elements loaded one by one, where half a vector is put together faster than a whole one.
bool PreferenceWriter::loads_better_by_halves(AxisId axis) const {
  const double whole = target_.rate("clk_per_element.strided_load");
  if (target_.rate_or("clk_per_element.strided_load_half", whole) >= whole) return false;
  return std::any_of(facts_.accesses.begin(), facts_.accesses.end(), [&](const Access& access) {
    return access.load && access.along[axis.index].kind == AxisAccess::Kind::Strided;
  });
}

// Much from memory, of which little is left.
bool PreferenceWriter::reads_better_by_halves() const {
  return from_memory() && !structure_.reductions.empty() && target_.rate_or("share.whole_line_reads", 0) > 0;
}

// Short rows, where half a vector takes half as long: its lanes come together sooner.
bool PreferenceWriter::adds_up_better_by_halves(AxisId axis) const {
  return structure_.is_reduced(axis) && target_.datapath_bytes < target_.vector_bytes &&
         extent(axis) <= kFewVectors * target_.vector_bytes / 4;
}

bool PreferenceWriter::computes_dear_values() const {
  return std::any_of(graph_.values.begin(), graph_.values.end(),
                     [&](const TileValue& value) { return is_dear(graph_, value, target_); });
}

// Unrolled accumulators hide the latency of a reduction, and so do the vectors of dear functions; small
// elements are loaded and stored in pairs.
void PreferenceWriter::prefer_unroll() {
  for (uint32_t a = 0; a < graph_.axes.size(); ++a) {
    for (const DecisionValue& lanes : domain(system_.lanes)) {
      const Choice short_enough = where(system_.unroll, [&](int64_t unroll) {
        return unroll == 1 || double(lanes.number * unroll) <= extent(AxisId{a});
      });
      require({lane_axis_is_not(AxisId{a}), is_not(system_.lanes, lanes.number), short_enough},
              "unrolled vectors that " + graph_.axes[a].name + " fills");
    }
  }
  if (structure_.reductions.empty() || facts_.has_scan) {
    const int most = computes_dear_values() || (moves_small_elements() && !from_memory()) ? 4
                     : moves_small_elements() || !from_memory()                           ? 2
                                                                                          : 1;
    require({where(system_.unroll, [&](int64_t unroll) { return unroll <= most; })}, "nothing to unroll for");
    const double half = double(target_.vector_registers) / 2;
    require(AtMost{{{1, {number_of(system_.rows), number_of(system_.unroll)}}}, half, "vectors"},
            "vectors side by side leave registers to what they are computed from");
    return;
  }
  require({is(system_.accumulate, 0), is(system_.unroll, 1)}, "scratch accumulators need no unrolling");
  if (!contracts_) {
    const Choice fills_vectors = where(system_.lane_axis, [&](int64_t axis) {
      return axis < 0 || is_nest() || !is_shorter_than_a_vector(AxisId{static_cast<uint32_t>(axis)});
    });
    require({is(system_.accumulate, 0), fills_vectors}, "accumulators of less than a vector stay in one");
    const double each = 2 * most_in_a_pass();
    AtMost fits{{}, std::max(each, double(target_.vector_registers - 1)), "registers"};
    fits.sum.push_back({each,
                        {if_equal(system_.accumulate, 0), number_of(system_.rows), number_of(system_.columns),
                         number_of(system_.unroll)}});
    require(std::move(fits), "accumulators and the elements on their way into them fit the vector registers");
  }
}

double PreferenceWriter::most_in_a_pass() const {
  std::vector<double> count(static_cast<size_t>(structure_.passes) + 1, 0);
  for (TileValueId id : structure_.reductions) ++count[static_cast<size_t>(structure_.level[id.index])];
  return *std::max_element(count.begin(), count.end());
}

// Computed in each step of the walks over reduced axes.
// Of many, those as dear as each other in a pass are all kept or none: of all subsets the search sees some.
void PreferenceWriter::keep_alike(const std::vector<TileValueId>& resident) {
  std::map<std::tuple<bool, int, std::vector<AxisId>, double>, VariableId> first;
  for (const auto& [value, keep] : system_.keep) {
    const bool needed = std::find(resident.begin(), resident.end(), value) != resident.end();
    const double cycles = recompute_cycles(graph_, structure_, value, target_);
    const std::tuple kind{needed, structure_.level[value.index], graph_[value].axes, cycles};
    const VariableId other = first.try_emplace(kind, keep).first->second;
    require({is(other, 0), is(keep, 1)}, "values as dear as each other are kept alike");
    require({is(other, 1), is(keep, 0)}, "values as dear as each other are kept alike");
  }
}

void PreferenceWriter::prefer_walk() {
  const std::vector<TileValueId> resident = resident_values(graph_, structure_);
  const auto resident_walk = static_cast<int64_t>(Walk::Resident);
  std::vector<Choice> reads_again = {is(system_.walk, resident_walk)};
  for (const auto& [value, keep] : system_.keep) {
    const bool needed = std::find(resident.begin(), resident.end(), value) != resident.end();
    // What is stored anyway is kept by reading it back.
    const bool dear = stored_copy(graph_, structure_, value).has_value() ||
                      recompute_cycles(graph_, structure_, value, target_) >= kDearCycles;
    if (needed) reads_again.push_back(is(keep, 0));
    if (!needed && !dear) require({is(keep, 0)}, "%" + graph_[value].name + " is cheaper computed again");
    if (!needed && dear) {
      require({is_not(system_.walk, resident_walk), is(keep, 0)},
              "a resident walk needs no %" + graph_[value].name);
    }
    if (needed && !dear) {
      require({is(system_.walk, resident_walk), is(keep, 0)},
              "%" + graph_[value].name + " is kept for a resident walk only");
    }
  }
  if (structure_.passes <= 1) return;
  if (system_.keep.size() > kKeptOneByOne) keep_alike(resident);
  if (resident.empty()) {
    require({is_not(system_.walk, resident_walk)}, "no load is read twice");
  } else {
    require(std::move(reads_again), "a walk that keeps everything is called resident");
  }
}

// Whether most elements that one row reads at the taps of a window are those of the next row at other taps,
// of windows one or a few steps apart: compilers write out the taps of a short window, and keep what rows
// read from one to the next.
bool PreferenceWriter::rows_meet_in_windows() const {
  const std::optional<AxisId> row = innermost_row_axis(structure_);
  if (!row || structure_.reduced.empty() || extent(structure_.reduced.back()) > kShortWindow) return false;
  return std::any_of(graph_.values.begin(), graph_.values.end(), [&](const TileValue& value) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    if (load == nullptr) return false;
    const auto of_row = stride_along(graph_, *load, *row);
    const auto of_tap = stride_along(graph_, *load, structure_.reduced.back());
    if (!of_row || !of_tap || of_row->is_constant(0)) return false;
    if (*of_row == *of_tap) return true;
    const auto step = of_row->constant(), apart = of_tap->constant();
    if (!step || !apart || *apart == 0 || *step % *apart != 0) return false;
    const int64_t taps = std::abs(*step / *apart);  // that rows lie apart
    return double(2 * taps) < extent(structure_.reduced.back());
  });
}

// With lanes along what is summed and several columns, the vectors of rows and columns are multiplied more
// than once: they are loaded before, and compilers put sums on the stack where not all of it fits. 2 x 6 with
// 16 registers took 1.6 times as long as 2 x 4 (Zen 3, a product of 64 x 512 x 512).
void PreferenceWriter::prefer_dots_in_registers() {
  const Factor along_sum = factor(system_.lane_axis, [&](int64_t axis) {
    return axis >= 0 && structure_.is_reduced(AxisId{static_cast<uint32_t>(axis)}) ? 1.0 : 0.0;
  });
  const auto of_several = [&](bool counts) {
    return factor(system_.columns, [counts](int64_t columns) {
      return columns <= 1 ? 0.0 : counts ? double(columns) : 1.0;
    });
  };
  const std::optional<AxisId> row = innermost_row_axis(structure_);
  double of_rows = 0, of_columns = 0;  // loads
  for (const Access& access : facts_.accesses) {
    const bool is_walked = access.load && structure_.varies_along_reduced(graph_, *access.load);
    if (is_walked) ++(row && access.varies_along(*row) ? of_rows : of_columns);
  }
  const Factor rows = rows_written_out(), vectors = number_of(system_.unroll);
  AtMost fits{{}, double(target_.vector_registers + 1), "registers"};  // instructions read one from memory
  fits.sum = {{double(structure_.reductions.size()), {along_sum, rows, of_several(true), vectors}},
              {of_rows, {along_sum, rows, of_several(false), vectors}},
              {of_columns, {along_sum, of_several(true), vectors}}};
  require(std::move(fits), "sums along lanes, and a vector of each row and column, fit the vector registers");
}

// Results side by side share what a contraction loads. Rows of other reductions mostly share nothing: there
// they hide latency, of short rows.
void PreferenceWriter::prefer_rows() {
  if (contracts_) {
    require({is(system_.columns, 1), is(system_.unroll, 1)}, "a block of two axes hides all latency");
    if (rows_meet_in_windows()) {
      AtMost fits{
          {}, double(target_.vector_registers + 1), "registers"};  // instructions read one from memory
      fits.sum = {{1, {rows_written_out(), number_of(system_.columns), number_of(system_.unroll)}},
                  {1, {number_of(system_.unroll)}},
                  {1, {rows_written_out()}}};
      require(std::move(fits), "sums, and what rows read at the taps of a window, fit the vector registers");
    }
    prefer_dots_in_registers();
    prefer_rows_from_memory();
    for (const Access& access : facts_.accesses) prefer_rows_in_sets(access);
    add_tile_preferences(graph_, facts_, system_);
    const double each = double(graph_.values.size()) - walked_values(graph_, structure_);
    const Product computed{each, {rows_written_out(), number_of(system_.columns), number_of(system_.unroll)}};
    require(AtMost{{computed}, std::max(each, kLongEpilogue), "values"},
            "what is computed of a block of results stays short");
    return;
  }
  // Where lanes come together, columns are of the last parallel axis but one: the images of a batch, say.
  const std::vector<AxisId>& axes = structure_.parallel;
  const bool shares = axes.size() > 1 && rows_share_work(graph_, axes.back(), axes[axes.size() - 2]);
  if (!shares) require({is(system_.columns, 1)}, "rows share nothing that columns would do once");
  add_body_preferences(graph_, target_, facts_, system_);
  if (structure_.reductions.empty()) return;
  const Choice waits = where(system_.lane_axis, [&](int64_t number) {
    const AxisId axis{static_cast<uint32_t>(std::max<int64_t>(number, 0))};
    return number < 0 || structure_.is_reduced(axis) || is_shorter_than_a_vector(axis);
  });
  require({waits, is(system_.rows, 1)},
          "rows side by side hide the latency of lanes coming together, and of axes shorter than a vector");
  if (facts_.has_scan && structure_.passes <= 1) {  // every element waits for the one before it
    require({lanes_are_results(), is(system_.rows, 1)},
            "a vector that is summed up within itself waits for one addition");
    return;
  }
  double row_bytes = sizeof(float);
  for (AxisId axis : structure_.reduced) row_bytes *= extent(axis);
  if (from_afar() && row_bytes > kLongRowMemory) {
    const int64_t few =
        rows_defeat_prefetch(target_) || walks_dear_values(graph_, structure_, target_) ? 1 : kLongRowsBeside;
    require(or_staged({where(system_.rows, [&](int64_t rows) { return rows <= few; })}),
            "many rows this long side by side defeat the prefetcher");
  }
  const auto [apart, shared] = walked_bytes(facts_);
  AtMost together{
      {{shared, {}}, {apart, {number_of(system_.rows)}}}, kRowsInL1 * double(target_.l1_bytes), "B"};
  double one_row = shared + apart;
  for (const auto& [value, keep] : system_.keep) {
    double bytes = held_bytes(graph_[value].dtype);
    for (AxisId axis : graph_[value].axes) bytes *= structure_.is_reduced(axis) ? extent(axis) : 1;
    together.sum.push_back({bytes, {number_of(system_.rows), if_equal(keep, 1)}});
    one_row += bytes;
  }
  together.limit = std::max(together.limit, one_row);
  require(std::move(together), "rows side by side stay near L1");
}

// A few rows that a product with one row walks side by side take 0.75 of the time of one (Zen 4, f32, 17 to
// 67 MB); of narrow elements, of which a line is more work, one is as fast.
void PreferenceWriter::prefer_rows_from_memory() {
  if (!from_memory() || moves_small_elements()) return;
  const auto is_enough = [](int64_t count) { return count >= kRowsFromMemory; };
  require({lanes_are_results(), where(system_.rows, is_enough), where(system_.columns, is_enough)},
          "rows side by side bring more from memory at a time");
}

// Rows whose distance divides a page fall into one set of L1, which has a way for each page that it holds.
void PreferenceWriter::prefer_rows_in_sets(const Access& access) {
  const auto varies = [&](AxisId axis) { return access.varies_along(axis); };
  if (!access.load || std::none_of(structure_.reduced.begin(), structure_.reduced.end(), varies)) return;
  const double free = double(target_.l1_bytes) / double(kPageBytes) - kOtherWays;
  for (AxisId row : structure_.parallel) {
    const AxisAccess& along = access.along[row.index];
    if (along.kind != AxisAccess::Kind::Strided) continue;
    const double share =
        double(std::gcd(along.stride * access.element_bytes, kPageBytes)) / double(kPageBytes);
    std::vector<Choice> ways = {where(system_.rows, [&](int64_t rows) {  // tiles take whole lines
      return takes_tile_rows(rows) || double(rows) * share <= free;
    })};
    // With other lanes the rows are of another axis: the innermost parallel one that is not the lane axis.
    for (const DecisionValue& lane : system_.constraints.variables[system_.lane_axis.index].domain) {
      const bool is_last = lane.number == structure_.parallel.back().index && structure_.parallel.size() > 1;
      const AxisId rows_of = structure_.parallel[structure_.parallel.size() - (is_last ? 2 : 1)];
      if (rows_of != row) ways.push_back(is(system_.lane_axis, lane.number));
    }
    for (const auto& [load, stage] : system_.stage) {
      if (load == *access.load) ways.push_back(is_not(stage, -1));
    }
    require(std::move(ways), "rows that share a set of L1 leave ways to what they are multiplied with");
  }
}

void PreferenceWriter::prefer_split() {
  double elements = 1;
  for (AxisId axis : structure_.reduced) elements *= extent(axis);
  for (AxisId axis : structure_.parallel) elements *= extent(axis);
  const double outermost = structure_.reduced.empty() ? 1 : extent(structure_.reduced.front());
  const double most = std::min({elements / kLeastPartElements, outermost, kFewestTasks});
  require({where(system_.split, [&](int64_t parts) { return parts == 1 || double(parts) <= most; })},
          "parts of a split with enough work for a thread each");
  if (!contracts_) return;
  double results = 1;
  for (AxisId axis : structure_.parallel) results *= extent(axis);
  if (results >= kManyResults) {
    require({lanes_are_results(), is(system_.split, 1)}, "rows are walked from one end to the other");
  }
  const Choice long_parts = where(system_.split, [&](int64_t parts) {
    return parts == 1 || outermost / double(parts) >= kLeastPanelRows;
  });
  for (const auto& [load, stage] : system_.stage) {
    require({is(stage, -1), long_parts}, "parts of panels long enough to be packed for");
  }
}

// A transposed load is turned in tiles of a fixed size: what moves pages, rows of DRAM and lines of stores at
// once was measured, and no closed form ranked it.
void PreferenceWriter::prefer_stage() {
  if (structure_.contracts) return;
  const bool walks = !structure_.reductions.empty();
  for (const auto& [load, stage] : system_.stage) {
    for (const auto& [axis, tile] : system_.grid) {
      const double side = from_memory() ? kTurnedTileMemory : kTurnedTile;
      const Choice large = where(tile, [&](int64_t number) {  // no larger, where its rows are walked again
        const double length = number == 0 ? extent(axis) : double(number);
        return length == side || (length < side && (number == 0 || walks));
      });
      const Choice single = where(tile, [&](int64_t number) { return number == 1 || extent(axis) <= 1; });
      require({is_not(stage, axis.index), large}, "turned tiles are whole lines both ways");
      if (walks) continue;
      require({is(stage, -1), lane_axis_is_not(axis), large}, "turned tiles are whole lines both ways");
      require({is(stage, -1), is(stage, axis.index), lane_axis_is(axis), single},
              "only the axes of a turned tile are cut");
    }
  }
}

double PreferenceWriter::stored_bytes(BufferId buffer) const {
  double most = 0;
  for (const Access& access : facts_.accesses) {
    if (!access.store || access.buffer != buffer) continue;
    double bytes = access.element_bytes;
    for (uint32_t a = 0; a < graph_.axes.size(); ++a)
      bytes *= access.varies_along(AxisId{a}) ? facts_.extent[a] : 1;
    most = std::max(most, bytes);
  }
  return most;
}

// Past the caches only what would not stay in them: whoever reads it next pays for it, which no timing of
// this region alone shows.
void PreferenceWriter::prefer_stores() {
  for (const auto& [buffer, store] : system_.store) {
    if (from_memory() && stored_bytes(buffer) > double(target_.l2_bytes)) continue;
    require({is_not_streamed(store)}, "%" + graph_[buffer].name + " stays in a cache");
  }
}

bool concerns_pinned(const Constraint& constraint, const std::vector<bool>& pinned) {
  const std::vector<VariableId> variables = variables_of(constraint);
  return constraint.kind == ConstraintKind::Preference &&
         std::any_of(variables.begin(), variables.end(), [&](VariableId v) { return pinned[v.index]; });
}

}  // namespace

void keep_stores_in_caches(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                           ScheduleSystem& system) {
  PreferenceWriter(graph, target, facts, 0, system).prefer_stores();
}

void add_preferences(const TileGraph& graph, const Target& target, const RegionFacts& facts, double region_us,
                     ScheduleSystem& system, std::optional<Concern> except) {
  PreferenceWriter writer(graph, target, facts, region_us, system);
  using Rules = void (PreferenceWriter::*)();
  const std::pair<Concern, Rules> all[] = {
      {Concern::Lanes, &PreferenceWriter::prefer_lanes}, {Concern::Unroll, &PreferenceWriter::prefer_unroll},
      {Concern::Walk, &PreferenceWriter::prefer_walk},   {Concern::Rows, &PreferenceWriter::prefer_rows},
      {Concern::Split, &PreferenceWriter::prefer_split}, {Concern::Grid, &PreferenceWriter::prefer_grid},
      {Concern::Stage, &PreferenceWriter::prefer_stage}};
  for (const auto& [concern, rules] : all) {
    if (concern != except) (writer.*rules)();
  }
  writer.prefer_stores();
  std::vector<bool> pinned(system.constraints.variables.size(), false);
  for (const Constraint& constraint : system.constraints.constraints) {
    if (constraint.kind != ConstraintKind::Pin) continue;
    for (VariableId variable : variables_of(constraint)) pinned[variable.index] = true;
  }
  std::erase_if(system.constraints.constraints,
                [&](const Constraint& constraint) { return concerns_pinned(constraint, pinned); });
}

}  // namespace tilefuse
