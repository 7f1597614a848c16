#include "fusion/gpu_apart.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/index_map.h"
#include "fusion/contraction.h"
#include "fusion/graph_copy.h"

namespace tilefuse {
namespace {

// Some values of a graph, over those of its axes that they have.
class PartOfGraph {
 public:
  PartOfGraph(const TileGraph& graph, const std::vector<bool>& values, std::string name)
      : values_(values), copy_(graph, std::move(name)) {
    std::vector<bool> has_axis(graph.axes.size());
    for (uint32_t v = 0; v < values.size(); ++v) {
      if (!values[v]) continue;
      for (const AxisId axis : graph.values[v].axes) has_axis[axis.index] = true;
      const auto* reduce = std::get_if<TileReduce>(&graph.values[v].op);
      for (const AxisId axis : reduce ? reduce->axes : std::vector<AxisId>{}) has_axis[axis.index] = true;
    }
    for (uint32_t a = 0; a < has_axis.size(); ++a) {
      place_.push_back({uint32_t(copy_.to_.axes.size())});
      replacements_.push_back(Expr::index(int(place_.back().index)));
      if (has_axis[a]) copy_.to_.axes.push_back(graph.axes[a]);
    }
  }

  Expr moved(const Expr& e) const {
    return simplify(substitute_indices(e, replacements_), axis_extents(copy_.to_));
  }
  std::vector<AxisId> moved(const std::vector<AxisId>& axes) const {
    std::vector<AxisId> result;
    result.reserve(axes.size());
    for (const AxisId axis : axes) result.push_back(place_[axis.index]);
    return result;
  }

  // `load`: what is read of a kernel in front in the place of a value.
  template <class Load>
  GraphCopy copied(const Load& load) {
    for (uint32_t v = 0; v < values_.size(); ++v) {
      if (!values_[v]) continue;
      std::optional<TileValue> read = load({v}, *this, copy_);
      copy_.keep({v}, copy_.add(read ? *std::move(read) : moved_value({v})));
    }
    return std::move(copy_);
  }

 private:
  void move(std::vector<Expr>& exprs) const {
    for (Expr& e : exprs) e = moved(e);
  }
  TileValue moved_value(TileValueId id) {
    TileValue value = copy_.copied(id);
    value.axes = moved(value.axes);
    if (auto* load = std::get_if<TileLoad>(&value.op)) {
      move(load->guard);
      load->offset = moved(load->offset);
      for (IndexTerm& term : load->gathered) {
        term.stride = moved(term.stride);
        term.extent = moved(term.extent);
      }
    }
    if (auto* index = std::get_if<TileIndex>(&value.op)) index->expr = moved(index->expr);
    if (auto* predicate = std::get_if<TilePredicate>(&value.op)) move(predicate->guard);
    if (auto* reduce = std::get_if<TileReduce>(&value.op)) reduce->axes = moved(reduce->axes);
    if (auto* scan = std::get_if<TileScan>(&value.op)) scan->axis = place_[scan->axis.index];
    return value;
  }

  const std::vector<bool>& values_;
  GraphCopy copy_;
  std::vector<AxisId> place_;  // by axis of the graph
  std::vector<Expr> replacements_;
};

class Apart {
 public:
  explicit Apart(const TileGraph& graph) : graph_(graph) { find(); }

  std::vector<TileGraph> run() const {
    if (taken_.empty()) return {graph_};
    return {in_front(), rest()};
  }

 private:
  bool is_taken(TileValueId id) const { return std::find(taken_.begin(), taken_.end(), id) != taken_.end(); }

