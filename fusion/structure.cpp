#include "fusion/structure.h"

#include <algorithm>
#include <set>

#include "core/contains.h"
#include "core/match.h"
#include "fusion/contraction.h"
#include "fusion/launches.h"

namespace tilefuse {
namespace {

constexpr int64_t kMostCopies = 8;  // each is a stream of stores of its own

std::vector<AxisId> walked_axes(const TileValue& value) {
  if (const TileReduce* reduce = std::get_if<TileReduce>(&value.op)) return reduce->axes;
  if (const TileScan* scan = std::get_if<TileScan>(&value.op)) return {scan->axis};
  return {};
}

std::string axes_text(const TileGraph& graph, const std::vector<AxisId>& axes) {
  std::string text;
  for (const AxisId axis : axes) {
    text += (text.empty() ? "" : ", ") + graph[axis].name + " (" + to_text(graph[axis].extent) + ")";
  }
  return text.empty() ? "no axis" : text;
}

std::optional<Unsupported> collect_reductions(const TileGraph& graph, Structure& structure) {
  std::optional<TileValueId> first, scan;
  for (uint32_t i = 0; i < graph.values.size(); ++i) {
    const TileValue& value = graph.values[i];
    const bool is_scan = std::holds_alternative<TileScan>(value.op);
    if (!is_scan && !std::holds_alternative<TileReduce>(value.op)) continue;
    const std::vector<AxisId> axes = walked_axes(value);
    structure.reductions.push_back({i});
    if (is_scan && !scan) scan = TileValueId{i};
    if (!first) {
      first = TileValueId{i};
      structure.reduced = axes;
    } else if (axes != structure.reduced) {
      return Unsupported{"cannot schedule %" + value.name + " in one nest with %" + graph[*first].name +
                         ": it walks " + axes_text(graph, axes) + ", the other " +
                         axes_text(graph, structure.reduced)};
    }
  }
  return std::nullopt;
}

std::optional<Unsupported> check_coverage(const TileGraph& graph, const Structure& structure) {
  for (const TileStore& store : graph.stores) {
    for (const AxisId axis : structure.parallel) {
      if (is_walked(store, axis)) continue;
      return Unsupported{"cannot schedule the store of %" + graph[store.buffer].name +
                         " in one nest: it does not vary along " + axes_text(graph, {axis}) +
                         ", which other outputs walk in parallel"};
    }
  }
  return std::nullopt;
}

void assign_levels(const TileGraph& graph, Structure& structure) {
  structure.level.assign(graph.values.size(), 0);
  for (uint32_t i = 0; i < graph.values.size(); ++i) {
    int level = 0;
    for (const TileValueId operand : operands_of(graph.values[i])) {
      const bool is_reduce = std::holds_alternative<TileReduce>(graph[operand].op);
      level = std::max(level, structure.level[operand.index] + (is_reduce ? 1 : 0));
    }
    structure.level[i] = level;
  }
  for (const TileValueId reduction : structure.reductions) {
    structure.passes = std::max(structure.passes, structure.level[reduction.index] + 1);
  }
  for (const TileStore& store : graph.stores) {
    if (!structure.stores_in_pass(store)) continue;
    structure.passes = std::max(structure.passes, structure.pass_of(graph, store) + 1);
  }
}

void find_copied_axes(const TileGraph& graph, Structure& structure) {
  const bool computes = std::any_of(graph.values.begin(), graph.values.end(), [](const TileValue& value) {
    return std::holds_alternative<TileMap>(value.op) && !value.axes.empty();
  });
  if (!computes || !structure.reductions.empty() || scatters(graph)) return;
  int64_t copies = 1;
  for (const AxisId axis : structure.parallel) {
    const bool varies = std::any_of(graph.values.begin(), graph.values.end(),
                                    [&](const TileValue& value) { return contains(value.axes, axis); });
    const auto extent = graph[axis].extent.constant();
    if (varies || !extent || copies * *extent > kMostCopies) continue;
    copies *= *extent;
    structure.copied.push_back(axis);
  }
}

std::optional<Expr> coefficient_along(const Expr& offset, AxisId axis) {
  const int index = static_cast<int>(axis.index);
  if (!uses_index(offset, index)) return Expr(0);
  const auto affine = affine_in(offset, index);
  if (!affine || !indices_of(affine->coefficient).empty()) return std::nullopt;
  return affine->coefficient;
}

bool varies_along(const TileGraph& graph, const std::vector<IndexTerm>& terms, AxisId axis) {
  return std::any_of(terms.begin(), terms.end(),
                     [&](const IndexTerm& term) { return contains(graph[term.value].axes, axis); });
}

// Where a*x + b >= 0 changes its answer.
void add_breakpoint(const Expr& guard, AxisId axis, std::set<int64_t>& points) {
  const auto affine = affine_in(guard, static_cast<int>(axis.index));
  if (!affine) return;
  const auto a = affine->coefficient.constant();
  const auto b = affine->rest.constant();
  if (!a || !b || *a == 0) return;
  const Expr first_true = ceildiv(Expr(-*b), Expr(*a > 0 ? *a : 1));
  const Expr first_false = floordiv(Expr(*b), Expr(*a < 0 ? -*a : 1)) + 1;
  points.insert(*(*a > 0 ? first_true : first_false).constant());
}

std::vector<int64_t> inside(std::set<int64_t> points, const std::optional<int64_t>& extent) {
  std::erase_if(points, [&](int64_t point) { return point <= 0 || (extent && point >= *extent); });
  return {points.begin(), points.end()};
}

}  // namespace

bool Structure::varies_along_reduced(const TileGraph& graph, TileValueId value) const {
  const auto& axes = graph[value].axes;
  return std::any_of(axes.begin(), axes.end(), [&](AxisId axis) { return is_reduced(axis); });
}

bool Structure::stores_in_pass(const TileStore& store) const {
  return std::any_of(reduced.begin(), reduced.end(), [&](AxisId axis) { return is_walked(store, axis); });
}

int Structure::pass_of(const TileGraph& graph, const TileStore& store) const {
  int pass = 0;
  for (const TileValueId operand : operands_of(store)) {
    const bool is_reduce = std::holds_alternative<TileReduce>(graph[operand].op);
    pass = std::max(pass, level[operand.index] + (is_reduce ? 1 : 0));
  }
  return pass;
}

bool Structure::is_reduced(AxisId axis) const { return contains(reduced, axis); }

Result<Structure> analyze_structure(const TileGraph& graph) {
  Structure structure;
  if (takes_launches(graph)) {
    return Unsupported{"cannot schedule " + graph.name + " in one nest: it takes several launches"};
  }
  if (auto refusal = collect_reductions(graph, structure)) return *std::move(refusal);
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
    if (!structure.is_reduced({axis})) structure.parallel.push_back({axis});
  }
  if (auto refusal = check_coverage(graph, structure)) return *std::move(refusal);
  assign_levels(graph, structure);
  find_copied_axes(graph, structure);
  structure.contracts = has_contraction(graph);
  return structure;
}

