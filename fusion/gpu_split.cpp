#include "fusion/gpu_split.h"

#include <algorithm>

#include "core/index_map.h"
#include "fusion/graph_copy.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

constexpr int kPieceGranule = 8;  // elements, so that accesses of a piece may be wide

// Whose identity elements beyond the last one have: that of the extreme, where its position is wanted.
ReduceKind value_kind(ReduceKind kind) {
  if (kind == ReduceKind::ArgMax) return ReduceKind::Max;
  return kind == ReduceKind::ArgMin ? ReduceKind::Min : kind;
}

class Split {
 public:
  Split(const TileGraph& graph, const Structure& structure, int parts)
      : graph_(graph), structure_(structure), axis_(structure.reduced.front()) {
    const Expr& whole = graph_[axis_].extent;
    length_ = ceildiv(whole, Expr(int64_t{parts} * kPieceGranule)) * kPieceGranule;
    const auto number = whole.constant();
    parts_ = number ? static_cast<int>(*ceildiv(whole, length_).constant()) : parts;
    is_even_ = (length_ * parts_ - whole).is_constant(0);
  }

  std::optional<std::vector<TileGraph>> run() {
    if (parts_ < 2) return std::nullopt;
    for (const TileValueId id : structure_.reductions) {
      const auto* reduce = std::get_if<TileReduce>(&graph_[id].op);
      if (reduce == nullptr || (info(reduce->kind).is_index && !length_.constant())) return std::nullopt;
      const DType element = graph_[graph_[id].operands[0]].dtype;
      if (!is_even_ && !identity_of(value_kind(reduce->kind), element)) return std::nullopt;
    }
    std::vector<TileGraph> nests;
    nests.push_back(pieces());
    nests.push_back(rest());
    return nests;
  }

 private:
  // ---- nest 0: the axes are shifted by one, and the first one numbers the pieces
  Expr in_piece(const Expr& e) const {
    std::vector<Expr> replacements;
    for (uint32_t a = 0; a < graph_.axes.size(); ++a) {
      const Expr own = Expr::index(static_cast<int>(a) + 1);
      replacements.push_back(AxisId{a} == axis_ ? Expr::index(0) * length_ + own : own);
    }
    return simplify(substitute_indices(e, replacements), piece_extents_);
  }
  void to_piece(std::vector<Expr>& exprs) const {
    for (Expr& e : exprs) e = in_piece(e);
  }
  std::vector<AxisId> axes_in_piece(const std::vector<AxisId>& axes) const {
    std::vector<AxisId> shifted;
    if (std::find(axes.begin(), axes.end(), axis_) != axes.end()) shifted.push_back({0});
    for (const AxisId axis : axes) shifted.push_back({axis.index + 1});
    return shifted;
  }

  TileGraph pieces() {
    GraphCopy copy(graph_, graph_.name + "_parts");
    copy.to_.axes.push_back({"part", Expr(parts_)});
    for (const Axis& axis : graph_.axes) copy.to_.axes.push_back(axis);
    copy.to_.axes[axis_.index + 1].extent = length_;
    piece_extents_ = axis_extents(copy.to_);
    std::optional<TileValueId> inside;
    const Expr left = in_piece(graph_[axis_].extent - 1 - Expr::index(static_cast<int>(axis_.index)));
    if (!is_even_) {
      inside = copy.add({.name = "in_part",
                         .op = TilePredicate{{left}},
                         .operands = {},
                         .dtype = DType::Bool,
                         .axes = {{0}, {axis_.index + 1}},
                         .node = {}});
    }
    for (const TileValueId id : wanted(structure_.reductions, false)) {
      TileValue value = copy.copied(id);
      value.axes = axes_in_piece(value.axes);
      if (auto* load = std::get_if<TileLoad>(&value.op)) {
        to_piece(load->guard);
        load->offset = in_piece(load->offset);
        if (inside && varies(id)) load->guard.push_back(left);
        for (IndexTerm& term : load->gathered) {
          term.stride = in_piece(term.stride);
          term.extent = in_piece(term.extent);
        }
      }
      if (auto* index = std::get_if<TileIndex>(&value.op)) index->expr = in_piece(index->expr);
      if (auto* predicate = std::get_if<TilePredicate>(&value.op)) to_piece(predicate->guard);
      if (std::holds_alternative<TileReduce>(value.op)) value = reduced_piece(copy, std::move(value), inside);
      copy.keep(id, copy.add(std::move(value)));
    }
    for (const TileValueId id : structure_.reductions) {
      const BufferId parts = copy.add_buffer(parts_buffer(id, Buffer::Role::Output));
      copy.to_.stores.push_back({copy.made(id), parts, in_piece_offset(id)});
      if (!is_position(id)) continue;
      const BufferId extremes = copy.add_buffer(extremes_buffer(id, Buffer::Role::Output));
      copy.to_.stores.push_back({extreme_of(copy, copy.made(id)), extremes, in_piece_offset(id)});
    }
    return copy.finish("split_reduction, pieces");
  }

