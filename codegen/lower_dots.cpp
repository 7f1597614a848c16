// Dots: neighbours along the summed axis, multiplied and added up by one instruction (fusion/dots.h says
// when).
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "core/result.h"
#include "fusion/neighbour_tiles.h"
#include "fusion/online_walk.h"
#include "fusion/panels.h"

namespace tilefuse {
namespace {

constexpr CodeType kNeighbours{DType::I32, CodeShape::Vector};

// "dot_quads(sum, row, panel)": bytes without a sign come first.
Code dot_code(DotKind kind, const Code& sum, const Code& row, const Code& panel, bool panel_first) {
  const Code &first = panel_first ? panel : row, &second = panel_first ? row : panel;
  return call("dot_" + std::string(info(kind).name), {sum, first, second});
}

const Dot& dot_of(const LoweringFacts& facts, TileValueId sum) {
  const std::vector<TileValueId>& sums = facts.structure.reductions;
  return facts.dots.at(static_cast<size_t>(std::find(sums.begin(), sums.end(), sum) - sums.begin()));
}

bool is_unsigned_in_memory(const TileGraph& graph, TileValueId load) {
  return graph[std::get<TileLoad>(graph[load].op).buffer].dtype == DType::U8;
}

// Whether every row is read of a tile of neighbours, whose last pair is a whole one.
bool rows_are_tiles_of_neighbours(const LoweringFacts& facts, AxisId summed) {
  return std::ranges::all_of(facts.dots, [&](const Dot& dot) {
    const auto& load = std::get<TileLoad>(facts.graph[dot.row].op);
    return neighbour_axis(facts.graph, load.offset) == summed;
  });
}

}  // namespace

bool starts_from_panel(const LoweringFacts& facts, TileValueId panel) {
  return std::any_of(facts.dots.begin(), facts.dots.end(),
                     [&](const Dot& dot) { return dot.turns_signs && dot.panel == panel; });
}

// The same neighbours in every lane.
Code LaunchLowering::row_of_dots(const Dot& dot) {
  const TileValueId id = dot.row;
  const std::string key = value_key(id) + (dot.turns_signs ? " dot, signs turned" : " dot");
  if (const Computed* known = scopes_.find(key)) return known->code;
  const TileLoad& load = std::get<TileLoad>(graph_[id].op);
  const int depth = depth_of(graph_[id].axes);
  const Expr first = *offset_of_first(load.offset, structure_.reduced.front(), info(schedule_.dots).count);
  const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(first), nullptr, depth};
  std::vector<Code> arguments = {address(place, {}).pointer};
  if (elements_of_dot_) arguments.push_back(integer(*elements_of_dot_));
  Code row = call("splat_neighbours", std::move(arguments));
  if (dot.turns_signs) row = call("turn_signs", {row});
  const Code code = scopes_.let(depth, name_of(id) + copy_suffix(id), kNeighbours, row);
  return scopes_.remember(key, {code, depth, true}).code;
}

// The next neighbours in each lane.
Code LaunchLowering::lanes_of_dots(TileValueId id) {
  const std::string key = value_key(id) + " dot";
  if (const Computed* known = scopes_.find(key)) return known->code;
  const TileLoad& load = std::get<TileLoad>(graph_[id].op);
  const int depth = depth_of(graph_[id].axes);
  const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(load.offset), nullptr,
                    depth};
  std::vector<Code> arguments = {address(place, {}).pointer};
  if (copies_.left) arguments.push_back(*copies_.left);
  const Code loaded = shared_by_rows(call("load_neighbours", std::move(arguments)));
  const Code code = scopes_.let(depth, name_of(id) + copy_suffix(id), kNeighbours, loaded);
  return scopes_.remember(key, {code, depth, true}).code;
}

Code LaunchLowering::panel_of_dots(TileValueId id) {
  const std::string key = value_key(id) + " dot";
  if (const Computed* known = scopes_.find(key)) return known->code;
  const int depth = depth_of(graph_[id].axes);
  const Code pointer = scratch_address(staged_rows_.at(id), depth).pointer;
  const Code loaded = shared_by_rows(call("load", {pointer}));
  const Code code = scopes_.let(depth, name_of(id) + copy_suffix(id), kNeighbours, loaded);
  return scopes_.remember(key, {code, depth, true}).code;
}

