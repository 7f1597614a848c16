// Values: what is computed where, under which name.
#include <algorithm>
#include <cctype>

#include "codegen/launch_lowering.h"
#include "codegen/spell_map.h"
#include "core/match.h"
#include "core/result.h"
#include "fusion/stored_copy.h"

namespace tilefuse {

bool LaunchLowering::varies_along(TileValueId id, const std::optional<AxisId>& axis) const {
  const std::vector<AxisId>& axes = graph_[id].axes;
  return axis && std::find(axes.begin(), axes.end(), *axis) != axes.end();
}

std::string LaunchLowering::value_key(TileValueId id) const {
  std::string key = "%" + std::to_string(id.index);
  if (varies_along(id, schedule_.lane_axis)) key += " lane " + std::to_string(copies_.lane);
  if (varies_along(id, facts_.row_axis)) key += " row " + std::to_string(copies_.row_in_column());
  if (varies_along(id, facts_.column_axis)) key += " column " + std::to_string(copies_.column());
  if (copies_.neighbour > 0 && varies_along(id, neighbour_axis_)) key += " next";
  return key;
}

std::string LaunchLowering::copy_suffix(TileValueId id) const {
  std::string suffix;
  const int columns = copies_.rows / copies_.column_rows;
  if (columns > 1 && varies_along(id, facts_.column_axis)) suffix += "_" + std::to_string(copies_.column());
  if (copies_.column_rows > 1 && varies_along(id, facts_.row_axis)) {
    suffix += "_" + std::to_string(copies_.row_in_column());
  }
  if (copies_.lanes > 1 && varies_along(id, schedule_.lane_axis))
    suffix += "_" + std::to_string(copies_.lane);
  if (copies_.neighbour > 0 && varies_along(id, neighbour_axis_)) suffix += "_next";
  return suffix;
}

// The name the graph gave, or, where it gave a number, what the value is.
std::string LaunchLowering::name_of(TileValueId id) const {
  const TileValue& v = graph_[id];
  if (!v.name.empty() && std::isdigit(static_cast<unsigned char>(v.name[0])) == 0) return v.name;
  return match(
      v.op, [&](const TileLoad& load) { return graph_[load.buffer].name; },
      [](const TileMap& map) { return std::string(info(map.fn).name); },
      [](const TileReduce& reduce) { return std::string(info(reduce.kind).name); },
      [](const TileScan& scan) { return "running_" + std::string(info(scan.kind).name); },
      [](const TileConstant&) { return std::string("constant"); },
      [](const TileCarry&) { return std::string("carry"); },
      [](const TileIndex&) { return std::string("position"); },
      [](const TilePredicate&) { return std::string("inside"); });
}

CodeType LaunchLowering::type_of(TileValueId id, bool is_vector) const {
  return {info(graph_[id].dtype).compute, is_vector ? CodeShape::Vector : CodeShape::Scalar};
}

Computed LaunchLowering::value(TileValueId id) {
  const std::string key = value_key(id);
  if (const Computed* known = scopes_.find(key)) return *known;
  const bool keeps = is_kept(id);
  Computed computed;
  if (keeps && kept_in_pass_.contains(id) && kept_in_pass_.at(id) < pass_) {
    computed = kept_value(id);
  } else {
    computed = compute(id);
  }
  if (std::holds_alternative<Literal>(computed.code.kind)) {
    if (!keeps) return computed;
    computed.depth = scopes_.depth();  // other pieces of a loop, which settle less, read it where it is kept
  } else {
    computed.depth = std::max(computed.depth, base_depth_);  // what is made of literals, too, is this nest's
    computed.code = scopes_.let(computed.depth, name_of(id) + copy_suffix(id),
                                type_of(id, computed.is_vector), std::move(computed.code));
  }
  if (keeps && kept_in_pass_.emplace(id, pass_).first->second == pass_ && is_kept_in_scratch(id)) {
    to_keep_.push_back({id, copies_, computed});
  }
  return scopes_.remember(key, std::move(computed));
}

Computed LaunchLowering::compute(TileValueId id) {
  const TileValue& v = graph_[id];
  return match(
      v.op, [&](const TileLoad& op) { return load(id, op); },
      [&](const TileConstant& op) { return Computed{literal(op.value, info(v.dtype).compute), 0, false}; },
      [&](const TileIndex& op) {
        const Expr e = at_element(op.expr);
        const bool is_vector = uses_lanes(e);
        const Code code = is_vector ? index_vector(e) : index_code(e);
        const auto number = constant_of(code);
        return Computed{number ? literal(*number, DType::I64) : code, depth_of(v.axes), is_vector};
      },
      [&](const TilePredicate& op) { return predicate(id, op); },
      [&](const TileMap& op) { return compute_map(id, op); },
      [&](const TileReduce&) -> Computed {
        const auto row = total_rows_.find(id);
        TILEFUSE_CHECK(row != total_rows_.end(), "the reduction %" + v.name + " is wanted before its pass");
        Computed total = load_scratch(row->second, scopes_.depth());
        const DType compute = info(v.dtype).compute;
        if (row->second.dtype != compute) total.code = call("convert", {total.code}, {compute});
        return total;
      },
      [&](const TileScan& op) { return scan(id, op); },
      [&](const TileCarry&) -> Computed {
        TILEFUSE_CHECK(false, "%" + v.name + " is wanted outside its walk");
      });
}

Computed LaunchLowering::predicate(TileValueId id, const TilePredicate& predicate) {
  const int depth = depth_of(graph_[id].axes);
  if (const auto settled = settled_.find(id); settled != settled_.end()) {
    return {literal(settled->second, DType::Bool), depth, false};
  }
  const auto guards = open_guards(predicate.guard);
  if (!guards) return {literal(false, DType::Bool), depth, false};
  if (guards->empty()) return {literal(true, DType::Bool), depth, false};
  std::vector<Expr> uneven, even;
  for (const Expr& e : *guards) (uses_lanes(e) ? uneven : even).push_back(e);
  if (uneven.empty()) return {condition(even), depth, false};
  Code mask = mask_of(uneven, false);
  if (!even.empty()) mask = call("mask_and", {call("splat", {condition(even)}, {DType::Bool}), mask});
  return {mask, depth, true};
}

Computed LaunchLowering::splat(TileValueId id, const Computed& scalar) {
  const DType compute = info(graph_[id].dtype).compute;
  Computed result{call("splat", {scalar.code}, {compute}), scalar.depth, true};
  if (std::holds_alternative<Literal>(scalar.code.kind)) return result;
  result.depth = std::max(result.depth, base_depth_);
  const std::string key = value_key(id) + " splat";
  if (const Computed* known = scopes_.find(key)) return *known;
  result.code = scopes_.let(result.depth, name_of(id) + "_lanes" + copy_suffix(id), type_of(id, true),
                            std::move(result.code));
  return scopes_.remember(key, std::move(result));
}

// A condition that the ranges of the loops settle leaves one side; the other is not even loaded.
Computed LaunchLowering::compute_where(TileValueId id) {
  const std::vector<TileValueId>& operands = graph_[id].operands;
  const Computed condition = value(operands[0]);
  if (const auto* settled = std::get_if<Literal>(&condition.code.kind)) {
    Computed chosen = value(operands[to_bool(settled->value) ? 1 : 2]);
    chosen.depth = std::max(chosen.depth, condition.depth);  // where it is settled
    return chosen;
  }
  Computed yes = value(operands[1]), no = value(operands[2]);
  const bool is_vector = condition.is_vector || yes.is_vector || no.is_vector;
  if (is_vector && !yes.is_vector) yes = splat(operands[1], yes);
  if (is_vector && !no.is_vector) no = splat(operands[2], no);
  const DType dtype = graph_[id].dtype;
  const Code code =
      is_vector ? call("select", {condition.code, yes.code, no.code})
                : spell_map(MapFn::Where,
                            {{condition.code, DType::Bool}, {yes.code, dtype}, {no.code, dtype}}, dtype);
  return {code, std::max({condition.depth, yes.depth, no.depth}), is_vector};
}

// Of conditions, some of which are settled: the answer, or the one operand that it depends on.
std::optional<Computed> LaunchLowering::settled_logic(MapFn fn, const std::vector<Computed>& operands) {
  const bool joins = fn == MapFn::And || fn == MapFn::Or;
  if (!joins && fn != MapFn::Not) return std::nullopt;
  const bool decides = fn == MapFn::Or;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto* settled = std::get_if<Literal>(&operands[i].code.kind);
    if (settled == nullptr) continue;
    const bool holds = to_bool(settled->value);
    if (!joins || holds == decides) {
      return Computed{literal(joins ? decides : !holds, DType::Bool), operands[i].depth, false};
    }
    Computed other = operands[1 - i];
    other.depth = std::max(other.depth, operands[i].depth);  // where it is settled
    return other;
  }
  return std::nullopt;
}