  // What a piece has at the position that it found.
  TileValueId extreme_of(GraphCopy& copy, TileValueId position) const {
    TileValue extreme = copy.to_[position];
    auto& reduce = std::get<TileReduce>(extreme.op);
    reduce.kind = value_kind(reduce.kind);
    extreme.name += "_extreme";
    extreme.dtype = info(copy.to_[extreme.operands[0]].dtype).compute;
    return copy.add(std::move(extreme));
  }

  TileValue reduced_piece(GraphCopy& copy, TileValue value, std::optional<TileValueId> inside) const {
    auto& reduce = std::get<TileReduce>(value.op);
    reduce.axes = {{axis_.index + 1}};
    std::vector<AxisId> axes = {{0}};
    axes.insert(axes.end(), value.axes.begin(), value.axes.end());
    value.axes = axes;
    value.dtype = info(value.dtype).compute;
    if (!inside) return value;
    const TileValue element = copy.to_[value.operands[0]];
    const TileValueId none =
        copy.add({.name = value.name + "_none",
                  .op = TileConstant{*identity_of(value_kind(reduce.kind), element.dtype)},
                  .operands = {},
                  .dtype = element.dtype,
                  .axes = {},
                  .node = {}});
    std::vector<AxisId> spread = element.axes;
    spread.insert(spread.end(), {AxisId{0}, AxisId{axis_.index + 1}});
    std::sort(spread.begin(), spread.end());
    spread.erase(std::unique(spread.begin(), spread.end()), spread.end());
    value.operands[0] = copy.add({.name = value.name + "_element",
                                  .op = TileMap{MapFn::Where},
                                  .operands = {*inside, value.operands[0], none},
                                  .dtype = element.dtype,
                                  .axes = spread,
                                  .node = {}});
    return value;
  }

  // ---- nest 1: the reduced axis numbers the pieces
  TileGraph rest() {
    GraphCopy copy(graph_, graph_.name);
    copy.to_.axes = graph_.axes;
    copy.to_.axes[axis_.index] = {"part", Expr(parts_)};
    std::vector<TileValueId> stored;
    stored.reserve(graph_.stores.size());
    for (const TileStore& store : graph_.stores) stored.push_back(store.value);
    for (const TileValueId id : wanted(stored, true)) {
      if (is_position(id)) {
        copy.keep(id, position_of_parts(copy, id));
        continue;
      }
      TileValue value = is_reduction(id) ? graph_[id] : copy.copied(id);
      if (is_reduction(id)) value.operands = {loaded_parts(copy, id, parts_buffer(id, Buffer::Role::Input))};
      copy.keep(id, copy.add(std::move(value)));
    }
    for (const TileStore& store : graph_.stores) {
      copy.to_.stores.push_back({copy.made(store.value), copy.buffer(store.buffer), store.offset});
    }
    return copy.finish("split_reduction, rest");
  }

  TileValueId loaded_parts(GraphCopy& copy, TileValueId id, const Buffer& buffer) const {
    std::vector<AxisId> axes = graph_[id].axes;
    axes.push_back(axis_);
    std::sort(axes.begin(), axes.end());
    TileLoad load;
    load.offset = Expr::index(static_cast<int>(axis_.index)) * buffer.strides[0] + offset_in_part(id, buffer);
    load.buffer = copy.add_buffer(buffer);
    return copy.add({.name = buffer.name,
                     .op = std::move(load),
                     .operands = {},
                     .dtype = buffer.dtype,
                     .axes = std::move(axes),
                     .node = {}});
  }