// One step over the elements of a dot, for all copies. Row by row: a compiler that is given the neighbours of
// all rows first has registers for them or for the sums, not for both.
void LaunchLowering::emit_dots(const std::vector<Root>& roots) {
  if (lanes_are_reduced()) return emit_dots_along_lanes(roots);
  const Copies outside = copies_;
  for (const Root& root : roots) {
    const Dot& dot = dot_of(facts_, root.value);
    const bool panel_first = is_unsigned_in_memory(graph_, dot.panel);
    for (copies_.lane = 0; copies_.lane < copies_.lanes; ++copies_.lane) (void)panel_of_dots(dot.panel);
    for (copies_.row = 0; copies_.row < copies_.rows; ++copies_.row) {
      copies_.lane = 0;
      scopes_.blank();
      const Code row = row_of_dots(dot);
      for (; copies_.lane < copies_.lanes; ++copies_.lane) {
        const Code sum = accumulator_of(root.value).front();
        const Code dots = dot_code(schedule_.dots, sum, row, panel_of_dots(dot.panel), panel_first);
        scopes_.add({Assign{sum, std::nullopt, dots}, ""});
      }
    }
    copies_ = outside;
  }
}

// The same with lanes along the summed axis: rows and columns share what they read, so that comes first.
void LaunchLowering::emit_dots_along_lanes(const std::vector<Root>& roots) {
  struct Factors {
    const Root* root;
    Copies copies;
    Code first, second;
  };
  std::vector<Factors> all;
  const Copies outside = copies_;
  for (const Root& root : roots) {
    Dot dot = dot_of(facts_, root.value);
    if (is_unsigned_in_memory(graph_, dot.panel)) std::swap(dot.row, dot.panel);
    for_each_copy([&] { all.push_back({&root, copies_, lanes_of_dots(dot.row), lanes_of_dots(dot.panel)}); });
  }
  scopes_.blank();
  for (const Factors& factors : all) {
    copies_ = factors.copies;
    const Code sum = accumulator_of(factors.root->value).front();
    const Code dots = dot_code(schedule_.dots, sum, factors.first, factors.second, false);
    scopes_.add({Assign{sum, std::nullopt, dots}, ""});
  }
  copies_ = outside;
}

// Behind the rows of a panel: what sums of rows with turned signs start from.
LaunchLowering::Address LaunchLowering::starts_address(TileValueId panel) {
  const auto staged = std::find_if(schedule_.staged.begin(), schedule_.staged.end(),
                                   [&](const StagedLoad& load) { return load.load == panel; });
  TILEFUSE_CHECK(staged != schedule_.staged.end(), "sums start from a panel that is not staged");
  ScratchRow row = staged_rows_.at(panel);
  Expr unused;
  const Expr last = panel_rows(*staged, unused) * panel_step();
  row.offset = substitute_index(row.offset, static_cast<int>(structure_.reduced.front().index), last);
  return scratch_address(row, scopes_.depth());
}

// The sign bits alone are what turning them adds to each element of a row.
void LaunchLowering::fill_starts(const StagedLoad& staged) {
  const AxisId summed = structure_.reduced.front();
  const bool panel_first = is_unsigned_in_memory(graph_, staged.load);
  const Code signs = call("turn_signs", {call("splat", {integer(0)}, {DType::I32})});
  scopes_.blank();
  std::vector<Code> sums;
  for_each_lane_copy([&] {
    const std::string lane = copies_.lanes > 1 ? "_" + std::to_string(copies_.lane) : "";
    sums.push_back(scopes_.var(name_of(staged.load) + "_added" + lane, kNeighbours,
                               call("splat", {integer(0)}, {DType::I32})));
  });
  open_plain(summed, panel_range(summed), panel_step(), graph_[summed].name, [&] {  // zeros behind it
    for_each_lane_copy([&] {
      const Code& sum = sums[static_cast<size_t>(copies_.lane)];
      const Code panel =
          call("load", {scratch_address(staged_rows_.at(staged.load), scopes_.depth()).pointer});
      scopes_.add({Assign{sum, std::nullopt, dot_code(schedule_.dots, sum, signs, panel, panel_first)}, ""});
    });
  });
  for_each_lane_copy([&] {
    const Code start = call("neg", {sums[static_cast<size_t>(copies_.lane)]});
    scopes_.add({Effect{call("store", {starts_address(staged.load).pointer, start}), {}}, ""});
  });
}