  // Reductions that no product on tensor cores is needed for, but for those behind which there is another
  // one.
  void find() {
    std::vector<bool> is_behind(graph_.values.size());  // a contraction
    std::vector<bool> is_before(graph_.values.size());  // reduced again, in front of the chain
    for (uint32_t v = 0; v < is_behind.size(); ++v) {
      is_behind[v] = contraction_of(graph_, {v}).has_value();
      for (const TileValueId operand : operands_of(graph_.values[v]))
        is_behind[v] = is_behind[v] || is_behind[operand.index];
    }
    for (uint32_t v = uint32_t(is_before.size()); v-- > 0;) {
      const bool is_reduction = std::holds_alternative<TileReduce>(graph_.values[v].op);
      if (is_reduction && !is_behind[v] && !is_before[v]) taken_.insert(taken_.begin(), TileValueId{v});
      if (!is_before[v] && !(is_reduction && !is_behind[v])) continue;
      for (const TileValueId operand : operands_of(graph_.values[v])) is_before[operand.index] = true;
    }
  }

  std::vector<bool> wanted(const std::vector<TileValueId>& roots, bool stops) const {
    std::vector<bool> is_wanted(graph_.values.size());
    for (const TileValueId root : roots) is_wanted[root.index] = true;
    for (uint32_t v = uint32_t(is_wanted.size()); v-- > 0;) {
      if (!is_wanted[v] || (stops && is_taken({v}))) continue;
      for (const TileValueId operand : operands_of(graph_.values[v])) is_wanted[operand.index] = true;
    }
    return is_wanted;
  }

  Buffer buffer_of(TileValueId id, Buffer::Role role) const {
    return buffer_over(graph_, graph_[id].name + "_before", info(graph_[id].dtype).compute, graph_[id].axes,
                       role);
  }
  Expr offset_of(TileValueId id) const {
    return place_over(buffer_of(id, Buffer::Role::Input), graph_[id].axes);
  }

  TileGraph in_front() const {
    const std::vector<bool> values = wanted(taken_, false);
    PartOfGraph part(graph_, values, graph_.name + "_before");
    GraphCopy copy =
        part.copied([](TileValueId, const PartOfGraph&, GraphCopy&) { return std::optional<TileValue>(); });
    for (const TileValueId id : taken_) {
      copy.to_.values[copy.made(id).index].dtype = info(graph_[id].dtype).compute;
      const BufferId buffer = copy.add_buffer(buffer_of(id, Buffer::Role::Output));
      copy.to_.stores.push_back({copy.made(id), buffer, part.moved(offset_of(id))});
    }
    return copy.finish("reductions_apart, in front");
  }

  TileGraph rest() const {
    std::vector<TileValueId> stored;
    stored.reserve(graph_.stores.size());
    for (const TileStore& store : graph_.stores) stored.push_back(store.value);
    const std::vector<bool> values = wanted(stored, true);
    PartOfGraph part(graph_, values, graph_.name);
    GraphCopy copy = part.copied([&](TileValueId id, const PartOfGraph& to, GraphCopy& made) {
      return is_taken(id) ? std::optional(loaded(id, to, made)) : std::nullopt;
    });
    for (const TileStore& store : graph_.stores)
      copy.to_.stores.push_back(
          {copy.made(store.value), copy.buffer(store.buffer), part.moved(store.offset)});
    return copy.finish("reductions_apart, rest");
  }

  TileValue loaded(TileValueId id, const PartOfGraph& to, GraphCopy& made) const {
    TileLoad load;
    load.offset = to.moved(offset_of(id));
    load.buffer = made.add_buffer(buffer_of(id, Buffer::Role::Input));
    return {.name = graph_[id].name,
            .op = std::move(load),
            .operands = {},
            .dtype = info(graph_[id].dtype).compute,
            .axes = to.moved(graph_[id].axes),
            .node = graph_[id].node};
  }

  const TileGraph& graph_;
  std::vector<TileValueId> taken_;
};

}  // namespace

std::vector<TileGraph> reductions_apart(const TileGraph& graph) {
  if (count_contractions(graph) < 2 || scatters(graph)) return {graph};
  return Apart(graph).run();
}

}  // namespace tilefuse
