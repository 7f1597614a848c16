// The operators that move data: views, concatenations, gathers, and the loads they end in.
#include <algorithm>

#include "core/condition.h"
#include "fusion/demand_builder.h"

namespace tilefuse {
namespace {

void append(std::vector<Expr>& list, const std::vector<Expr>& more) {
  for (const Expr& e : more) {
    if (std::find(list.begin(), list.end(), e) == list.end()) list.push_back(e);
  }
}

bool share_index(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int i) { return std::find(b.begin(), b.end(), i) != b.end(); });
}

// The conditions that can say something about where these coordinates lie: those that share an index with
// them, directly or through another condition. The others would only hide that two demands are equal.
std::vector<Expr> connected_guard(const std::vector<Expr>& coordinates, std::vector<Expr> guard) {
  if (guard.empty()) return guard;
  std::vector<int> reached;
  for (const Expr& e : coordinates) {
    for (const int index : indices_of(e)) reached.push_back(index);
  }
  std::vector<bool> kept(guard.size(), false);
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < guard.size(); ++i) {
      const std::vector<int> indices = indices_of(guard[i]);
      if (kept[i] || !(indices.empty() || share_index(indices, reached))) continue;
      kept[i] = grows = true;
      reached.insert(reached.end(), indices.begin(), indices.end());
    }
  }
  std::vector<Expr> result;
  for (size_t i = 0; i < guard.size(); ++i) {
    if (kept[i]) result.push_back(std::move(guard[i]));
  }
  return result;
}

bool never(const Expr& condition, const std::vector<Expr>& extents) {
  return proves_nonnegative(-condition - 1, extents);
}

}  // namespace

std::vector<Expr> DemandBuilder::apply(const IndexMap& map, const Exprs& coordinates) {
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
    Expr condition = undivided_condition(normalized(substitute_indices(e, coordinates)));
    if (never(condition, writer_.extents())) return constant(view.map.fill, dtype, id, graph_[result].name);
    if (proves_nonnegative(condition, writer_.extents())) continue;
    if (depends_on_data(condition)) return refuse(node, "its condition would depend on gathered indices");
    if (std::find(guard.begin(), guard.end(), condition) == guard.end()) append(conditions, {condition});
  }
  append(guard, conditions);
  coordinates = apply(view.map, coordinates);
  guard = connected_guard(coordinates, std::move(guard));
  if (conditions.empty()) {
    const Place inner{lists_.number(std::move(coordinates)), lists_.number(std::move(guard))};
    return demand(node.operands[0], inner);
  }
  ValueId source = node.operands[0];
  while (!values_.is_input(source)) {  // through further renamings, so that the load itself can fill
    const View* below = std::get_if<View>(&graph_.producer(source).op);
    if (below == nullptr || !below->map.conditions.empty()) break;
    coordinates = apply(below->map, coordinates);
    source = graph_.producer(source).operands[0];
  }
  if (values_.is_input(source)) {
    append(guard, conditions);  // the load fills by all of them, connected or not
    return load_input(source, coordinates, guard, view.map.fill, id);
  }
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
  const Expr& position = outer[concat.dim];
  std::vector<std::pair<TileValueId, Exprs>> pieces;  // value; where to look further: before its end
  Expr start;
  for (const ValueId operand : node.operands) {
    const Expr end = start + graph_[operand].type.shape[concat.dim];
    const Expr from_start = position - start;
    const Expr after = undivided_condition(from_start), before = undivided_condition(end - 1 - position);
    const Exprs& extents = writer_.extents();
    if (!never(after, extents) && !never(before, extents)) {
      Exprs guard = lists_[place.guard];
      const bool is_last = proves_nonnegative(before, extents);
      if (!is_last && depends_on_data(before)) {
        return refuse(node, "the piece that is read would depend on gathered indices");
      }
      if (!proves_nonnegative(after, extents)) append(guard, {after});
      if (!is_last) append(guard, {before});
      Exprs coordinates = outer;
      coordinates[concat.dim] = normalized(from_start);
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
    if (pieces[i].first == value) continue;  // one tensor stacked several times
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
    if (indices.empty() || share_index(indices, loose)) needed.push_back(e);
  }
  return needed;
}

