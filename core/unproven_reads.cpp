#include "core/unproven_reads.h"

#include <algorithm>
#include <set>

#include "core/expr_terms.h"

namespace tilefuse {
namespace {

class Reads {
 public:
  Reads(const Graph& graph, NodeId node, ValueId walked, std::vector<UnprovenRead>& found)
      : graph_(graph), node_(node), extents_(graph[walked].type.shape), found_(found) {}

  void check_view(const IndexMap& map) {
    const Shape& shape = source_shape();
    for (size_t d = 0; d < shape.size(); ++d) check(map.coordinates[d], shape[d], map.conditions);
  }
  // An index is looked at when it is read, by itself; the other coordinates are not.
  template <class Placed>
  void check_places(const Placed& op) {
    const Shape& shape = source_shape();
    for (size_t d = 0; d < shape.size(); ++d) {
      check(op.coordinates[d], op.from_index[d] < 0 ? shape[d] : Expr(1), {});
    }
  }

 private:
  using Shape = std::vector<Expr>;
  const Shape& source_shape() const { return graph_[graph_[node_].operands[0]].type.shape; }

  void check(const Expr& coordinate, const Expr& extent, const std::vector<Expr>& conditions) {
    const auto is_empty = [](const Expr& e) { return e.is_constant(0); };
    if (std::any_of(extents_.begin(), extents_.end(), is_empty)) return;
    const Expr simple = simplify(coordinate, extents_);
    for (const Expr& e : {simple, extent - 1 - simple}) {
      if (!is_proven(e, conditions)) add(simple, extent, least(e));
    }
  }

  // Where a condition does not hold nothing is read. With one of them c >= 0, and k*e + k - 1 >= c, e > -1.
  bool is_proven(const Expr& e, const std::vector<Expr>& conditions) const {
    if (proves_nonnegative(e, extents_)) return true;
    const std::set<int64_t> scales = divisors_of(e);
    return std::any_of(conditions.begin(), conditions.end(), [&](const Expr& condition) {
      return std::any_of(scales.begin(), scales.end(), [&](int64_t k) {
        return proves_nonnegative(e * k + (k - 1) - condition, extents_);
      });
    });
  }

  // 1, and the literals that something in e is divided by.
  static std::set<int64_t> divisors_of(const Expr& e) {
    std::set<int64_t> divisors = {1};
    for (const Expr::Term& term : e.terms()) {
      for (const Expr::Atom& atom : term.factors) {
        if (atom.kind != Expr::AtomKind::FloorDiv) continue;
        const auto divisor = atom.args[1].constant();
        if (divisor && *divisor > 1) divisors.insert(*divisor);
      }
    }
    return divisors;
  }

  // The least value over all indices, or a negative one; nullopt: neither is known.
  std::optional<Expr> least(const Expr& e) const {
    if (auto corner = least_affine(e)) return corner;
    const bool has_symbols =
        !symbols_of(e).empty() ||
        std::any_of(extents_.begin(), extents_.end(), [](const Expr& extent) { return !extent.constant(); });
    if (has_symbols) return std::nullopt;
    std::vector<int64_t> last;
    for (const Expr& extent : extents_) last.push_back(*extent.constant() - 1);
    const std::vector<int64_t> first(last.size(), 0);
    const int64_t value = std::min(evaluate(e, first, {}), evaluate(e, last, {}));
    return value < 0 ? std::optional<Expr>(value) : std::nullopt;
  }

  // nullopt: not affine, or of unknown slope.
  std::optional<Expr> least_affine(Expr e) const {
    for (const int index : indices_of(e)) {
      const auto affine = affine_in(e, index);
      if (!affine) return std::nullopt;
      const bool rises = proves_nonnegative(affine->coefficient, extents_);
      if (!rises && !proves_nonnegative(-affine->coefficient, extents_)) return std::nullopt;
      e = rises ? affine->rest : affine->coefficient * (extents_[size_t(index)] - 1) + affine->rest;
    }
    return indices_of(e).empty() ? std::optional(simplify(e)) : std::nullopt;
  }

  void add(const Expr& coordinate, const Expr& extent, std::optional<Expr> requirement) {
    const Node& node = graph_[node_];
    found_.push_back({node_, std::move(requirement),
                      "%" + graph_[node.results[0]].name + " reads %" + graph_[node.operands[0]].name +
                          " at " + to_text(coordinate) + ", which may be outside of 0 to " +
                          to_text(extent - 1)});
  }

  const Graph& graph_;
  NodeId node_;
  const Shape& extents_;
  std::vector<UnprovenRead>& found_;
};

}  // namespace

std::vector<UnprovenRead> unproven_reads(const Graph& graph, std::span<const NodeId> nodes) {
  std::vector<UnprovenRead> found;
  for (const NodeId node : nodes) {
    const auto& [op, operands, results, source, origin] = graph[node];
    const auto over = [&](ValueId walked) { return Reads(graph, node, walked, found); };
    if (const auto* view = std::get_if<View>(&op)) over(results[0]).check_view(view->map);
    if (const auto* gather = std::get_if<Gather>(&op)) over(results[0]).check_places(*gather);
    if (const auto* scatter = std::get_if<Scatter>(&op)) over(operands[1]).check_places(*scatter);
  }
  return found;
}

std::vector<UnprovenRead> unproven_reads(const Graph& graph) {
  std::vector<NodeId> nodes;
  nodes.reserve(graph.nodes.size());
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) nodes.push_back({n});
  return unproven_reads(graph, nodes);
}

}  // namespace tilefuse
