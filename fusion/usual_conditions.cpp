#include "fusion/usual_conditions.h"

#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace tilefuse {
namespace {

std::optional<double> literal_of(const TileGraph& graph, TileValueId id) {
  const auto* constant = std::get_if<TileConstant>(&graph[id].op);
  return constant == nullptr ? std::nullopt : std::optional(to_double(constant->value));
}

// Whether where(condition, then, otherwise) usually takes `then`; absent: either.
std::optional<bool> usually_takes_then(const TileGraph& graph, const TileValue& choice) {
  const auto then = literal_of(graph, choice.operands[1]), otherwise = literal_of(graph, choice.operands[2]);
  if (then && otherwise) return std::abs(*then) < std::abs(*otherwise);
  if (!then && !otherwise) return std::nullopt;
  return otherwise.has_value();
}

class Expectations {
 public:
  explicit Expectations(const TileGraph& graph) : graph_(graph) {}
  void expect(TileValueId id, bool holds);
  std::map<TileValueId, bool> take() && { return std::move(usual_); }

 private:
  const TileGraph& graph_;
  std::set<std::pair<TileValueId, bool>> seen_;
  std::map<TileValueId, bool> usual_;
};

void Expectations::expect(TileValueId id, bool holds) {
  if (!seen_.emplace(id, holds).second) return;
  const TileValue& value = graph_[id];
  if (const auto* predicate = std::get_if<TilePredicate>(&value.op)) {
    if (holds || predicate->guard.size() == 1) usual_.emplace(id, holds);
    return;
  }
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr || graph_[value.operands.front()].dtype != DType::Bool) return;
  const bool follows = map->fn == MapFn::Copy || map->fn == MapFn::Cast || (map->fn == MapFn::And && holds) ||
                       (map->fn == MapFn::Or && !holds);
  if (!follows && map->fn != MapFn::Not) return;
  for (const TileValueId operand : value.operands) expect(operand, follows ? holds : !holds);
}

std::optional<bool> truth_where(const TileGraph& graph, TileValueId id,
                                const std::map<TileValueId, bool>& known) {
  if (const auto found = known.find(id); found != known.end()) return found->second;
  const TileValue& value = graph[id];
  if (const auto* constant = std::get_if<TileConstant>(&value.op)) return to_bool(constant->value);
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr || graph[value.operands.front()].dtype != DType::Bool) return std::nullopt;
  const auto first = truth_where(graph, value.operands.front(), known);
  if (map->fn == MapFn::Copy || map->fn == MapFn::Cast) return first;
  if (map->fn == MapFn::Not) return first ? std::optional(!*first) : std::nullopt;
  if (map->fn != MapFn::And && map->fn != MapFn::Or) return std::nullopt;
  const auto second = truth_where(graph, value.operands.back(), known);
  const bool decides = map->fn == MapFn::Or;
  if (first == decides || second == decides) return decides;
  return first && second ? std::optional(!decides) : std::nullopt;
}

}  // namespace

std::optional<Scalar> literal_where(const TileGraph& graph, TileValueId id,
                                    const std::map<TileValueId, bool>& known) {
  const TileValue& value = graph[id];
  if (const auto* constant = std::get_if<TileConstant>(&value.op)) return constant->value;
  const auto* map = std::get_if<TileMap>(&value.op);
  if (map == nullptr) return std::nullopt;
  if (map->fn == MapFn::Copy) return literal_where(graph, value.operands[0], known);
  if (map->fn != MapFn::Where) return std::nullopt;
  const auto takes_then = truth_where(graph, value.operands[0], known);
  return takes_then ? literal_where(graph, value.operands[*takes_then ? 1 : 2], known) : std::nullopt;
}

std::map<TileValueId, bool> usual_conditions(const TileGraph& graph) {
  Expectations expectations(graph);
  for (const TileValue& value : graph.values) {
    const auto* map = std::get_if<TileMap>(&value.op);
    if (map == nullptr || map->fn != MapFn::Where) continue;
    if (const auto then = usually_takes_then(graph, value)) expectations.expect(value.operands[0], *then);
  }
  return std::move(expectations).take();
}

}  // namespace tilefuse