// Of the current copy; absent: zero. Of a sum in parts, the first one adds what a pack of all of it holds.
std::optional<Code> LaunchLowering::start_of(TileValueId reduction) {
  if (facts_.dots.empty() || !dot_of(facts_, reduction).turns_signs) return std::nullopt;
  const TileValueId panel = dot_of(facts_, reduction).panel;
  Code start = call("load", {starts_address(panel).pointer});
  if (part_ != LaunchPart::Partial || !is_packed_once(graph_, structure_, panel)) return start;
  const Code is_first = operate(CodeOperator::Equal, {scopes_.find("size part number")->code, integer(0)});
  const Code zero = call("splat", {integer(0)}, {DType::I32});
  return operate(CodeOperator::Choose, {is_first, start, zero});
}

// The axis of which two steps are stored together, between lanes that take every other element: of a tile of
// neighbours, or of windows of two.
std::optional<AxisId> LaunchLowering::neighbours_of(const TileStore& store) const {
  if (!facts_.lanes_are_parallel || store.scatter) return std::nullopt;
  const auto stride = stride_along(graph_, store, *schedule_.lane_axis);
  if (!stride || !stride->is_constant(kTileNeighbours)) return std::nullopt;
  if (const auto axis = neighbour_axis(graph_, store.offset)) return axis;
  const std::vector<AxisId> order = reduced_loop_order(structure_, schedule_);
  const bool in_windows =
      !order.empty() && walks_windows_of_two(graph_, store.offset, *schedule_.lane_axis, order.back());
  return in_windows ? std::optional(order.back()) : std::nullopt;
}

bool LaunchLowering::stores_neighbours(AxisId walked) const {
  if (!falls_into_dots(graph_, walked, DotKind::Pairs)) return false;
  return std::any_of(graph_.stores.begin(), graph_.stores.end(), [&](const TileStore& store) {
    const bool is_here = structure_.stores_in_pass(store) && structure_.pass_of(graph_, store) == pass_;
    return is_here && neighbours_of(store) == walked;
  });
}

// Of two steps of the walk; of the last one alone beside zero.
void LaunchLowering::emit_neighbour_store(const TileStore& store, const Computed& first,
                                          const Computed& second) {
  const bool is_tile = neighbour_axis(graph_, store.offset).has_value();
  emit_in_turn(store, *offset_of_first(store.offset, *neighbour_axis_, kTileNeighbours),
               is_tile ? "store_neighbours" : "store_pair", first, second);
}

// Whether every store has both rows of two beside each other between its lanes.
bool LaunchLowering::rows_are_windows(AxisId rows) const {
  const bool is_possible = rows_of_two(schedule_) == rows && facts_.lanes_are_parallel && !pairs_lanes_ &&
                           structure_.reductions.empty();
  return is_possible && std::all_of(graph_.stores.begin(), graph_.stores.end(), [&](const TileStore& store) {
           return !store.scatter && walks_windows_of_two(graph_, store.offset, *schedule_.lane_axis, rows);
         });
}

// Lanes of two vectors, in turn, from the place of lane 0 of the first one on.
void LaunchLowering::emit_in_turn(const TileStore& store, const Expr& offset, const char* function,
                                  const Computed& first, const Computed& second) {
  const Buffer& buffer = graph_[store.buffer];
  const Place place{buffer_pointer(store.buffer), buffer.name, at_copy(offset), nullptr, scopes_.depth()};
  std::vector<Code> arguments = {address(place, {}).pointer, as_vector(first, buffer.dtype),
                                 as_vector(second, buffer.dtype)};
  if (copies_.left) arguments.push_back(*copies_.left);
  std::optional<int> group;
  if (buffer.role == Buffer::Role::Output) group = static_cast<int>(&store - graph_.stores.data());
  scopes_.add({Effect{call(function, std::move(arguments)), group}, "%" + graph_[store.value].name});
}

