#include "fusion/reduce_concats.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/canonicalize.h"
#include "core/graph_copier.h"
#include "core/index_map.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

// Where the parts of a concatenation lie along its dimension.
struct Parts {
  std::vector<Expr> starts, lengths;
  size_t size() const { return lengths.size(); }
};

Parts parts_of(const Graph& graph, const Node& node) {
  const int dim = std::get<Concat>(node.op).dim;
  Parts parts;
  Expr start = 0;
  for (const ValueId operand : node.operands) {
    const Expr& length = graph[operand].type.shape[static_cast<size_t>(dim)];
    parts.starts.push_back(start);
    parts.lengths.push_back(length);
    start = start + length;
  }
  return parts;
}

bool has_one_long_part(const Parts& parts) {
  const auto singles = std::count_if(parts.lengths.begin(), parts.lengths.end(),
                                     [](const Expr& length) { return length.is_constant(1); });
  return parts.size() > 1 && singles + 1 == static_cast<std::ptrdiff_t>(parts.size());
}

// The dimension of a view's output that walks dimension `dim` of its input, element by element and alone.
std::optional<int> walked_by(const IndexMap& map, const std::vector<Expr>& input_shape, int dim) {
  const auto along = static_cast<size_t>(dim);
  for (int out = 0; out < static_cast<int>(map.extents.size()); ++out) {
    if (map.coordinates[along] != Expr::index(out)) continue;
    if (map.extents[static_cast<size_t>(out)] != input_shape[along]) return std::nullopt;
    for (size_t i = 0; i < map.coordinates.size(); ++i) {
      if (i != along && uses_index(map.coordinates[i], out)) return std::nullopt;
    }
    const auto uses = [&](const Expr& condition) { return uses_index(condition, out); };
    if (std::any_of(map.conditions.begin(), map.conditions.end(), uses)) return std::nullopt;
    return out;
  }
  return std::nullopt;
}

// The part in which all that a view reads of dimension `dim` lies.
std::optional<size_t> part_read(const IndexMap& map, int dim, const Parts& parts) {
  const Expr& place = map.coordinates[static_cast<size_t>(dim)];
  for (size_t p = 0; p < parts.size(); ++p) {
    const Expr end = parts.starts[p] + parts.lengths[p];
    if (proves_nonnegative(place - parts.starts[p], map.extents) && proves_less(place, end, map.extents)) {
      return p;
    }
  }
  return std::nullopt;
}

// What is computed of a concatenation, element by element, and the dimension that has its parts.
using Reach = std::map<ValueId, int>;

class ReachFinder {
 public:
  ReachFinder(const Graph& graph, NodeId concat)
      : graph_(graph), users_(users_of(graph)), parts_(parts_of(graph, graph[concat])) {
    is_returned_.assign(graph.values.size(), false);
    for (const GraphOutput& output : graph.outputs) {
      if (const auto* value = std::get_if<ValueId>(&output)) is_returned_[value->index] = true;
    }
    for (const auto& mutation : graph.mutations) is_returned_[mutation.second.index] = true;
    enter(graph[concat].results[0], std::get<Concat>(graph[concat].op).dim);
  }

  // Absent: somebody needs the parts behind each other, or nothing is reduced.
  std::optional<Reach> run() {
    while (is_possible_ && !open_.empty()) {
      const ValueId value = open_.back();
      open_.pop_back();
      is_possible_ = !is_returned_[value.index];
      for (const NodeId user : users_[value.index]) follow(value, graph_[user]);
    }
    if (!is_possible_ || !is_reduced_) return std::nullopt;
    return std::move(reach_);
  }

 private:
  void enter(ValueId value, int dim) {
    const auto [entry, is_new] = reach_.try_emplace(value, dim);
    if (is_new) open_.push_back(value);
    if (entry->second != dim) is_possible_ = false;
  }

  void follow(ValueId value, const Node& user) {
    const int dim = reach_.at(value);
    if (std::holds_alternative<Map>(user.op)) return enter(user.results[0], dim);
    if (const auto* reduce = std::get_if<Reduce>(&user.op))
      return follow_reduce(*reduce, user.results[0], dim);
    const auto* view = std::get_if<View>(&user.op);
    if (view != nullptr) {
      const auto out = walked_by(view->map, graph_[value].type.shape, dim);
      if (out) return enter(user.results[0], *out);
    }
    if (view == nullptr || !part_read(view->map, dim, parts_)) is_possible_ = false;
  }

  void follow_reduce(const Reduce& reduce, ValueId result, int dim) {
    const auto place = std::lower_bound(reduce.dims.begin(), reduce.dims.end(), dim);
    const bool is_over_parts = place != reduce.dims.end() && *place == dim;
    if (!is_over_parts) return enter(result, dim - static_cast<int>(place - reduce.dims.begin()));
    is_reduced_ = true;
    if (!info(reduce.kind).combine) is_possible_ = false;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  Parts parts_;
  std::vector<bool> is_returned_;
  Reach reach_;
  std::vector<ValueId> open_;
  bool is_possible_ = true, is_reduced_ = false;
};

// Computes what a concatenation reaches part by part.
class PartWriter {
 public:
  PartWriter(const Graph& graph, NodeId concat, const Reach& reach)
      : graph_(graph), reach_(reach), parts_(parts_of(graph, graph[concat])), copier_(graph) {}

