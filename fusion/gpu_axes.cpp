#include "fusion/gpu_axes.h"

#include <algorithm>

#include "fusion/reduce_in_parts.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

// Rewrites a tile graph in which `merged` axes, outermost first, become one in the place of the last of them.
class AxisMerge {
 public:
  AxisMerge(TileGraph graph, std::vector<AxisId> merged)
      : graph_(std::move(graph)), merged_(std::move(merged)) {}

  TileGraph run() {
    make_axes();
    make_replacements();
    for (TileValue& value : graph_.values) rewrite(value);
    for (TileStore& store : graph_.stores) store.offset = rewritten(store.offset);
    graph_.axes = std::move(axes_);
    verify(graph_, "merge_reduced_axes");
    return std::move(graph_);
  }

 private:
  bool is_merged(AxisId axis) const {
    return std::find(merged_.begin(), merged_.end(), axis) != merged_.end();
  }

  void make_axes() {
    new_id_.resize(graph_.axes.size());
    Axis one{"", 1};
    for (uint32_t a = 0; a < graph_.axes.size(); ++a) {
      const Axis& axis = graph_.axes[a];
      new_id_[a] = AxisId{static_cast<uint32_t>(axes_.size())};
      if (!is_merged({a})) {
        axes_.push_back(axis);
        continue;
      }
      one.name += (one.name.empty() ? "" : "_") + axis.name;
      one.extent = one.extent * axis.extent;
      if (AxisId{a} == merged_.back()) axes_.push_back(one);
    }
    for (const AxisId axis : merged_) new_id_[axis.index] = new_id_[merged_.back().index];
    for (const Axis& axis : axes_) extents_.push_back(axis.extent);
  }

  // The last one runs the quickest.
  void make_replacements() {
    for (const AxisId id : new_id_) replacements_.push_back(Expr::index(static_cast<int>(id.index)));
    Expr left = replacements_[merged_.back().index];
    for (size_t i = merged_.size(); i-- > 1;) {
      const Expr& extent = graph_[merged_[i]].extent;
      replacements_[merged_[i].index] = mod(left, extent);
      left = floordiv(left, extent);
    }
    replacements_[merged_.front().index] = left;
  }

  Expr rewritten(const Expr& e) const { return simplify(substitute_indices(e, replacements_), extents_); }
  void rewrite(std::vector<Expr>& exprs) const {
    for (Expr& e : exprs) e = rewritten(e);
  }
  void rewrite(std::vector<AxisId>& axes) const {
    for (AxisId& axis : axes) axis = new_id_[axis.index];
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  }

  void rewrite(TileValue& value) const {
    rewrite(value.axes);
    if (auto* load = std::get_if<TileLoad>(&value.op)) {
      load->offset = rewritten(load->offset);
      rewrite(load->guard);
      for (IndexTerm& term : load->gathered) {
        term.stride = rewritten(term.stride);
        term.extent = rewritten(term.extent);
      }
    }
    if (auto* index = std::get_if<TileIndex>(&value.op)) index->expr = rewritten(index->expr);
    if (auto* predicate = std::get_if<TilePredicate>(&value.op)) rewrite(predicate->guard);
    if (auto* reduce = std::get_if<TileReduce>(&value.op)) rewrite(reduce->axes);
  }

  TileGraph graph_;
  std::vector<AxisId> merged_;
  std::vector<Axis> axes_;
  std::vector<Expr> extents_, replacements_;
  std::vector<AxisId> new_id_;
};

// The axes of the first reduction over several.
std::optional<std::vector<AxisId>> several_reduced_axes(const TileGraph& graph) {
  for (const TileValue& value : graph.values) {
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    if (reduce != nullptr && reduce->axes.size() > 1) return reduce->axes;
  }
  return std::nullopt;
}

// Whether an element is stored once for each index of some of these axes but not of others: a walk over all
// of them would compute and store it again and again.
bool stores_part_of(const TileGraph& graph, const std::vector<AxisId>& axes) {
  return std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    const std::vector<AxisId>& of_value = graph[store.value].axes;
    const auto count = std::count_if(axes.begin(), axes.end(), [&](AxisId axis) {
      return std::find(of_value.begin(), of_value.end(), axis) != of_value.end();
    });
    return count > 0 && count < std::ptrdiff_t(axes.size());
  });
}

}  // namespace

TileGraph merge_reduced_axes(TileGraph graph) {
  while (!reductions_in_parts(graph).empty()) {  // across rows and along them, each over axes of its own
    const auto axes = several_reduced_axes(graph);
    if (!axes || stores_part_of(graph, *axes)) return graph;
    graph = AxisMerge(std::move(graph), *axes).run();
  }
  const Result<Structure> structure = analyze_structure(graph);
  if (!structure || structure->reduced.size() < 2) return graph;
  if (stores_part_of(graph, structure->reduced)) return graph;
  // The position of an extreme counts along one axis; a scan has one.
  return AxisMerge(std::move(graph), structure->reduced).run();
}

TileGraph with_an_axis(TileGraph graph) {
  if (!graph.axes.empty()) return graph;
  const AxisId one{0};
  graph.axes.push_back({"one", 1});
  for (TileValue& value : graph.values) {
    auto* load = std::get_if<TileLoad>(&value.op);
    if (load != nullptr) load->offset = load->offset + Expr::index(0);
    const bool varies =
        load != nullptr || std::any_of(value.operands.begin(), value.operands.end(),
                                       [&](TileValueId id) { return !graph[id].axes.empty(); });
    if (varies) value.axes = {one};
  }
  for (TileStore& store : graph.stores) {
    store.offset = store.offset + Expr::index(0);
    if (store.scatter) store.scatter->over = {one};
  }
  verify(graph, "with_an_axis");
  return graph;
}

}  // namespace tilefuse