std::string to_text(const Structure& structure, const TileGraph& graph) {
  std::string text = "parallel " + axes_text(graph, structure.parallel);
  text += "; reduced " + axes_text(graph, structure.reduced) + "; ";
  text += std::to_string(structure.passes) + (structure.passes == 1 ? " pass\n" : " passes\n");
  for (int pass = 0; pass < structure.passes; ++pass) {
    const std::string head = "  pass " + std::to_string(pass) + ": ";
    for (const TileValueId id : structure.reductions) {
      if (structure.level[id.index] != pass) continue;
      const bool is_scan = std::holds_alternative<TileScan>(graph[id].op);
      text += head + (is_scan ? "scan %" : "reduce %") + graph[id].name + "\n";
    }
    for (const TileStore& store : graph.stores) {
      const bool is_here = structure.pass_of(graph, store) == pass;
      if (!is_here || !structure.stores_in_pass(store)) continue;
      text += head + "store %" + graph[store.buffer].name + "\n";
    }
  }
  return text;
}

std::optional<Expr> stride_along(const TileGraph& graph, const TileLoad& load, AxisId axis) {
  if (varies_along(graph, load.gathered, axis)) return std::nullopt;
  return coefficient_along(load.offset, axis);
}

std::optional<Expr> stride_along(const TileGraph& graph, const TileStore& store, AxisId axis) {
  if (store.scatter && varies_along(graph, store.scatter->at, axis)) return std::nullopt;
  return coefficient_along(store.offset, axis);
}

std::vector<int64_t> breakpoints(const TileGraph& graph, AxisId axis) {
  std::set<int64_t> points;
  auto add_all = [&](const std::vector<Expr>& guards) {
    for (const Expr& guard : guards) {
      if (indices_of(guard) == std::vector<int>{static_cast<int>(axis.index)}) {
        add_breakpoint(guard, axis, points);
      }
    }
  };
  for (const TileValue& value : graph.values) {
    if (const TileLoad* load = std::get_if<TileLoad>(&value.op)) add_all(load->guard);
    if (const TilePredicate* predicate = std::get_if<TilePredicate>(&value.op)) add_all(predicate->guard);
  }
  return inside(std::move(points), graph[axis].extent.constant());
}

std::vector<int64_t> window_breakpoints(const TileGraph& graph, const Structure& structure, AxisId axis) {
  const auto number = static_cast<int>(axis.index);
  std::vector<Expr> extents;
  extents.reserve(graph.axes.size());
  for (const Axis& each : graph.axes) extents.push_back(each.extent);
  const auto is_short = [&](int index) {
    return structure.is_reduced(AxisId{uint32_t(index)}) && extents[size_t(index)].constant();
  };
  std::set<int64_t> points;
  for (const TileValue& value : graph.values) {
    const TileLoad* load = std::get_if<TileLoad>(&value.op);
    if (load == nullptr || !extents[axis.index].constant()) continue;
    for (const Expr& guard : load->guard) {
      const auto affine = affine_in(guard, number);
      if (!affine || !symbols_of(guard).empty()) continue;
      const std::vector<int> others = indices_of(affine->rest);
      if (others.empty() || !std::ranges::all_of(others, is_short)) continue;
      const Expr worst = affine->coefficient * Expr::index(number) + bounds(affine->rest, extents).low;
      add_breakpoint(worst, axis, points);
    }
  }
  return inside(std::move(points), graph[axis].extent.constant());
}

bool walks_again_to_store(const TileGraph& graph, const Structure& structure) {
  return std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return structure.stores_in_pass(store) && structure.pass_of(graph, store) > 0;
  });
}

std::optional<Unsupported> repeated_reduction(const TileGraph& graph, const Structure& structure) {
  for (const TileValueId reduction : structure.reductions) {
    for (const AxisId axis : structure.parallel) {
      if (contains(graph[reduction].axes, axis)) continue;
      return Unsupported{"cannot schedule %" + graph[reduction].name +
                         " in one nest: it does not vary along " + axes_text(graph, {axis}) +
                         " and would be reduced again for each of its elements"};
    }
  }
  return std::nullopt;
}

}  // namespace tilefuse
