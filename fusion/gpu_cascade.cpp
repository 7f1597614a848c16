#include "fusion/gpu_cascade.h"

#include <algorithm>
#include <map>

#include "fusion/contraction.h"
#include "fusion/expand_online.h"
#include "fusion/graph_pieces.h"
#include "fusion/online_walk.h"

namespace tilefuse {
namespace {

class Cascade {
 public:
  // `suffix`: of the buffers between kernels, whose names are those of a region.
  Cascade(const TileGraph& graph, const Structure& structure, int parts, std::string suffix)
      : graph_(graph),
        axis_(structure.reduced.front()),
        row_axes_(structure.parallel),
        suffix_(std::move(suffix)),
        pieces_(pieces_of(graph, axis_, parts)),
        derived_(derive_online(graph, structure)),
        is_walked_again_(derived_.passes.size() > 1 ||
                         std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
                           return structure.stores_in_pass(store);
                         })) {}

  std::optional<std::vector<TileGraph>> run() {
    if (pieces_.count.is_constant(1) || derived_.passes.empty()) return std::nullopt;
    block_ = expand_online(graph_, derived_, OnlineStep::First, StateWidth::AsElements);
    whole_ = expand_online(graph_, derived_, OnlineStep::Parts, StateWidth::AsElements);
    for (const TileStore& store : graph_.stores)
      (is_of_row(store) ? row_stores_ : other_stores_).push_back(store);
    std::vector<TileGraph> nests = {in_pieces(), of_all()};
    if (is_walked_again_) nests.push_back(behind());
    return nests;
  }

 private:
  const std::vector<CarriedValue>& blocks() const { return block_.passes.front().carried; }
  const std::vector<CarriedValue>& carried() const { return whole_.passes.front().carried; }
  const std::vector<std::pair<TileValueId, TileValueId>>& results() const {
    return whole_.passes.front().results;
  }
  bool is_result(TileValueId id) const {
    return std::any_of(results().begin(), results().end(),
                       [&](const auto& result) { return result.first == id; });
  }

  // ---- each part by itself
  TileGraph in_pieces() {
    PiecesOfGraph made(block_.graph, pieces_, graph_.name + "_parts");
    std::vector<TileValueId> roots;
    for (const CarriedValue& block : blocks()) roots.push_back(block.next);
    const auto replace = [&](TileValueId id, PiecesOfGraph& to) -> std::optional<TileValueId> {
      if (block_.count == id) return count(to, block_.graph[id].dtype);
      if (block_.share == id) return share(to, block_.graph[id].dtype);
      return std::nullopt;
    };
    made.copy(needed_values(block_.graph, roots, [](TileValueId) { return false; }), replace);
    for (size_t i = 0; i < roots.size(); ++i)
      made.store(made.made(roots[i]), part_buffer(i, Buffer::Role::Output), row_axes_);
    return made.finish("split_cascade, pieces");
  }

  // Elements of a piece.
  TileValueId count(PiecesOfGraph& to, DType dtype) {
    if (!count_) count_ = new_count(to, dtype);
    return *count_;
  }
  TileValueId new_count(PiecesOfGraph& to, DType dtype) const {
    const int64_t whole = *graph_[axis_].extent.constant(), length = *pieces_.length.constant();
    const auto constant = [&](int64_t number) {
      return to.add({.name = "part_length",
                     .op = TileConstant{double(number)},
                     .operands = {},
                     .dtype = dtype,
                     .axes = {},
                     .node = {}});
    };
    if (pieces_.is_even) return constant(length);
    const Expr left = Expr(whole) - Expr::index(0) * length;
    const TileValueId number = to.add({.name = "part_elements",
                                       .op = TileIndex{min(Expr(length), left)},
                                       .operands = {},
                                       .dtype = DType::I64,
                                       .axes = {{0}},
                                       .node = {}});
    return to.add({.name = "part_length",
                   .op = TileMap{MapFn::Cast},
                   .operands = {number},
                   .dtype = dtype,
                   .axes = {{0}},
                   .node = {}});
  }

