#include "core/graph_symbols.h"

#include "core/expr_terms.h"
#include "core/match.h"

namespace tilefuse {
namespace {

using Visit = std::function<void(const Expr&)>;

void visit_all(const std::vector<Expr>& exprs, const Visit& visit) {
  for (const Expr& e : exprs) visit(e);
}

void visit_argument(const CallArgument& argument, const Visit& visit) {
  if (const auto* e = std::get_if<Expr>(&argument.value)) visit(*e);
  if (const auto* list = std::get_if<ListArgument>(&argument.value)) {
    for (const CallArgument& item : list->items) visit_argument(item, visit);
  }
}

}  // namespace

void add_symbol_ranges(const Expr& e, SymbolRanges& ranges) {
  if (e.constant()) return;
  for (const Expr::Term& term : e.terms()) {
    for (const Expr::Atom& atom : term.factors) {
      if (atom.kind == Expr::AtomKind::Symbol) ranges.try_emplace(atom.symbol, atom.range);
      for (const Expr& arg : atom.args) add_symbol_ranges(arg, ranges);
    }
  }
}

void for_each_expr(const Op& op, const Visit& visit) {
  match(
      op, [](const Input&) {}, [](const Constant&) {},
      [&](const Iota& iota) {
        visit(iota.start);
        visit(iota.step);
      },
      [](const Map&) {}, [](const Reduce&) {}, [](const Scan&) {},
      [&](const View& view) {
        visit_all(view.map.extents, visit);
        visit_all(view.map.coordinates, visit);
        visit_all(view.map.conditions, visit);
      },
      [](const Concat&) {}, [&](const Gather& gather) { visit_all(gather.coordinates, visit); },
      [&](const Scatter& scatter) { visit_all(scatter.coordinates, visit); },
      [&](const Call& call) {
        for (const CallArgument& argument : call.arguments) visit_argument(argument, visit);
      });
}

void for_each_expr(const Graph& graph, const Visit& visit) {
  for (const GraphInput& input : graph.inputs) {
    if (!input.tensor) visit(input.size);
  }
  for (const Value& value : graph.values) {
    visit_all(value.type.shape, visit);
    if (value.strides) visit_all(*value.strides, visit);
  }
  for (const Node& node : graph.nodes) for_each_expr(node.op, visit);
  for (const GraphOutput& output : graph.outputs) {
    if (const auto* e = std::get_if<Expr>(&output)) visit(*e);
  }
}

SymbolRanges symbol_ranges(const Graph& graph) {
  SymbolRanges ranges;
  for_each_expr(graph, [&](const Expr& e) { add_symbol_ranges(e, ranges); });
  return ranges;
}

}  // namespace tilefuse