  Graph run() {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) write({i});
    return copier_.finish();
  }

 private:
  GraphBuilder& builder() { return copier_.builder(); }
  const TensorType& type_of(ValueId copied) { return copier_.copied()[copied].type; }

  void write(NodeId id) {
    const Node& node = graph_[id];
    if (std::holds_alternative<Input>(node.op)) return;
    copier_.set_source_of(id);
    if (const auto reached = reach_.find(node.results[0]); reached != reach_.end()) {
      std::vector<ValueId>& pieces = pieces_[node.results[0]];
      for (size_t p = 0; p < parts_.size(); ++p) pieces.push_back(piece(node, reached->second, p));
    } else if (!node.operands.empty() && reach_.contains(node.operands[0])) {
      copier_.stand_for(id, {end(node)});
    } else {
      copier_.copy(id);
    }
  }

  // Part `p` of the result of a node that is reached.
  ValueId piece(const Node& node, int dim, size_t p) {
    return match(
        node.op, [&](const Concat&) { return copier_.copy_of(node.operands[p]); },
        [&](const Map& map) {
          std::vector<ValueId> operands;
          operands.reserve(node.operands.size());
          for (const ValueId operand : node.operands) operands.push_back(piece_of(operand, dim, p));
          TensorType type{graph_[node.results[0]].type.dtype, type_of(operands[0]).shape};
          return builder().add(map, std::move(operands), std::move(type), graph_[node.results[0]].name);
        },
        [&](const Reduce& reduce) {
          return builder().reduce(reduce.kind, pieces_.at(node.operands[0])[p], reduce.dims);
        },
        [&](const View& view) {
          IndexMap map = view.map;
          map.extents[static_cast<size_t>(dim)] = parts_.lengths[p];
          return builder().view(pieces_.at(node.operands[0])[p], std::move(map));
        },
        [&](const auto&) -> ValueId {
          throw InternalError("reduce_concats: an operator that is not followed");
        });
  }

  // Of any value that has the concatenation's length there.
  ValueId piece_of(ValueId value, int dim, size_t p) {
    const auto pieces = pieces_.find(value);
    if (pieces != pieces_.end()) return pieces->second[p];
    return builder().view(copier_.copy_of(value),
                          slice_map(graph_[value].type.shape, dim, parts_.starts[p], parts_.lengths[p], 1));
  }

  // A reduction over the parts, or a slice of one.
  ValueId end(const Node& node) {
    const std::vector<ValueId>& pieces = pieces_.at(node.operands[0]);
    const int dim = reach_.at(node.operands[0]);
    if (const auto* view = std::get_if<View>(&node.op)) {
      const size_t p = *part_read(view->map, dim, parts_);
      IndexMap map = view->map;
      Expr& place = map.coordinates[static_cast<size_t>(dim)];
      place = simplify(place - parts_.starts[p], map.extents);
      return builder().view(pieces[p], std::move(map));
    }
    const Reduce& reduce = std::get<Reduce>(node.op);
    const DType dtype = type_of(pieces[0]).dtype;
    const bool rounds = reduce.kind == ReduceKind::Sum || reduce.kind == ReduceKind::Prod;
    std::optional<ValueId> total;
    for (const ValueId piece : pieces) {
      const ValueId next = reduced(reduce, rounds ? builder().cast(piece, info(dtype).compute) : piece, dim);
      total = total ? builder().map(*info(reduce.kind).combine, {*total, next}) : next;
    }
    return builder().cast(*total, dtype);
  }

  ValueId reduced(const Reduce& reduce, ValueId piece, int dim) {
    if (!type_of(piece).shape[static_cast<size_t>(dim)].is_constant(1)) {
      return builder().reduce(reduce.kind, piece, reduce.dims);
    }
    std::vector<int> others = reduce.dims;
    std::erase(others, dim);
    const auto before = std::count_if(others.begin(), others.end(), [&](int other) { return other < dim; });
    const ValueId rest = builder().reduce(reduce.kind, piece, others);
    return builder().view(rest, remove_dim_map(type_of(rest).shape, dim - static_cast<int>(before)));
  }

  const Graph& graph_;
  const Reach& reach_;
  Parts parts_;
  GraphCopier copier_;
  std::map<ValueId, std::vector<ValueId>> pieces_;
};

std::optional<Graph> without_one(const Graph& graph) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!std::holds_alternative<Concat>(node.op) || !has_one_long_part(parts_of(graph, node))) continue;
    const std::optional<Reach> reach = ReachFinder(graph, {i}).run();
    if (reach) return canonicalize(PartWriter(graph, {i}, *reach).run());
  }
  return std::nullopt;
}

}  // namespace

Graph reduce_concats(Graph graph) {
  while (std::optional<Graph> next = without_one(graph)) graph = *std::move(next);
  return graph;
}

}  // namespace tilefuse
