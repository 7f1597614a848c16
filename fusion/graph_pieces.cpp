#include "fusion/graph_pieces.h"

#include <algorithm>

#include "core/index_map.h"

namespace tilefuse {
namespace {

constexpr int kPieceGranule = 8;  // elements, so that accesses of a piece may be wide
constexpr AxisId kPiece{0};       // of the graph that is made; the others stand one further

bool has(const std::vector<AxisId>& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace

ReduceKind value_kind(ReduceKind kind) {
  if (kind == ReduceKind::ArgMax) return ReduceKind::Max;
  return kind == ReduceKind::ArgMin ? ReduceKind::Min : kind;
}

Pieces pieces_of(const TileGraph& graph, AxisId axis, int parts) {
  const Expr& whole = graph[axis].extent;
  Pieces pieces;
  pieces.axis = axis;
  pieces.length = ceildiv(whole, Expr(int64_t{parts} * kPieceGranule)) * kPieceGranule;
  pieces.count = whole.constant() ? ceildiv(whole, pieces.length) : Expr(parts);
  pieces.is_even = (pieces.length * pieces.count - whole).is_constant(0);
  return pieces;
}

Pieces pieces_of_length(const TileGraph& graph, AxisId axis, int64_t length) {
  const Expr& whole = graph[axis].extent;
  Pieces pieces{.axis = axis, .length = length, .count = ceildiv(whole, length)};
  pieces.is_even = is_multiple_of(whole, length);
  return pieces;
}

Buffer buffer_of_pieces(const TileGraph& graph, const Pieces& pieces, const std::string& name, DType dtype,
                        const std::vector<AxisId>& axes, Buffer::Role role) {
  Buffer buffer = buffer_over(graph, name, dtype, axes, role);
  buffer.shape.insert(buffer.shape.begin(), pieces.count);
  buffer.strides = contiguous_strides(buffer.shape);
  return buffer;
}

TileValueId load_pieces(GraphCopy& copy, const TileGraph& graph, const Buffer& buffer, TileValueId of,
                        AxisId part) {
  std::vector<AxisId> axes = graph[of].axes;
  axes.push_back(part);
  std::sort(axes.begin(), axes.end());
  TileLoad load;
  load.offset =
      Expr::index(static_cast<int>(part.index)) * buffer.strides[0] + place_over(buffer, graph[of].axes, 1);
  load.buffer = copy.add_buffer(buffer);
  return copy.add({.name = buffer.name,
                   .op = std::move(load),
                   .operands = {},
                   .dtype = buffer.dtype,
                   .axes = std::move(axes),
                   .node = {}});
}

std::vector<TileValueId> needed_values(const TileGraph& graph, const std::vector<TileValueId>& roots,
                                       const std::function<bool(TileValueId)>& stops_at) {
  std::vector<bool> is_needed(graph.values.size());
  for (const TileValueId root : roots) is_needed[root.index] = true;
  for (auto v = static_cast<uint32_t>(graph.values.size()); v-- > 0;) {
    if (!is_needed[v] || stops_at({v})) continue;
    for (const TileValueId operand : operands_of(graph.values[v])) is_needed[operand.index] = true;
  }
  std::vector<TileValueId> ids;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (is_needed[v]) ids.push_back({v});
  }
  return ids;
}

PiecesOfGraph::PiecesOfGraph(const TileGraph& graph, const Pieces& pieces, std::string name, BeyondEnd beyond)
    : graph_(graph), pieces_(pieces), beyond_(beyond), copy_(graph, std::move(name)) {
  copy_.to_.axes.push_back({"part", pieces.count});
  for (const Axis& axis : graph.axes) copy_.to_.axes.push_back(axis);
  copy_.to_.axes[pieces.axis.index + 1].extent = pieces.length;
  extents_ = axis_extents(copy_.to_);
  for (Expr& extent : extents_) {  // an axis of one element stays in the domains that it is in
    if (extent.is_constant(1)) extent = Expr(2);
  }
  const Expr last = graph[pieces.axis].extent - 1;
  place_ = Expr::index(0) * pieces.length + Expr::index(static_cast<int>(pieces.axis.index) + 1);
  left_ = simplify(last - place_, extents_);
  if (pieces.is_even) return;
  if (beyond == BeyondEnd::LastAgain) place_ = min(place_, last);
  inside_ = copy_.add({.name = "in_part",
                       .op = TilePredicate{{left_}},
                       .operands = {},
                       .dtype = DType::Bool,
                       .axes = {kPiece, {pieces.axis.index + 1}},
                       .node = {}});
}

Expr PiecesOfGraph::moved(const Expr& e) const {
  std::vector<Expr> replacements;
  for (uint32_t a = 0; a < graph_.axes.size(); ++a) {
    const Expr own = Expr::index(static_cast<int>(a) + 1);
    replacements.push_back(AxisId{a} == pieces_.axis ? place_ : own);
  }
  return simplify(substitute_indices(e, replacements), extents_);
}

void PiecesOfGraph::move(std::vector<Expr>& exprs) const {
  for (Expr& e : exprs) e = moved(e);
}

bool PiecesOfGraph::varies(TileValueId id) const { return has(graph_[id].axes, pieces_.axis); }

// What is reduced, with the identity beyond the end.
TileValueId PiecesOfGraph::masked(const std::string& name, TileValueId element, ReduceKind kind) {
  const TileValue of = copy_.to_[element];
  const TileValueId none = copy_.add({.name = name + "_none",
                                      .op = TileConstant{*identity_of(value_kind(kind), of.dtype)},
                                      .operands = {},
                                      .dtype = of.dtype,
                                      .axes = {},
                                      .node = {}});
  return copy_.add({.name = name + "_element",
                    .op = TileMap{MapFn::Where},
                    .operands = {*inside_, element, none},
                    .dtype = of.dtype,
                    .axes = domain({*inside_, element, none}),
                    .node = {}});
}

TileValueId PiecesOfGraph::masked_element(TileValueId reduction) {
  if (const auto known = elements_.find(reduction); known != elements_.end()) return known->second;
  const TileValue& value = graph_[reduction];
  const TileValueId element = copy_.made(value.operands[0]);
  return elements_[reduction] = masked(value.name, element, std::get<TileReduce>(value.op).kind);
}

void PiecesOfGraph::mask_elements(const std::vector<TileValueId>& reductions) {
  if (!inside_) return;
  for (const TileValueId id : reductions) masked_element(id);
}

TileValue PiecesOfGraph::moved_value(TileValueId id) {
  TileValue value = copy_.copied(id);
  if (auto* load = std::get_if<TileLoad>(&value.op)) {
    move(load->guard);
    load->offset = moved(load->offset);
    if (inside_ && beyond_ == BeyondEnd::Fill && varies(id)) load->guard.push_back(left_);
    for (IndexTerm& term : load->gathered) {
      term.stride = moved(term.stride);
      term.extent = moved(term.extent);
    }
  }
  if (auto* index = std::get_if<TileIndex>(&value.op)) index->expr = moved(index->expr);
  if (auto* predicate = std::get_if<TilePredicate>(&value.op)) move(predicate->guard);
  if (auto* scan = std::get_if<TileScan>(&value.op)) ++scan->axis.index;
  if (auto* reduce = std::get_if<TileReduce>(&value.op)) {
    const bool is_in_pieces = reduce->axes == std::vector{pieces_.axis};
    for (AxisId& axis : reduce->axes) ++axis.index;
    if (is_in_pieces) value.dtype = info(value.dtype).compute;
    if (inside_ && is_in_pieces) value.operands[0] = masked_element(id);
  }
  value.axes = domain_of(copy_.to_, value.op, value.operands);
  return value;
}

void PiecesOfGraph::copy(const std::vector<TileValueId>& ids, const Replace& replace) {
  for (const TileValueId id : ids) {
    const auto other = replace ? replace(id, *this) : std::nullopt;
    copy_.keep(id, other ? *other : copy_.add(moved_value(id)));
  }
}

void PiecesOfGraph::store(TileValueId made, const Buffer& buffer, const std::vector<AxisId>& axes) {
  const Expr offset = Expr::index(0) * buffer.strides[0] + place_over(buffer, axes, 1, 1);
  copy_.to_.stores.push_back({made, copy_.add_buffer(buffer), offset});
}

void PiecesOfGraph::store(const TileStore& store) {
  copy_.to_.stores.push_back({copy_.made(store.value), copy_.buffer(store.buffer), moved(store.offset)});
}

}  // namespace tilefuse