Computed LaunchLowering::compute_map(TileValueId id, const TileMap& map) {
  if (map.fn == MapFn::Where) return compute_where(id);
  const TileValue& v = graph_[id];
  std::vector<Computed> operands;
  Computed result;
  for (const TileValueId operand : v.operands) {
    operands.push_back(value(operand));
    result.depth = std::max(result.depth, operands.back().depth);
    result.is_vector |= operands.back().is_vector;
  }
  if (v.dtype == DType::Bool && graph_[v.operands[0]].dtype == DType::Bool) {
    if (const auto settled = settled_logic(map.fn, operands)) return *settled;
  }
  std::vector<MapOperand> spelled;
  for (size_t i = 0; i < operands.size(); ++i) {
    const DType dtype = graph_[v.operands[i]].dtype;
    const bool splats = result.is_vector && !operands[i].is_vector && !takes_mixed_shapes(map.fn, dtype);
    if (splats) operands[i] = splat(v.operands[i], operands[i]);
    spelled.push_back({operands[i].code, dtype, operands[i].is_vector});
  }
  result.code = spell_map(map.fn, spelled, v.dtype);
  return result;
}

bool LaunchLowering::is_kept(TileValueId id) const {
  return std::find(schedule_.keep.begin(), schedule_.keep.end(), id) != schedule_.keep.end() &&
         structure_.varies_along_reduced(graph_, id);
}

bool LaunchLowering::is_kept_in_scratch(TileValueId id) const {
  return is_kept(id) && !read_back(graph_, structure_, schedule_, id);
}

// What an earlier pass left: in memory, where the region stores it anyway, or in scratch.
Computed LaunchLowering::kept_value(TileValueId id) {
  if (const auto store = read_back(graph_, structure_, schedule_, id)) {
    return load(id, TileLoad{graph_.stores[*store].buffer, graph_.stores[*store].offset, {}, {}, {}});
  }
  return load_scratch(kept_row(id), depth_of(graph_[id].axes));
}

void LaunchLowering::store_kept() {
  const Copies copies = copies_;
  for (const KeptValue& kept : to_keep_) {
    copies_ = kept.copies;
    store_scratch(kept_row(kept.id), kept.value);
  }
  to_keep_.clear();
  copies_ = copies;
}

}  // namespace tilefuse