DemandBuilder::Made DemandBuilder::load_input(ValueId input, const Exprs& coordinates, const Exprs& guard,
                                              const std::optional<Scalar>& fill, NodeId node) {
  const TensorType& type = graph_[input].type;
  const Exprs& strides = strides_of(input);
  TileLoad load;
  load.buffer = {static_cast<uint32_t>(values_.number(input))};
  load.fill = scalar_of(0.0, type.dtype);
  for (size_t dim = 0; dim < coordinates.size(); ++dim) {
    load.offset = load.offset + coordinates[dim] * strides[dim];
  }
  load.offset = normalized(load.offset);  // (x // 14) * 14 + x % 14 is x again where the strides agree
  if (!gather_terms(load)) {
    return refuse(graph_[node], "its gather goes through a view that strides cannot express");
  }
  // Where nothing is read no index is checked, so a gather keeps the whole guard.
  if (fill || !load.gathered.empty()) load.guard = guard;
  if (fill) {
    load.fill = scalar_of(*fill, type.dtype);
  } else if (load.gathered.empty() && !guard.empty()) {
    load.guard = needed_guard(coordinates, type.shape, guard);
  }
  return writer_.add_load(std::move(load), node);
}

// The data is demanded at coordinates that hold a stand-in axis for the index; loads turn it into a term.
DemandBuilder::Made DemandBuilder::make_gather(const Node& node, const Gather& gather, Place place) {
  const Exprs outer = lists_[place.coordinates];
  const auto& shape = graph_[node.operands[0]].type.shape;
  Exprs coordinates;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    coordinates.push_back(normalized(substitute_indices(gather.coordinates[dim], outer)));
    const int from = gather.from_index[dim];
    if (from < 0) continue;
    const Made index = demand(node.operands[1 + static_cast<size_t>(from)], place);
    if (!index) return index;
    const int stand_in = stand_in_for({*index, 0, shape[dim], gather.wrap});
    coordinates.back() = coordinates.back() + Expr::index(stand_in);
  }
  return demand(node.operands[0], {lists_.number(std::move(coordinates)), place.guard});
}

void DemandBuilder::scatter_into(const Node& node, const Scatter& scatter, BufferId buffer) {
  const ValueId updates = node.operands[1];
  const auto is_empty = [](const Expr& extent) { return extent.is_constant(0); };
  const Exprs& walked = graph_[updates].type.shape;
  if (std::any_of(walked.begin(), walked.end(), is_empty)) return;  // what is there before stays
  const size_t number = values_.number(updates);
  Exprs coordinates;
  TileScatter places{scatter.mode, {}, {}};
  for (size_t dim = 0; dim < assignment_.dims[number].size(); ++dim) {
    const std::vector<int> leaves = assignment_.leaves(number, dim);
    coordinates.push_back(coordinate_of(leaves));
    for (const int leaf : leaves) places.over.push_back(axis_of(leaf));
  }
  const Place place{lists_.number(coordinates), lists_.number({})};
  const Made value = demand(updates, place);
  if (!value) return;
  const auto& shape = graph_[node.operands[0]].type.shape;
  const Exprs strides = strides_of(node.results[0]);
  Expr offset;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    offset = offset + normalized(substitute_indices(scatter.coordinates[dim], coordinates)) * strides[dim];
    const int from = scatter.from_index[dim];
    if (from < 0) continue;
    const Made index = demand(node.operands[2 + static_cast<size_t>(from)], place);
    if (!index) return;
    places.at.push_back({*index, strides[dim], shape[dim], scatter.wrap});
  }
  writer_.add_store({*value, buffer, normalized(offset), std::move(places)});
}

int DemandBuilder::stand_in_for(const IndexTerm& term) {
  for (const auto& [axis, other] : stand_ins_) {
    if (other.value == term.value && other.extent == term.extent && other.wrap == term.wrap) return axis;
  }
  const int axis = static_cast<int>(writer_.add_axis(term.extent).index);
  stand_ins_.emplace_back(axis, term);
  return axis;
}

bool DemandBuilder::depends_on_data(const Expr& e) const {
  return std::any_of(stand_ins_.begin(), stand_ins_.end(),
                     [&](const auto& stand_in) { return uses_index(e, stand_in.first); });
}

bool DemandBuilder::gather_terms(TileLoad& load) const {
  for (const auto& [axis, term] : stand_ins_) {
    if (!uses_index(load.offset, axis)) continue;
    const auto affine = affine_in(load.offset, axis);
    if (!affine || !indices_of(affine->coefficient).empty()) return false;
    load.offset = affine->rest;
    load.gathered.push_back(term);
    load.gathered.back().stride = affine->coefficient;
  }
  return true;
}

}  // namespace tilefuse
