// The operators that move data: views, concatenations, gathers, and the loads they end in.
#include <algorithm>

#include "fusion/demand_builder.h"

namespace tilefuse {
namespace {

void append(std::vector<Expr>& list, const std::vector<Expr>& more) {
  for (const Expr& e : more) {
    if (std::find(list.begin(), list.end(), e) == list.end()) list.push_back(e);
  }
}

bool never(const Expr& condition, const std::vector<Expr>& extents) {
  return proves_nonnegative(-condition - 1, extents);
}

}  // namespace

std::vector<Expr> DemandBuilder::apply(const IndexMap& map, const Exprs& coordinates) const {
  Exprs result;
  result.reserve(map.coordinates.size());
  for (const Expr& e : map.coordinates) result.push_back(normalized(substitute_indices(e, coordinates)));
  return result;
}

DemandBuilder::Made DemandBuilder::make_view(const Node& node, NodeId id, const View& view, Place place) {
  const ValueId result = node.results[0];
  const DType dtype = graph_[result].type.dtype;
  Exprs coordinates = lists_[place.coordinates];
  Exprs guard = lists_[place.guard];
  Exprs conditions;
  for (const Expr& e : view.map.conditions) {
    Expr condition = normalized(substitute_indices(e, coordinates));
    if (never(condition, writer_.extents())) return constant(view.map.fill, dtype, id, graph_[result].name);
    if (proves_nonnegative(condition, writer_.extents())) continue;
    if (std::find(guard.begin(), guard.end(), condition) == guard.end()) append(conditions, {condition});
  }
  append(guard, conditions);
  coordinates = apply(view.map, coordinates);
  if (conditions.empty()) {
    return demand(node.operands[0], {lists_.number(std::move(coordinates)), place.guard});
  }
  ValueId source = node.operands[0];
  while (!values_.is_input(source)) {  // through further renamings, so that the load itself can fill
    const View* below = std::get_if<View>(&graph_.producer(source).op);
    if (below == nullptr || !below->map.conditions.empty()) break;
    coordinates = apply(below->map, coordinates);
    source = graph_.producer(source).operands[0];
  }
  if (values_.is_input(source)) return load_input(source, coordinates, guard, view.map.fill, id);
  const Made inside =
      demand(source, {lists_.number(std::move(coordinates)), lists_.number(std::move(guard))});
  if (!inside) return inside;
  const TileValueId fill = constant(view.map.fill, dtype, id, "fill");
  return select(predicate(conditions, id), *inside, fill, result, id);
}

TileValueId DemandBuilder::predicate(const Exprs& guard, NodeId node) {
  return writer_.add(TilePredicate{guard}, {}, DType::Bool, node, "inside");
}

TileValueId DemandBuilder::select(TileValueId predicate, TileValueId then, TileValueId otherwise, ValueId of,
                                  NodeId node) {
  const Value& value = graph_[of];
  return writer_.add(TileMap{MapFn::Where}, {predicate, then, otherwise}, value.type.dtype, node, value.name);
}

DemandBuilder::Made DemandBuilder::make_concat(const Node& node, NodeId id, const Concat& concat,
                                               Place place) {
  const Exprs outer = lists_[place.coordinates];
  const Expr position = outer[concat.dim];
  std::vector<std::pair<TileValueId, Exprs>> pieces;  // value; where to look further: before its end
  Expr start;
  for (const ValueId operand : node.operands) {
    const Expr end = start + graph_[operand].type.shape[concat.dim];
    const Expr after = position - start;
    const Expr before = end - 1 - position;
    const Exprs& extents = writer_.extents();
    if (!never(after, extents) && !never(before, extents)) {
      Exprs guard = lists_[place.guard];
      if (!proves_nonnegative(after, extents)) append(guard, {after});
      const bool is_last = proves_nonnegative(before, extents);
      if (!is_last) append(guard, {before});
      Exprs coordinates = outer;
      coordinates[concat.dim] = normalized(after);
      const Place inner{lists_.number(std::move(coordinates)), lists_.number(std::move(guard))};
      const Made piece = demand(operand, inner);
      if (!piece) return piece;
      pieces.emplace_back(*piece, Exprs{before});
      if (is_last) break;
    }
    start = end;
  }
  if (pieces.empty()) return refuse(node, "it has no elements");
  TileValueId value = pieces.back().first;
  for (size_t i = pieces.size() - 1; i-- > 0;) {
    value = select(predicate(pieces[i].second, id), pieces[i].first, value, node.results[0], id);
  }
  return value;
}

std::vector<Expr> DemandBuilder::needed_guard(const Exprs& coordinates, const Exprs& shape,
                                              const Exprs& guard) const {
  std::vector<int> loose;  // indices of coordinates that may leave the buffer
  bool any = false;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const Expr& coordinate = coordinates[dim];
    if (proves_nonnegative(coordinate, writer_.extents()) &&
        proves_less(coordinate, shape[dim], writer_.extents())) {
      continue;
    }
    any = true;
    for (const int index : indices_of(coordinate)) loose.push_back(index);
  }
  Exprs needed;
  if (!any) return needed;
  for (const Expr& e : guard) {
    const std::vector<int> indices = indices_of(e);
    const bool relevant = indices.empty() || std::any_of(indices.begin(), indices.end(), [&](int index) {
                            return std::find(loose.begin(), loose.end(), index) != loose.end();
                          });
    if (relevant) needed.push_back(e);
  }
  return needed;
}

