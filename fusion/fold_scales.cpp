#include "fusion/fold_scales.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <optional>

#include "fusion/gpu_region.h"
#include "fusion/value_appender.h"

namespace tilefuse {
namespace {

// Products of constants stay far away from the ends of f32.
constexpr double kLeastScale = 1e-18, kMostScale = 1e18;
// Of anchors that are multiplied with log2 e: rounding moves them by less than 1.
constexpr double kMostAnchor = 1 << 23;

struct Scaled {  // value * scale
  TileValueId value;
  double scale = 1;
};

class ScaleFolder {
 public:
  ScaleFolder(const TileGraph& graph, size_t own, AxisId rows, AxisId walked)
      : graph_(graph), own_(own), rows_(rows), walked_(walked), values_(part_of(graph, own)) {}

  FoldedScales run(const ExpandedPass& pass) {
    for (auto v = static_cast<uint32_t>(own_); v < graph_.values.size(); ++v) now_[{v}] = write({v});
    FoldedScales folded{.graph = {}, .pass = pass};
    for (CarriedValue& carried : folded.pass.carried)
      carried = {now(carried.carry), now(carried.next), std::nullopt};
    for (auto& group : folded.pass.groups) {
      for (TileValueId& id : group) id = reductions_.at(id);
    }
    for (auto& [reduction, result] : folded.pass.results) result = now(result);
    folded.graph = values_.take();
    return folded;
  }

 private:
  static TileGraph part_of(TileGraph graph, size_t count) {
    graph.values.resize(count);
    return graph;
  }

  const TileGraph& written() const { return values_.graph(); }
  bool varies(TileValueId id, AxisId axis) const { return varies_along(written(), id, axis); }
  bool is_element(TileValueId id) const {
    return is_float(written()[id].dtype) && varies(id, rows_) && varies(id, walked_);
  }
  std::optional<double> constant(TileValueId id) const {
    const auto* found = std::get_if<TileConstant>(&written()[id].op);
    if (found == nullptr) return std::nullopt;
    return to_double(found->value);
  }
  static bool is_scale(double scale) { return scale >= kLeastScale && scale <= kMostScale; }
  TileValueId number(double value) { return values_.constant(value, DType::F32); }

  // In the written graph, of a value of the old one.
  TileValueId now(TileValueId old) {
    const auto found = now_.find(old);
    if (found != now_.end()) return found->second;
    return is_element(old) ? whole(old) : old;
  }

  // ---- elements of the region
  // A value as a product with a positive number.
  Scaled split(TileValueId id) {
    const auto found = split_.find(id);
    if (found != split_.end()) return found->second;
    Scaled result{id};
    if (std::holds_alternative<TileMap>(written()[id].op) && is_element(id)) result = split_map(id);
    split_[id] = result;
    return result;
  }

  Scaled split_map(TileValueId id) {
    const TileValue value = written()[id];
    const MapFn fn = std::get<TileMap>(value.op).fn;
    const std::vector<TileValueId>& of = value.operands;
    const bool widens =
        fn == MapFn::Cast && !is_narrow_float(value.dtype) && is_float(written()[of[0]].dtype);
    if (fn == MapFn::Copy || widens) {
      const Scaled inner = split(of[0]);
      return inner.value == of[0] ? Scaled{id} : inner;
    }
    if (fn == MapFn::Mul || fn == MapFn::Div) {
      const bool is_first = fn == MapFn::Mul && constant(of[0]).has_value();
      const auto factor = constant(of[is_first ? 0 : 1]);
      if (factor && is_scale(*factor)) {
        const Scaled inner = split(of[is_first ? 1 : 0]);
        const double scale = inner.scale * (fn == MapFn::Mul ? *factor : 1 / *factor);
        if (is_scale(scale)) return {inner.value, scale};
      }
    }
    if (fn == MapFn::Where) {
      if (const auto scaled = split_choice(value)) return *scaled;
    }
    return {rebuilt(id)};
  }

  // One of the two is the same in any scale.
  std::optional<Scaled> split_choice(const TileValue& where) {
    for (const size_t place : {1, 2}) {
      const auto other = constant(where.operands[3 - place]);
      if (!other || !(*other == 0 || std::isinf(*other))) continue;
      const Scaled inner = split(where.operands[place]);
      if (inner.scale == 1) return std::nullopt;
      std::vector<TileValueId> operands = where.operands;
      operands[place] = inner.value;
      return Scaled{values_.add(where.op, std::move(operands), where.dtype, where.axes), inner.scale};
    }
    return std::nullopt;
  }

  TileValueId rebuilt(TileValueId id) {
    const TileValue value = written()[id];
    std::vector<TileValueId> operands;
    operands.reserve(value.operands.size());
    for (const TileValueId operand : value.operands)
      operands.push_back(is_element(operand) ? whole(operand) : operand);
    if (operands == value.operands) return id;
    return values_.add(value.op, std::move(operands), value.dtype, value.axes, value.name);
  }