  // The first part with the extreme has it at the position that this part found.
  TileValueId position_of_parts(GraphCopy& copy, TileValueId id) const {
    const TileValue& position = graph_[id];
    const auto add = [&](const char* suffix, TileOp op, std::vector<TileValueId> operands) {
      return copy.add({.name = position.name + suffix,
                       .op = std::move(op),
                       .operands = std::move(operands),
                       .dtype = DType::I64,
                       .axes = position.axes,
                       .node = {}});
    };
    const TileValueId part =
        add("_part", position.op, {loaded_parts(copy, id, extremes_buffer(id, Buffer::Role::Input))});
    const Buffer buffer = parts_buffer(id, Buffer::Role::Input);
    TileLoad load;
    load.offset = offset_in_part(id, buffer);
    load.gathered.push_back(
        {.value = part, .stride = buffer.strides[0], .extent = Expr(parts_), .wrap = false});
    load.buffer = copy.add_buffer(buffer);
    const TileValueId within = add("_within", std::move(load), {});
    const TileValueId length = copy.add({.name = position.name + "_length",
                                         .op = TileConstant{*length_.constant()},
                                         .operands = {},
                                         .dtype = DType::I64,
                                         .axes = {},
                                         .node = {}});
    const TileValueId first = add("_first", TileMap{MapFn::Mul}, {part, length});
    return add("", TileMap{MapFn::Add}, {first, within});
  }

  // ---- both
  Buffer parts_buffer(TileValueId id, Buffer::Role role) const {
    Buffer buffer;
    buffer.name = graph_[id].name + "_parts";
    buffer.dtype = info(graph_[id].dtype).compute;
    buffer.role = role;
    buffer.shape.emplace_back(parts_);
    for (const AxisId axis : graph_[id].axes) buffer.shape.push_back(graph_[axis].extent);
    buffer.strides = contiguous_strides(buffer.shape);
    return buffer;
  }
  Buffer extremes_buffer(TileValueId id, Buffer::Role role) const {
    Buffer buffer = parts_buffer(id, role);
    buffer.name = graph_[id].name + "_extremes";
    buffer.dtype = info(graph_[graph_[id].operands[0]].dtype).compute;
    return buffer;
  }
  Expr offset_in_part(TileValueId id, const Buffer& buffer) const {
    Expr offset(0);
    for (size_t i = 0; i < graph_[id].axes.size(); ++i)
      offset = offset + Expr::index(static_cast<int>(graph_[id].axes[i].index)) * buffer.strides[i + 1];
    return offset;
  }
  Expr in_piece_offset(TileValueId id) const {
    const Buffer buffer = parts_buffer(id, Buffer::Role::Output);
    Expr offset = Expr::index(0) * buffer.strides[0];
    for (size_t i = 0; i < graph_[id].axes.size(); ++i) {
      offset = offset + Expr::index(static_cast<int>(graph_[id].axes[i].index) + 1) * buffer.strides[i + 1];
    }
    return offset;
  }

  bool is_position(TileValueId id) const {
    const auto* reduce = std::get_if<TileReduce>(&graph_[id].op);
    return reduce != nullptr && info(reduce->kind).is_index;
  }
  bool is_reduction(TileValueId id) const {
    return std::find(structure_.reductions.begin(), structure_.reductions.end(), id) !=
           structure_.reductions.end();
  }
  bool varies(TileValueId id) const {
    const auto& axes = graph_[id].axes;
    return std::find(axes.begin(), axes.end(), axis_) != axes.end();
  }
  // What these need, in order, themselves included; nothing behind reductions where it stops at them.
  std::vector<TileValueId> wanted(const std::vector<TileValueId>& roots, bool stops) const {
    std::vector<bool> is_wanted(graph_.values.size());
    for (const TileValueId root : roots) is_wanted[root.index] = true;
    for (size_t v = graph_.values.size(); v-- > 0;) {
      if (!is_wanted[v] || (stops && is_reduction({static_cast<uint32_t>(v)}))) continue;
      for (const TileValueId operand : operands_of(graph_.values[v])) is_wanted[operand.index] = true;
    }
    std::vector<TileValueId> ids;
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      if (is_wanted[v]) ids.push_back({v});
    }
    return ids;
  }

  const TileGraph& graph_;
  const Structure& structure_;
  AxisId axis_;
  Expr length_;
  int parts_ = 1;
  bool is_even_ = false;
  std::vector<Expr> piece_extents_;
};

}  // namespace

std::optional<std::vector<TileGraph>> split_reduction(const TileGraph& graph, int parts) {
  const Result<Structure> structure = analyze_structure(graph);
  if (!structure || structure->reduced.size() != 1 || structure->passes != 1) return std::nullopt;
  const bool stores = std::any_of(graph.stores.begin(), graph.stores.end(),
                                  [&](const TileStore& store) { return structure->stores_in_pass(store); });
  if (stores) return std::nullopt;
  return Split(graph, *structure, parts).run();
}

}  // namespace tilefuse
