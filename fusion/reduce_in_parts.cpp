#include "fusion/reduce_in_parts.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/contains.h"
#include "core/index_map.h"
#include "fusion/coalesce_axes.h"
#include "fusion/contraction.h"
#include "fusion/order_axes.h"

namespace tilefuse {
namespace {

// Rows of a part: few enough for many tasks and for a short chain of additions, enough for what each part
// writes and the last launch reads (an element each) to be little beside them.
constexpr int64_t kMostRows = 64, kLeastRows = 8, kUsualParts = 16;

using Axes = std::vector<AxisId>;

DType held(const TileGraph& graph, TileValueId id) { return info(graph[id].dtype).compute; }

// A product of which both factors serve several results: better cut in blocks (chain.h).
bool is_product_of_matrices(const TileGraph& graph, TileValueId id) {
  const auto contraction = contraction_of(graph, id);
  if (!contraction) return false;
  const TileValue& product = graph[contraction->product];
  return std::none_of(product.operands.begin(), product.operands.end(),
                      [&](TileValueId factor) { return graph[factor].axes == product.axes; });
}

// Whether its elements can be added to a place in memory.
bool may_be_in_parts(const TileGraph& graph, TileValueId id) {
  const TileValue& value = graph[id];
  const ReduceKind kind = std::get<TileReduce>(value.op).kind;
  return scatter_mode(kind) && identity_of(kind, held(graph, id)) &&
         held(graph, value.operands[0]) == held(graph, id) && !is_product_of_matrices(graph, id);
}

// The axes that are not reduced, in order: those of a result that nothing is computed again for.
Axes other_axes(const TileGraph& graph, const Axes& reduced) {
  Axes others;
  for (uint32_t a = 0; a < graph.axes.size(); ++a) {
    if (!contains(reduced, AxisId{a})) others.push_back({a});
  }
  return others;
}

// What these values lead to, themselves included.
std::vector<bool> behind(const TileGraph& graph, const std::vector<TileValueId>& values) {
  std::vector<bool> found(graph.values.size(), false);
  for (const TileValueId id : values) found[id.index] = true;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    for (const TileValueId operand : operands_of(graph.values[v])) {
      if (found[operand.index]) found[v] = true;
    }
  }
  return found;
}

using ReductionsByAxes = std::map<Axes, std::vector<TileValueId>>;

// Absent: there is a scan.
std::optional<ReductionsByAxes> reductions_by_axes(const TileGraph& graph) {
  ReductionsByAxes found;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const TileOp& op = graph.values[v].op;
    if (std::holds_alternative<TileScan>(op)) return std::nullopt;
    if (const auto* reduce = std::get_if<TileReduce>(&op)) found[reduce->axes].push_back({v});
  }
  return found;
}

// Whether the reductions `across` can be made in parts beside those `within`, which tasks walk.
bool may_stand_across(const TileGraph& graph, const ReductionsByAxes::value_type& within,
                      const ReductionsByAxes::value_type& across) {
  const auto has_all_others = [&](const ReductionsByAxes::value_type& reductions) {
    const Axes others = other_axes(graph, reductions.first);
    return std::all_of(reductions.second.begin(), reductions.second.end(),
                       [&](TileValueId id) { return graph[id].axes == others; });
  };
  const bool overlap = std::any_of(across.first.begin(), across.first.end(),
                                   [&](AxisId axis) { return contains(within.first, axis); });
  if (overlap || !has_all_others(within) || !has_all_others(across)) return false;
  const std::vector<bool> found = behind(graph, across.second);
  return std::all_of(across.second.begin(), across.second.end(),
                     [&](TileValueId id) { return may_be_in_parts(graph, id); }) &&
         std::none_of(within.second.begin(), within.second.end(),
                      [&](TileValueId id) { return found[id.index]; });
}

// How the axes that are reduced in parts count them.
struct Parts {
  Expr number = 1;  // of parts
  Expr part = 0;    // of an element, over axes
};