  // All elements over those of a piece.
  TileValueId share(PiecesOfGraph& to, DType dtype) {
    const TileValueId own = count(to, dtype);
    const TileValueId all = to.add({.name = "row_length",
                                    .op = TileConstant{double(*graph_[axis_].extent.constant())},
                                    .operands = {},
                                    .dtype = dtype,
                                    .axes = {},
                                    .node = {}});
    return to.add({.name = "parts_of_row",
                   .op = TileMap{MapFn::Div},
                   .operands = {all, own},
                   .dtype = dtype,
                   .axes = to[own].axes,
                   .node = {}});
  }

  // ---- all parts together: the reduced axis numbers them
  TileGraph of_all() {
    const TileGraph& from = whole_.graph;
    GraphCopy copy(from, is_walked_again_ ? graph_.name + "_rows" : graph_.name);
    copy.to_.axes = graph_.axes;
    copy.to_.axes[axis_.index] = {"part", pieces_.count};
    std::vector<TileValueId> roots;
    for (const auto& [reduction, result] : results()) roots.push_back(result);
    const auto is_carried = [&](TileValueId id) {
      return std::any_of(carried().begin(), carried().end(),
                         [&](const CarriedValue& value) { return value.carry == id; });
    };
    const std::vector<TileValueId> needed = needed_values(from, roots, is_carried);
    for (const TileValueId id : needed)
      copy.keep(id, copy.add(is_carried(id) ? loaded_part(copy, id) : copy.copied(id)));
    for (const auto& [reduction, result] : results())
      copy.keep(reduction, as_declared(copy, copy.made(result), reduction));
    for (const TileValueId id : behind_results(row_stores_)) {
      const bool is_there = is_result(id) || std::find(needed.begin(), needed.end(), id) != needed.end();
      if (!is_there) copy.keep(id, copy.add(copy.copied(id)));
    }
    add_stores(row_stores_, copy);
    for (const TileValueId id : behind_results(other_stores_)) {
      if (!is_result(id)) continue;
      const Buffer buffer = row_buffer(id, Buffer::Role::Output);
      copy.to_.stores.push_back(
          {results_.at(id), copy.add_buffer(buffer), place_over(buffer, graph_[id].axes)});
    }
    return copy.finish("split_cascade, rows");
  }

  // Numbers between kernels are of the type that is computed in; what reads a result knows it as the region
  // declares it.
  TileValueId as_declared(GraphCopy& copy, TileValueId wide, TileValueId reduction) {
    results_[reduction] = wide;
    const TileValue& value = graph_[reduction];
    if (copy.to_[wide].dtype == value.dtype) return wide;
    return copy.add({.name = value.name,
                     .op = TileMap{MapFn::Copy},
                     .operands = {wide},
                     .dtype = value.dtype,
                     .axes = value.axes,
                     .node = value.node});
  }

  // What values need that are known when all parts are.
  std::vector<TileValueId> behind_results(const std::vector<TileStore>& stores) const {
    std::vector<TileValueId> stored;
    stored.reserve(stores.size());
    for (const TileStore& store : stores) stored.push_back(store.value);
    return needed_values(graph_, stored, [&](TileValueId value) { return is_result(value); });
  }

  // Of a number of a row that needs no other walk.
  bool is_of_row(const TileStore& store) const {
    const std::vector<TileValueId> needed = behind_results({store});
    return !is_walked(store, axis_) && std::none_of(needed.begin(), needed.end(), [&](TileValueId id) {
      return !is_result(id) && std::holds_alternative<TileReduce>(graph_[id].op);
    });
  }