// Whole dots, and the elements behind them.
void LaunchLowering::open_dots(AxisId axis, const LoopRange& range, DotKind kind, const std::string& note,
                               const Body& leaf) {
  const int count = info(kind).count;
  const int64_t last = elements_of_last_dot(graph_, axis, kind);
  if (last == 0) return open_plain(axis, range, count, note, leaf);
  const auto is_empty = [](const LoopRange& part) {
    return part.first_value && part.last_value && *part.first_value >= *part.last_value;
  };
  LoopRange part = range;
  std::tie(part.last, part.last_value) = rounded_down(axis, range, count);
  if (!is_empty(part)) open_plain(axis, part, count, note, leaf);
  part.first = part.last;
  part.first_value = part.last_value;
  part.last = range.last;
  part.last_value = range.last_value;
  if (is_empty(part)) return;
  elements_of_dot_ = last;
  const bool is_once = part.first_value && part.last_value;
  is_once ? open_once(axis, part, leaf) : open_plain(axis, part, count, note + ", the last", leaf);
  elements_of_dot_.reset();
}

// The innermost loop of a walk.
void LaunchLowering::open_summed(AxisId axis, const LoopRange& range, const Body& leaf) {
  const bool in_dots = !facts_.dots.empty();
  const bool goes_in_lanes = in_dots && axis == schedule_.lane_axis;
  if (goes_in_lanes || (!in_dots && !stores_neighbours(axis))) return open_axis(axis, range, leaf);
  const DotKind kind = in_dots ? schedule_.dots : DotKind::Pairs;
  const std::string note = graph_[axis].name + ", " + std::string(info(kind).name);
  if (in_dots && rows_are_tiles_of_neighbours(facts_, axis)) {
    return open_plain(axis, range, panel_step(), note, leaf);
  }
  if (in_dots) return open_dots(axis, range, kind, note, leaf);
  const Copies outside = copies_;
  neighbour_axis_ = axis;
  open_dots(axis, range, kind, note, [&] {
    copies_.neighbours = static_cast<int>(elements_of_dot_.value_or(kTileNeighbours));
    leaf();
    copies_ = outside;
  });
  neighbour_axis_.reset();
}

// Rows that lie apart, element by element beside each other.
Code LaunchLowering::join_neighbours(const StagedLoad& staged) {
  const TileLoad& load = std::get<TileLoad>(graph_[staged.load].op);
  const AxisId summed = structure_.reduced.front();
  const int index = static_cast<int>(summed.index);
  std::vector<Code> rows;
  for (int64_t neighbour = 0; neighbour < elements_of_dot_.value_or(panel_step()); ++neighbour) {
    const Expr offset = substitute_index(load.offset, index, Expr::index(index) + neighbour);
    const Place place{buffer_pointer(load.buffer), graph_[load.buffer].name, at_copy(offset), nullptr,
                      scopes_.depth()};
    const Address from = address(place, {});
    TILEFUSE_CHECK(from.stride && from.stride->is_constant(1), "a panel of dots is copied from apart");
    rows.push_back(from.pointer);
  }
  if (!elements_of_dot_) {
    if (copies_.left) rows.push_back(*copies_.left);
    return call("join_neighbours", std::move(rows));
  }
  Code dot = call("splat", {integer(0)}, {DType::I32});
  for (size_t place = 0; place < rows.size(); ++place) {
    std::vector<Code> arguments = {dot, rows[place]};
    if (copies_.left) arguments.push_back(*copies_.left);
    dot = call("add_neighbour", std::move(arguments), {}, {static_cast<int64_t>(place)});
  }
  return dot;
}

}  // namespace tilefuse
