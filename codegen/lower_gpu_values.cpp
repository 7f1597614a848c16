// Values of a GPU kernel: what is computed where, under which name.
#include <algorithm>
#include <cctype>

#include "codegen/expr_code.h"
#include "codegen/gpu_lowering.h"
#include "codegen/spell_map.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

std::string key_of(TileValueId id) { return "%" + std::to_string(id.index); }

}  // namespace

std::string GpuLowering::name_of(TileValueId id) const {
  const TileValue& v = graph_[id];
  const auto* load = std::get_if<TileLoad>(&v.op);
  const bool is_number = v.name.empty() || std::isdigit(static_cast<unsigned char>(v.name[0])) != 0;
  if (load != nullptr && (is_number || v.name == graph_[load->buffer].name)) {
    return graph_[load->buffer].name + "_value";  // its buffer has the name itself
  }
  if (!is_number) return v.name;
  return match(
      v.op, [](const TileMap& map) { return std::string(info(map.fn).name); },
      [](const TileReduce& reduce) { return std::string(info(reduce.kind).name); },
      [](const TileIndex&) { return std::string("position"); },
      [](const TilePredicate&) { return std::string("inside"); },
      [](const auto&) { return std::string("value"); });
}

CodeType GpuLowering::type_of(TileValueId id, bool is_vector) const {
  return {info(graph_[id].dtype).compute, is_vector ? CodeShape::Vector : CodeShape::Scalar};
}

bool GpuLowering::is_kept(TileValueId id) const {
  return std::find(schedule_.keep.begin(), schedule_.keep.end(), id) != schedule_.keep.end();
}

// The element of the current step.
Code GpuLowering::kept_code(TileValueId id) {
  auto found = kept_.find(id);
  if (found == kept_.end()) {
    const bool is_vector = schedule_.vector > 1;
    const auto* load = std::get_if<TileLoad>(&graph_[id].op);
    const std::string name = load == nullptr ? name_of(id) : graph_[load->buffer].name;
    found = kept_.emplace(id, scopes_.symbol(name + "_kept", type_of(id, is_vector))).first;
    scopes_.add_at(0, {Var{.symbol = found->second, .initial = std::nullopt, .count = schedule_.steps}, ""});
  }
  const Code variable = reference(found->second);
  return schedule_.steps > 1 ? subscript(variable, *step_) : variable;
}

Computed GpuLowering::value(TileValueId id) {
  const std::string key = key_of(id);
  if (const Computed* known = scopes_.find(key)) return *known;
  const bool keeps = is_kept(id);
  if (keeps && kept_in_pass_.contains(id) && kept_in_pass_.at(id) < pass_) {
    return scopes_.remember(key, {kept_code(id), scopes_.depth(), schedule_.vector > 1});
  }
  Computed computed = compute(id);
  if (std::holds_alternative<Literal>(computed.code.kind)) return computed;
  computed.depth = depth_of(id);
  computed.code =
      scopes_.let(computed.depth, name_of(id), type_of(id, computed.is_vector), std::move(computed.code));
  if (keeps && computed.depth > 0) {
    if (schedule_.vector > 1 && !computed.is_vector) computed = splat(id, computed);
    kept_in_pass_.emplace(id, pass_);
    const Code kept = kept_code(id);
    scopes_.add({Assign{kept, std::nullopt, computed.code}, ""});
    computed.code = kept;
  }
  return scopes_.remember(key, computed);
}

Computed GpuLowering::compute(TileValueId id) {
  const TileValue& v = graph_[id];
  return match(
      v.op, [&](const TileLoad& op) { return load(id, op); },
      [&](const TileConstant& op) { return Computed{literal(op.value, info(v.dtype).compute), 0, false}; },
      [&](const TileIndex& op) {
        const Code code = index_code(op.expr);
        const auto number = constant_of(code);
        return Computed{number ? literal(*number, DType::I64) : code, 0, false};
      },
      [&](const TilePredicate& op) { return predicate(id, op); },
      [&](const TileMap& op) { return compute_map(id, op.fn); },
      [&](const auto&) -> Computed { TILEFUSE_CHECK(false, "%" + v.name + " is wanted before its pass"); });
}