// Inner axes lie within a part, as long as it is short; one is cut, those around it are walked by parts.
Parts cut_in_parts(const TileGraph& graph, const Axes& reduced) {
  int64_t known = 1;
  bool are_known = true;
  for (const AxisId axis : reduced) {
    const auto extent = graph[axis].extent.constant();
    are_known = are_known && extent;
    if (extent) known *= std::max<int64_t>(1, *extent);
  }
  const int64_t wanted = are_known ? std::clamp(known / kUsualParts, kLeastRows, kMostRows) : kMostRows;
  int64_t rows = 1;
  size_t outer = reduced.size();  // of the axes that are not within a part
  for (; outer > 0; --outer) {
    const auto extent = graph[reduced[outer - 1]].extent.constant();
    if (!extent || rows * *extent > wanted) break;
    rows *= std::max<int64_t>(1, *extent);
  }
  Parts parts;
  for (size_t i = 0; i < outer; ++i) {
    const Expr& extent = graph[reduced[i]].extent;
    const Expr index = Expr::index(static_cast<int>(reduced[i].index));
    const auto in_one = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted / rows)));
    const int64_t block = i + 1 == outer ? in_one : 1;
    parts.part = parts.part * ceildiv(extent, block) + floordiv(index, block);
    parts.number = parts.number * ceildiv(extent, block);
  }
  return parts;
}

class LaunchesInParts {
 public:
  explicit LaunchesInParts(const TileGraph& graph)
      : graph_(graph),
        in_parts_(reductions_in_parts(graph)),
        kept_(graph[in_parts_.front()].axes),
        parts_(cut_in_parts(graph, std::get<TileReduce>(graph[in_parts_.front()].op).axes)) {}

  Result<std::vector<TileGraph>> run() const {
    std::vector<TileGraph> launches;
    for (TileGraph& launch : std::vector<TileGraph>{before(), main(), sums()}) {
      Result<TileGraph> ordered = order_axes(without_unneeded(std::move(launch)));
      if (!ordered) return ordered.unsupported();
      launches.push_back(coalesce_axes(*std::move(ordered)));
      verify(launches.back(), "launches_in_parts");
    }
    return launches;
  }

 private:
  // With room for an axis that numbers the parts, behind the others.
  TileGraph with_workspaces(const std::string& suffix) const {
    TileGraph launch;
    launch.name = graph_.name + suffix;
    launch.axes = graph_.axes;
    std::string name = "part";
    const auto names = axis_names(graph_);
    while (std::find(names.begin(), names.end(), name) != names.end()) name += "s";
    launch.axes.push_back({name, parts_.number});
    launch.buffers = graph_.buffers;
    for (const TileValueId id : in_parts_) {
      Buffer buffer{
          graph_[id].name + "_parts", held(graph_, id), Buffer::Role::Workspace, {parts_.number}, {}, {}};
      for (const AxisId axis : kept_) buffer.shape.push_back(graph_[axis].extent);
      buffer.strides = contiguous_strides(buffer.shape);
      launch.buffers.push_back(std::move(buffer));
    }
    return launch;
  }
  Expr part_index() const { return Expr::index(static_cast<int>(graph_.axes.size())); }
  BufferId workspace(size_t number) const { return {static_cast<uint32_t>(graph_.buffers.size() + number)}; }
  // Of the element of a part, over the axes of the graph.
  Expr offset(const Expr& part) const {
    Expr offset = part;
    for (const AxisId axis : kept_) {
      offset = offset * graph_[axis].extent + Expr::index(static_cast<int>(axis.index));
    }
    return offset;
  }
  std::string unused_name(const std::string& wanted) const {
    std::string name = wanted;
    const auto is_taken = [&] {
      return std::any_of(graph_.values.begin(), graph_.values.end(),
                         [&](const TileValue& value) { return value.name == name; });
    };
    while (is_taken()) name += "_";
    return name;
  }

  TileGraph before() const {
    TileGraph launch = with_workspaces("_before");
    for (size_t i = 0; i < in_parts_.size(); ++i) {
      const TileValue& value = graph_[in_parts_[i]];
      const DType dtype = held(graph_, in_parts_[i]);
      const TileConstant nothing{*identity_of(std::get<TileReduce>(value.op).kind, dtype)};
      launch.values.push_back({.name = value.name + "_none",
                               .op = nothing,
                               .operands = {},
                               .dtype = dtype,
                               .axes = {},
                               .node = value.node});
      launch.stores.push_back({{static_cast<uint32_t>(i)}, workspace(i), offset(part_index())});
    }
    return launch;
  }