  TileValue loaded_part(GraphCopy& copy, TileValueId id) const {
    size_t number = 0;
    while (carried()[number].carry != id) ++number;
    const Buffer buffer = part_buffer(number, Buffer::Role::Input);
    TileValue value = whole_.graph[id];
    TileLoad load;
    load.offset =
        Expr::index(static_cast<int>(axis_.index)) * buffer.strides[0] + place_over(buffer, row_axes_, 1);
    load.buffer = copy.add_buffer(buffer);
    value.op = std::move(load);
    return value;
  }

  // ---- what walks the rows with the results in hand
  TileGraph behind() {
    GraphCopy copy(graph_, graph_.name);
    copy.to_.axes = graph_.axes;
    for (const TileValueId id : behind_results(other_stores_))
      copy.keep(id, is_result(id) ? as_declared(copy, copy.add(loaded_row(copy, id)), id)
                                  : copy.add(copy.copied(id)));
    add_stores(other_stores_, copy);
    return copy.finish("split_cascade, behind");
  }

  TileValue loaded_row(GraphCopy& copy, TileValueId id) const {
    const Buffer buffer = row_buffer(id, Buffer::Role::Input);
    TileLoad load;
    load.offset = place_over(buffer, graph_[id].axes);
    load.buffer = copy.add_buffer(buffer);
    return {.name = buffer.name,
            .op = std::move(load),
            .operands = {},
            .dtype = buffer.dtype,
            .axes = graph_[id].axes,
            .node = graph_[id].node};
  }

  static void add_stores(const std::vector<TileStore>& stores, GraphCopy& copy) {
    for (const TileStore& store : stores)
      copy.to_.stores.push_back({copy.made(store.value), copy.buffer(store.buffer), store.offset});
  }

  // ---- buffers
  // Number `i` of the carried values: each row has a place in it, also for what is the same in all of them,
  // such as a count.
  Buffer part_buffer(size_t i, Buffer::Role role) const {
    const TileValue& carry = whole_.graph[carried()[i].carry];
    return buffer_of_pieces(graph_, pieces_, carry.name + suffix_, carry.dtype, row_axes_, role);
  }
  Buffer row_buffer(TileValueId id, Buffer::Role role) const {
    return buffer_over(graph_, graph_[id].name + "_row" + suffix_, info(graph_[id].dtype).compute,
                       graph_[id].axes, role);
  }

  const TileGraph& graph_;
  AxisId axis_;
  std::vector<AxisId> row_axes_;
  std::string suffix_;
  Pieces pieces_;
  OnlineReductions derived_;
  bool is_walked_again_;
  ExpandedOnline block_, whole_;
  std::vector<TileStore> row_stores_, other_stores_;  // which the second kernel makes, and the one behind it
  std::optional<TileValueId> count_;                  // in the graph of the pieces
  std::map<TileValueId, TileValueId> results_;        // in the graph at hand, of reductions
};

std::optional<std::vector<TileGraph>> split(const TileGraph& graph, int parts, int depth) {
  const Result<Structure> structure = analyze_structure(graph);
  if (!structure || structure->reduced.size() != 1 || structure->passes < 2) return std::nullopt;
  if (scatters(graph) || has_contraction(graph)) return std::nullopt;
  if (!graph[structure->reduced.front()].extent.constant()) return std::nullopt;
  for (const TileValueId id : structure->reductions) {
    if (!folds_floats(graph[id]) || graph[id].axes != structure->parallel) return std::nullopt;
  }
  const std::string suffix = "_parts" + (depth == 0 ? "" : std::to_string(depth));
  std::optional<std::vector<TileGraph>> nests = Cascade(graph, *structure, parts, suffix).run();
  constexpr size_t kWithLastWalk = 3;
  if (!nests || nests->size() < kWithLastWalk) return nests;
  const auto more = split(nests->back(), parts, depth + 1);
  if (!more) return nests;
  nests->pop_back();
  nests->insert(nests->end(), more->begin(), more->end());
  return nests;
}

}  // namespace

std::optional<std::vector<TileGraph>> split_cascade(const TileGraph& graph, int parts) {
  return split(graph, parts, 0);
}

}  // namespace tilefuse