Computed GpuLowering::splat(TileValueId id, const Computed& scalar) {
  Computed result{call("splat", {scalar.code}, {info(graph_[id].dtype).compute}), scalar.depth, true};
  if (std::holds_alternative<Literal>(scalar.code.kind)) return result;
  const std::string key = key_of(id) + " splat";
  if (const Computed* known = scopes_.find(key)) return *known;
  result.code = scopes_.let(result.depth, name_of(id) + "_lanes", type_of(id, true), std::move(result.code));
  return scopes_.remember(key, std::move(result));
}

Computed GpuLowering::compute_where(TileValueId id) {
  const std::vector<TileValueId>& operands = graph_[id].operands;
  std::vector<Computed> parts;
  parts.reserve(operands.size());
  for (const TileValueId operand : operands) parts.push_back(value(operand));
  const bool is_vector =
      std::any_of(parts.begin(), parts.end(), [](const Computed& c) { return c.is_vector; });
  std::vector<MapOperand> spelled;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_even_condition = i == 0 && !parts[0].is_vector;
    if (is_vector && !parts[i].is_vector && !is_even_condition) parts[i] = splat(operands[i], parts[i]);
    spelled.push_back({parts[i].code, graph_[operands[i]].dtype, false});
  }
  if (!is_vector || !parts[0].is_vector)
    return {spell_map(MapFn::Where, spelled, graph_[id].dtype), 0, is_vector};
  return {call("select", {parts[0].code, parts[1].code, parts[2].code}), 0, true};
}

Computed GpuLowering::compute_map(TileValueId id, MapFn fn) {
  if (fn == MapFn::Where) return compute_where(id);
  const TileValue& v = graph_[id];
  std::vector<Computed> operands;
  bool is_vector = false;
  for (const TileValueId operand : v.operands) {
    operands.push_back(value(operand));
    is_vector |= operands.back().is_vector;
  }
  std::vector<MapOperand> spelled;
  for (size_t i = 0; i < operands.size(); ++i) {
    const DType dtype = graph_[v.operands[i]].dtype;
    const bool splats = is_vector && !operands[i].is_vector && !takes_mixed_shapes(fn, dtype);
    if (splats) operands[i] = splat(v.operands[i], operands[i]);
    spelled.push_back({operands[i].code, dtype, operands[i].is_vector});
  }
  return {spell_map(fn, spelled, v.dtype), 0, is_vector};
}

std::vector<Expr> GpuLowering::open_guards(const std::vector<Expr>& guard) const {
  std::vector<Expr> open;
  std::copy_if(guard.begin(), guard.end(), std::back_inserter(open),
               [&](const Expr& e) { return !proves_nonnegative(e, extents_); });
  return open;
}

Code GpuLowering::condition(const std::vector<Expr>& guards) {
  return none_negative(guards, [this](const Expr& e) { return index_code(e); });
}

Computed GpuLowering::predicate(TileValueId, const TilePredicate& predicate) {
  const std::vector<Expr> guards = open_guards(predicate.guard);
  if (guards.empty()) return {literal(true, DType::Bool), 0, false};
  return {condition(guards), 0, false};
}

