#include "fusion/formula.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "core/match.h"

namespace tilefuse {
namespace {

bool is_float_or_bool(DType dtype) { return is_float(dtype) || dtype == DType::Bool; }

bool is_looked_through(const TileGraph& graph, const TileValue& value) {
  if (!is_float_or_bool(value.dtype)) return false;
  return std::all_of(value.operands.begin(), value.operands.end(),
                     [&](TileValueId operand) { return is_float_or_bool(graph[operand].dtype); });
}

// No rounding, no change of kind: what a cast to a type as wide as its operand does.
bool is_widening(const TileGraph& graph, const TileValue& cast) {
  const DType from = graph[cast.operands[0]].dtype;
  if (!is_float(cast.dtype) || !is_float(from)) return false;
  return cast.dtype == info(cast.dtype).compute && size_in_bytes(cast.dtype) >= size_in_bytes(from);
}

const char* infix(MapFn fn) {
  switch (fn) {
    case MapFn::Add:
      return " + ";
    case MapFn::Sub:
      return " - ";
    case MapFn::Mul:
      return " * ";
    case MapFn::Div:
      return " / ";
    default:
      return nullptr;
  }
}

}  // namespace

Formulas::Formulas(const TileGraph& graph) {
  for (uint32_t i = 0; i < graph.values.size(); ++i) {
    const FormulaId id = import(graph, {i});
    of_value_.push_back(id);
    if (!table_[id.index].value && table_[id.index].op != FormulaOp::Constant) {
      table_[id.index].value = TileValueId{i};
    }
  }
}

FormulaId Formulas::import(const TileGraph& graph, TileValueId id) {
  const TileValue& value = graph[id];
  if (const TileConstant* literal = std::get_if<TileConstant>(&value.op)) {
    if (is_float(value.dtype)) return constant(to_double(literal->value));
  }
  const TileMap* map = std::get_if<TileMap>(&value.op);
  if (map != nullptr && is_looked_through(graph, value)) {
    std::vector<FormulaId> args;
    args.reserve(value.operands.size());
    for (const TileValueId operand : value.operands) args.push_back(of(operand));
    if (map->fn == MapFn::Copy || (map->fn == MapFn::Cast && is_widening(graph, value))) return args[0];
    if (map->fn == MapFn::Fma) {
      return this->map(MapFn::Add, {this->map(MapFn::Mul, {args[0], args[1]}), args[2]});
    }
    if (map->fn != MapFn::Cast) return this->map(map->fn, std::move(args));
  }
  Formula leaf;
  leaf.op = FormulaOp::Value;
  leaf.number = id.index;
  leaf.axes = value.axes;
  return intern(std::move(leaf));
}

FormulaId Formulas::intern(Formula formula) {
  for (const FormulaId arg : formula.args) {
    const auto& axes = table_[arg.index].axes;
    formula.axes.insert(formula.axes.end(), axes.begin(), axes.end());
  }
  std::sort(formula.axes.begin(), formula.axes.end());
  formula.axes.erase(std::unique(formula.axes.begin(), formula.axes.end()), formula.axes.end());
  Key key{formula.op,     formula.fn,   std::bit_cast<uint64_t>(formula.constant),
          formula.number, formula.args, formula.axes};
  const auto [entry, is_new] = ids_.emplace(std::move(key), FormulaId{static_cast<uint32_t>(table_.size())});
  if (is_new) table_.push_back(std::move(formula));
  return entry->second;
}

FormulaId Formulas::constant(double value) {
  Formula literal;
  literal.constant = value == 0 ? 0 : value;  // one zero
  return intern(std::move(literal));
}

FormulaId Formulas::map(MapFn fn, std::vector<FormulaId> args) {
  Formula formula;
  formula.op = FormulaOp::Map;
  formula.fn = fn;
  formula.args = std::move(args);
  return intern(std::move(formula));
}

FormulaId Formulas::indicator(FormulaId condition) {
  Formula formula;
  formula.op = FormulaOp::Indicator;
  formula.args = {condition};
  return intern(std::move(formula));
}

FormulaId Formulas::state(size_t number, const std::vector<AxisId>& axes) {
  Formula formula;
  formula.op = FormulaOp::State;
  formula.number = static_cast<uint32_t>(number);
  formula.axes = axes;
  return intern(std::move(formula));
}

FormulaId Formulas::anchor(size_t number, const std::vector<AxisId>& axes) {
  Formula formula = table_[state(number, axes).index];
  formula.op = FormulaOp::Anchor;
  return intern(std::move(formula));
}

FormulaId Formulas::factor(size_t number, const std::vector<AxisId>& axes) {
  Formula formula = table_[anchor(number, axes).index];
  formula.op = FormulaOp::Factor;
  return intern(std::move(formula));
}

FormulaId Formulas::delta(size_t number, const std::vector<AxisId>& axes) {
  Formula formula = table_[anchor(number, axes).index];
  formula.op = FormulaOp::Delta;
  return intern(std::move(formula));
}

FormulaId Formulas::add(FormulaId a, FormulaId b) {
  if (is_constant(a, 0)) return b;
  if (is_constant(b, 0)) return a;
  if (is_map(b, MapFn::Neg)) return map(MapFn::Sub, {a, table_[b.index].args[0]});
  return map(MapFn::Add, {a, b});
}

FormulaId Formulas::mul(FormulaId a, FormulaId b) {
  for (const auto& [one, other] : {std::pair{a, b}, std::pair{b, a}}) {
    if (is_constant(one, 1) || is_constant(other, 0)) return other;
    if (is_constant(one, -1)) return map(MapFn::Neg, {other});
  }
  return map(MapFn::Mul, {a, b});
}

FormulaId Formulas::whole_power(FormulaId base, int power) {
  if (power == 0) return constant(1);
  if (power == 1) return base;
  if (power == 2) return map(MapFn::Square, {base});
  return map(MapFn::Pow, {base, constant(power)});
}

bool Formulas::is_map(FormulaId id, MapFn fn) const {
  return table_[id.index].op == FormulaOp::Map && table_[id.index].fn == fn;
}

bool Formulas::is_constant(FormulaId id, double value) const {
  return table_[id.index].op == FormulaOp::Constant && table_[id.index].constant == value;
}

std::string Formulas::to_text(const TileGraph& graph, FormulaId id) const {
  const Formula& formula = table_[id.index];
  if (formula.value) return "%" + graph[*formula.value].name;
  const std::string number = std::to_string(formula.number);
  switch (formula.op) {
    case FormulaOp::Value:
      return "%" + graph[TileValueId{formula.number}].name;
    case FormulaOp::Constant:
      return tilefuse::to_text(Scalar(formula.constant));
    case FormulaOp::State:
      return "s" + number;
    case FormulaOp::Anchor:
      return "a" + number;
    case FormulaOp::Factor:
      return "f" + number;
    case FormulaOp::Delta:
      return "d" + number;
    case FormulaOp::Indicator:
    case FormulaOp::Map:
      break;
  }
  const char* between = formula.op == FormulaOp::Map ? infix(formula.fn) : nullptr;
  std::string text;
  for (const FormulaId arg : formula.args) {
    if (!text.empty()) text += between != nullptr ? between : ", ";
    text += to_text(graph, arg);
  }
  text = "(" + text + ")";
  if (between != nullptr) return text;
  if (formula.op == FormulaOp::Indicator) return "indicator" + text;
  if (formula.fn == MapFn::Neg) return "-" + text.substr(1, text.size() - 2);
  return info(formula.fn).name + text;
}

}  // namespace tilefuse