  // All that does not wait for the parts, and what adds to them.
  TileGraph main() const {
    TileGraph launch = with_workspaces("_parts");
    launch.values = graph_.values;
    const std::vector<bool> waits = behind(graph_, in_parts_);
    for (const TileStore& store : graph_.stores) {
      const std::vector<TileValueId> operands = operands_of(store);
      const bool is_later = std::any_of(operands.begin(), operands.end(),
                                        [&](TileValueId operand) { return waits[operand.index]; });
      if (!is_later) launch.stores.push_back(store);
    }
    Axes all;
    for (uint32_t a = 0; a < graph_.axes.size(); ++a) all.push_back({a});
    for (size_t i = 0; i < in_parts_.size(); ++i) {
      const auto& reduce = std::get<TileReduce>(graph_[in_parts_[i]].op);
      const TileScatter into{*scatter_mode(reduce.kind), {}, all};
      launch.stores.push_back({added_value(launch, in_parts_[i]), workspace(i), offset(parts_.part), into});
    }
    return launch;
  }
  // In the type of the workspace.
  TileValueId added_value(TileGraph& launch, TileValueId reduction) const {
    const TileValueId element = graph_[reduction].operands[0];
    const DType dtype = held(graph_, reduction);
    if (graph_[element].dtype == dtype) return element;
    launch.values.push_back({.name = unused_name(graph_[reduction].name + "_element"),
                             .op = TileMap{MapFn::Cast},
                             .operands = {element},
                             .dtype = dtype,
                             .axes = graph_[element].axes,
                             .node = graph_[reduction].node});
    return {static_cast<uint32_t>(launch.values.size() - 1)};
  }

  // All that waits for the parts: they are loaded first.
  TileGraph sums() const {
    TileGraph launch = with_workspaces("_sums");
    const auto shift = static_cast<uint32_t>(in_parts_.size());
    const AxisId part{static_cast<uint32_t>(graph_.axes.size())};
    Axes axes = kept_;
    axes.push_back(part);
    for (uint32_t i = 0; i < shift; ++i) {
      const TileValue& value = graph_[in_parts_[i]];
      launch.values.push_back({.name = unused_name(value.name + "_parts"),
                               .op = TileLoad{workspace(i), offset(part_index()), {}, {}},
                               .operands = {},
                               .dtype = held(graph_, in_parts_[i]),
                               .axes = axes,
                               .node = value.node});
    }
    for (TileValue value : graph_.values) {
      for (TileValueId& operand : value.operands) operand.index += shift;
      if (auto* load = std::get_if<TileLoad>(&value.op)) {
        for (IndexTerm& term : load->gathered) term.value.index += shift;
      }
      launch.values.push_back(std::move(value));
    }
    for (uint32_t i = 0; i < shift; ++i) {
      TileValue& value = launch.values[in_parts_[i].index + shift];
      std::get<TileReduce>(value.op).axes = {part};
      value.operands = {{i}};
    }
    const std::vector<bool> waits = behind(graph_, in_parts_);
    for (TileStore store : graph_.stores) {
      const std::vector<TileValueId> operands = operands_of(store);
      if (std::none_of(operands.begin(), operands.end(), [&](TileValueId id) { return waits[id.index]; }))
        continue;
      store.value.index += shift;
      if (store.scatter) {
        for (IndexTerm& term : store.scatter->at) term.value.index += shift;
      }
      launch.stores.push_back(std::move(store));
    }
    return launch;
  }

  const TileGraph& graph_;
  std::vector<TileValueId> in_parts_;
  Axes kept_;
  Parts parts_;
};

}  // namespace

std::optional<ScatterMode> scatter_mode(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
      return ScatterMode::Add;
    case ReduceKind::Prod:
      return ScatterMode::Prod;
    case ReduceKind::Max:
      return ScatterMode::Max;
    case ReduceKind::Min:
      return ScatterMode::Min;
    default:
      return std::nullopt;
  }
}

std::vector<TileValueId> reductions_in_parts(const TileGraph& graph) {
  const auto reductions = reductions_by_axes(graph);
  if (!reductions || reductions->size() != 2 || reductions->begin()->first.empty()) return {};
  const auto& first = *reductions->begin();
  const auto& second = *std::next(reductions->begin());
  // Tasks walk what is contiguous, where either may.
  const bool first_is_inner = first.first.back() > second.first.back();
  const auto& inner = first_is_inner ? first : second;
  const auto& outer = first_is_inner ? second : first;
  if (may_stand_across(graph, inner, outer)) return outer.second;
  if (may_stand_across(graph, outer, inner)) return inner.second;
  return {};
}

Result<std::vector<TileGraph>> launches_in_parts(const TileGraph& graph) {
  return LaunchesInParts(graph).run();
}

}  // namespace tilefuse