TileValueId DemandBuilder::load_input(ValueId input, const Exprs& coordinates, const Exprs& guard,
                                      const std::optional<Scalar>& fill, NodeId node) {
  const TensorType& type = graph_[input].type;
  const Exprs& strides = strides_of(input);
  TileLoad load;
  load.buffer = {static_cast<uint32_t>(values_.number(input))};
  load.fill = scalar_of(0.0, type.dtype);
  for (size_t dim = 0; dim < coordinates.size(); ++dim) {
    load.offset = load.offset + coordinates[dim] * strides[dim];
  }
  if (fill) {
    load.guard = guard;
    load.fill = scalar_of(*fill, type.dtype);
  } else if (!guard.empty()) {
    load.guard = needed_guard(coordinates, type.shape, guard);
  }
  return writer_.add_load(std::move(load), node);
}

DemandBuilder::Made DemandBuilder::make_gather(const Node& node, NodeId id, const Gather& gather,
                                               Place place) {
  const Exprs outer = lists_[place.coordinates];
  // Data that strided views lead to is read through its strides.
  ValueId data = node.operands[0];
  std::vector<const View*> views;
  while (!values_.is_input(data)) {
    const View* view = std::get_if<View>(&graph_.producer(data).op);
    if (view == nullptr) return refuse(node, "its data is computed in the same region, not in memory");
    views.push_back(view);
    data = graph_.producer(data).operands[0];
  }
  StridedView access{strides_of(data), 0};
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const auto strided = as_strided((*view)->map, access.strides, access.offset);
    if (!strided) return refuse(node, "its data is a view that strides cannot express");
    access = *strided;
  }
  const TensorType& type = graph_[node.operands[0]].type;
  TileLoad load;
  load.buffer = {static_cast<uint32_t>(values_.number(data))};
  load.offset = access.offset;
  load.fill = scalar_of(0.0, type.dtype);
  load.guard = lists_[place.guard];
  for (size_t dim = 0; dim < gather.coordinates.size(); ++dim) {
    const Expr coordinate = normalized(substitute_indices(gather.coordinates[dim], outer));
    load.offset = load.offset + coordinate * access.strides[dim];
    const int from = gather.from_index[dim];
    if (from < 0) continue;
    const Made index = demand(node.operands[1 + from], place);
    if (!index) return index;
    load.gathered.push_back({*index, access.strides[dim], type.shape[dim], gather.wrap});
  }
  return writer_.add_load(std::move(load), id);
}

}  // namespace tilefuse