// The address of an element: what does not vary along the row becomes a pointer with a name.
Code GpuLowering::pointer_at(BufferId buffer, const Expr& offset) {
  Expr outer, inner;
  for (const Expr::Term& term : offset.terms()) {
    const Expr whole = make_expr({term});
    const bool stays = term.factors.empty() || uses_index(whole, static_cast<int>(region_.inner.index));
    (stays ? inner : outer) = (stays ? inner : outer) + whole;
  }
  Code pointer = pointers_[buffer.index];
  if (!outer.is_constant(0)) {
    const std::string key = "pointer " + std::to_string(buffer.index) + " " + to_text(outer);
    const Computed* known = scopes_.find(key);
    if (known == nullptr) {
      const CodeType type = kernel_[std::get<Reference>(pointer.kind).symbol].type;
      const Code named = let(graph_[buffer].name + "_row", type, add(pointer, index_code(outer)));
      known = &scopes_.remember(key, {named, 0, false});
    }
    pointer = known->code;
  }
  return add(pointer, index_code(inner));
}

// Stops the kernel where the index is outside its extent.
Code GpuLowering::checked_index(const IndexTerm& term) {
  const Code index = value(term.value).code;
  const Code extent = index_code(term.extent);
  const auto number = constant_of(extent);
  const Code limit = number ? literal(*number, DType::I64) : extent;
  return call(term.wrap ? "wrapped_index" : "checked_index", {index, limit});
}

Computed GpuLowering::load(TileValueId id, const TileLoad& load) {
  if (is_staged(id)) return load_staged(id);
  const std::vector<Expr> guards = open_guards(load.guard);
  const bool is_vector = schedule_.vector > 1 && region_.wide_loads[id.index];
  Code pointer = pointer_at(load.buffer, load.offset);
  for (const IndexTerm& term : load.gathered) {
    const Code stride = index_code(term.stride);
    const Code at = checked_index(term);
    const bool is_one = term.stride.is_constant(1);
    pointer = add(std::move(pointer), is_one ? at : operate(CodeOperator::Mul, {at, stride}));
  }
  Code code = call(is_vector ? "load" : "load_one", {std::move(pointer)});
  if (!guards.empty()) {
    const DType compute = info(graph_[id].dtype).compute;
    Code fill = literal(load.fill, compute);
    if (is_vector) fill = call("splat", {fill}, {compute});
    code = operate(CodeOperator::Choose, {condition(guards), code, fill});
  }
  return {code, 0, is_vector};
}

Code GpuLowering::column() {
  if (const Computed* known = scopes_.find("column")) return known->code;
  const Code named = scopes_.let(column_depth_, graph_[region_.inner].name, index_type_, column_);
  return scopes_.remember("column", {named, column_depth_, false}).code;
}

Code GpuLowering::atom_code(const Expr::Atom& atom) {
  using enum Expr::AtomKind;
  if (atom.kind == Symbol) return sizes_.at(atom.symbol);
  if (atom.kind == Index) {
    if (AxisId{static_cast<uint32_t>(atom.index)} == region_.inner) return column();
    const auto found = coordinates_.find({static_cast<uint32_t>(atom.index)});
    TILEFUSE_CHECK(found != coordinates_.end(),
                   "no thread has a place along axis " + graph_.axes.at(atom.index).name);
    return found->second;
  }
  const auto typed = [&](const Expr& e) {
    const Code code = index_code(e);
    const auto number = constant_of(code);
    return number ? literal(*number, index_type_.dtype) : code;
  };
  if (atom.kind == Min) return call("min_nan", {typed(atom.args[0]), typed(atom.args[1])});
  if (atom.kind == Max) return call("max_nan", {typed(atom.args[0]), typed(atom.args[1])});
  const bool is_plain =
      proves_nonnegative(atom.args[0], extents_) && proves_nonnegative(atom.args[1] - 1, extents_);
  const bool divides = atom.kind == FloorDiv;
  const std::vector<Code> operands = {index_code(atom.args[0]), index_code(atom.args[1])};
  if (is_plain) return operate(divides ? CodeOperator::Div : CodeOperator::Mod, operands);
  return call(divides ? "floor_div" : "remainder", {typed(atom.args[0]), typed(atom.args[1])});
}

Code GpuLowering::index_code(const Expr& e) {
  return expr_code(e, [this](const Expr::Atom& atom) { return atom_code(atom); });
}

}  // namespace tilefuse
