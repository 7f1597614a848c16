#include "fusion/split_axes.h"

#include <algorithm>
#include <numeric>

#include "core/expr_terms.h"
#include "fusion/replace_axes.h"

namespace tilefuse {
namespace {

constexpr int64_t kShortRun = 8;  // elements; shorter ones are no better than elements one by one

// The largest run that every division of the axis leaves whole: 0 where nothing divides it, 1 where one of
// them cuts any run.
class Run {
 public:
  explicit Run(int axis) : axis_(axis) {}
  int64_t length() const { return length_; }

  void visit(const Expr& e) {
    for (const Expr::Term& term : e.terms()) {
      for (const Expr::Atom& atom : term.factors) visit(atom);
    }
  }

 private:
  void visit(const Expr::Atom& atom) {
    for (const Expr& argument : atom.args) {
      if (!uses_index(argument, axis_)) continue;
      if (atom.kind == Expr::AtomKind::FloorDiv || atom.kind == Expr::AtomKind::Mod) divide(atom);
      visit(argument);
    }
  }
  void divide(const Expr::Atom& atom) {
    const auto affine = affine_in(atom.args[0], axis_);
    const auto divisor = atom.args[1].constant();
    if (!affine || !divisor || !affine->coefficient.is_constant(1)) {
      length_ = 1;
      return;
    }
    length_ = std::gcd(length_, *divisor);
    for (const Expr::Term& term : affine->rest.terms()) length_ = std::gcd(length_, term.coefficient);
  }

  int axis_;
  int64_t length_ = 0;
};

bool is_scanned(const TileGraph& graph, AxisId axis) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const TileValue& value) {
    const auto* scan = std::get_if<TileScan>(&value.op);
    return scan != nullptr && scan->axis == axis;
  });
}

int64_t run_along(TileGraph& graph, uint32_t axis) {
  const auto extent = graph.axes[axis].extent.constant();
  if (!extent || is_scanned(graph, {axis})) return 1;
  Run run(static_cast<int>(axis));
  for_each_axis_expr(graph, [&](const Expr& e) { run.visit(e); });
  const bool is_worth_it = run.length() >= kShortRun && run.length() < *extent && *extent % run.length() == 0;
  return is_worth_it ? run.length() : 1;
}

AxisReplacement split_of(const TileGraph& graph, uint32_t split, int64_t run) {
  AxisReplacement result;
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
    const auto number = static_cast<uint32_t>(result.axes.size());
    result.renamed.emplace_back(AxisId{number});
    result.inner.emplace_back(axis == split ? std::optional(AxisId{number + 1}) : std::nullopt);
    const Expr index = Expr::index(static_cast<int>(number));
    result.axes.push_back(graph.axes[axis]);
    if (axis != split) {
      result.expr.push_back(index);
      continue;
    }
    result.axes.back().extent = floordiv(graph.axes[axis].extent, run);
    result.axes.push_back({graph.axes[axis].name, run});
    result.expr.push_back(index * run + Expr::index(static_cast<int>(number) + 1));
  }
  return result;
}

}  // namespace

TileGraph split_axes(TileGraph graph) {
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
    const int64_t run = run_along(graph, axis);
    if (run == 1) continue;
    const AxisReplacement split = split_of(graph, axis, run);
    graph = replace_axes(std::move(graph), split);
    const std::vector<Expr> extents = axis_extents(graph);
    for_each_axis_expr(graph, [&](Expr& e) { e = simplify(e, extents); });
    // A load at `i // 80` varies along the outer part only.
    for (TileValue& value : graph.values) value.axes = domain_of(graph, value.op, value.operands);
    ++axis;  // the inner part is divided by nothing
  }
  return graph;
}

}  // namespace tilefuse