  TileValueId whole(TileValueId id) {
    const auto found = whole_.find(id);
    if (found != whole_.end()) return found->second;
    const Scaled scaled = split(id);
    TileValueId result = scaled.value;
    if (scaled.scale != 1)
      result = is_product(id, scaled) ? id : times(scaled.value, scaled.scale, written()[id].name);
    whole_[id] = result;
    return result;
  }
  bool is_product(TileValueId id, const Scaled& scaled) const {
    const TileValue& value = written()[id];
    const auto* map = std::get_if<TileMap>(&value.op);
    return map != nullptr && map->fn == MapFn::Mul &&
           std::find(value.operands.begin(), value.operands.end(), scaled.value) != value.operands.end();
  }
  TileValueId times(TileValueId value, double scale, const std::string& name = {}) {
    return values_.map(MapFn::Mul, {value, number(scale)}, name);
  }

  // ---- values of the walk
  TileValueId write(TileValueId old) {
    TileValue value = graph_[old];
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    const auto* map = std::get_if<TileMap>(&value.op);
    if (reduce != nullptr && (reduce->kind == ReduceKind::Max || reduce->kind == ReduceKind::Min))
      return write_extreme(old, value);
    if (map != nullptr && map->fn == MapFn::ExpNonpositive) {
      if (const auto found = write_exponential(value)) return *found;
    }
    for (TileValueId& operand : value.operands) operand = now(operand);
    const TileValueId id = values_.add(value.op, value.operands, value.dtype, value.axes, value.name);
    if (reduce != nullptr) reductions_[old] = id;
    return id;
  }

  TileValueId write_extreme(TileValueId old, const TileValue& value) {
    const TileValueId element = now(value.operands[0]);
    const Scaled scaled = is_element(element) ? split(element) : Scaled{element};
    const TileValueId id = values_.add(value.op, {scaled.value}, value.dtype, value.axes, value.name);
    reductions_[old] = id;
    return scaled.scale == 1 ? id : times(id, scaled.scale);
  }

  // Of the sum of an element and what is the same for a row.
  std::optional<TileValueId> write_exponential(const TileValue& value) {
    const TileValue sum = graph_[value.operands[0]];
    const auto* map = std::get_if<TileMap>(&sum.op);
    if (map == nullptr || map->fn != MapFn::Add || sum.dtype != DType::F32) return std::nullopt;
    TileValueId element = now(sum.operands[0]), anchor = now(sum.operands[1]);
    if (varies(anchor, walked_)) std::swap(element, anchor);
    if (varies(anchor, walked_) || !is_element(element)) return std::nullopt;
    Scaled scaled = split(element);
    if (!is_moderate(scaled.value)) scaled = {element};
    const TileValueId is_near =
        values_.map(MapFn::Lt, {values_.map(MapFn::Abs, {anchor}), number(kMostAnchor)});
    const TileValueId base = values_.map(MapFn::Where, {is_near, number(std::numbers::log2e), number(1)});
    const TileValueId scale =
        scaled.scale == 1 ? base
                          : values_.map(MapFn::Where, {is_near, number(std::numbers::log2e * scaled.scale),
                                                       number(scaled.scale)});
    const TileValueId exponent =
        values_.map(MapFn::Fma, {scaled.value, scale, values_.map(MapFn::Mul, {anchor, base})});
    return values_.add(TileMap{MapFn::Exp2Nonpositive}, {exponent}, value.dtype, written()[exponent].axes);
  }

  // Sums of products, and what is bounded, are not filled with numbers at the end of f32; a scale that is no
  // power of two would be rounded at those.
  bool is_moderate(TileValueId id) const {
    const TileValue& value = written()[id];
    if (std::holds_alternative<TileReduce>(value.op)) return true;
    const auto* map = std::get_if<TileMap>(&value.op);
    if (map == nullptr) return false;
    if (map->fn == MapFn::Copy || map->fn == MapFn::Cast) return is_moderate(value.operands[0]);
    if (map->fn == MapFn::Tanh || map->fn == MapFn::Sigmoid || map->fn == MapFn::Erf) return true;
    if (map->fn != MapFn::Where) return false;
    const auto is_choice = [&](TileValueId choice) {
      const auto fixed = constant(choice);
      return fixed ? *fixed == 0 || std::isinf(*fixed) : is_moderate(choice);
    };
    return is_choice(value.operands[1]) && is_choice(value.operands[2]);
  }

  const TileGraph& graph_;
  size_t own_;
  AxisId rows_, walked_;
  ValueAppender values_;
  std::map<TileValueId, TileValueId> now_, reductions_;  // by ids of the old graph
  std::map<TileValueId, Scaled> split_;                  // by ids of the written one
  std::map<TileValueId, TileValueId> whole_;
};

}  // namespace

FoldedScales fold_scales(const TileGraph& graph, const ExpandedPass& pass, size_t own, AxisId rows,
                         AxisId walked) {
  return ScaleFolder(graph, own, rows, walked).run(pass);
}

}  // namespace tilefuse
