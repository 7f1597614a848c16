#include <algorithm>
#include <array>
#include <cctype>

#include "codegen/expr_code.h"
#include "codegen/gpu_values.h"
#include "codegen/name_values.h"
#include "codegen/spell_map.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

std::string key_of(TileValueId id) { return "%" + std::to_string(id.index); }

std::vector<AxisId> axes_of(const Expr& e) {
  std::vector<AxisId> axes;
  for (const int index : indices_of(e)) axes.push_back({static_cast<uint32_t>(index)});
  return axes;
}

// Shorter forms of functions of f32 (cuda_division.h).
struct ShortForm {
  MapFn fn;
  WantedAccuracy wanted;
  const char* name;
};
constexpr std::array kShortForms = {
    ShortForm{MapFn::Div, WantedAccuracy::Narrow, "quotient_narrow"},
    ShortForm{MapFn::Exp, WantedAccuracy::Narrow, "exp_narrow"},
    ShortForm{MapFn::ExpNonpositive, WantedAccuracy::Narrow, "exp_narrow"},
    ShortForm{MapFn::Sigmoid, WantedAccuracy::Narrow, "sigmoid_narrow"},
    ShortForm{MapFn::Tanh, WantedAccuracy::Absolute, "tanh_absolute"},
    ShortForm{MapFn::Erf, WantedAccuracy::Absolute, "erf_absolute"},
};

const char* short_form(MapFn fn, WantedAccuracy wanted) {
  const auto found = std::find_if(kShortForms.begin(), kShortForms.end(), [&](const ShortForm& form) {
    return form.fn == fn && form.wanted == wanted;
  });
  return found == kShortForms.end() ? nullptr : found->name;
}

}  // namespace

Code divided(Code a, int64_t by) {
  return by == 1 ? a : operate(CodeOperator::Div, {std::move(a), integer(by)});
}
Code rest_of(Code a, int64_t by) {
  return by == 1 ? integer(0) : operate(CodeOperator::Mod, {std::move(a), integer(by)});
}
Code times(Code a, int64_t by) {
  if (const auto number = constant_of(a)) return integer(*number * by);
  return by == 1 ? a : operate(CodeOperator::Mul, {std::move(a), integer(by)});
}

GpuValues::GpuValues(const TileGraph& graph, const GpuAccesses& accesses, GpuLanes lanes, bool fits_int,
                     int threads)
    : graph_(graph),
      accesses_(&accesses),
      lanes_(lanes),
      kernel_(new_kernel(to_function_name(graph.name + "_kernel"), lanes.vector)),
      scopes_(kernel_),
      index_type_{fits_int ? DType::I32 : DType::I64, CodeShape::Scalar},
      extents_(axis_extents(graph)),
      symbols_(symbols_in(graph)),
      wanted_(wanted_accuracies(graph)) {
  kernel_.threads = threads;
}

std::string GpuValues::name_of(TileValueId id) const {
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

CodeType GpuValues::type_of(TileValueId id, bool is_vector) const {
  return {info(graph_[id].dtype).compute, is_vector ? CodeShape::Vector : CodeShape::Scalar};
}

int GpuValues::depth_of(const std::vector<AxisId>& axes) const {
  int depth = 0;
  for (const AxisId axis : axes) {
    if (axis == lanes_.inner) return scopes_.depth();
    if (const auto found = depths_.find(axis); found != depths_.end()) depth = std::max(depth, found->second);
  }
  return depth;
}

Computed GpuValues::value(TileValueId id) {
  const std::string key = key_of(id);
  if (const Computed* known = scopes_.find(key)) return *known;
  if (const std::optional<Computed> there = held(id)) return scopes_.remember(key, *there);
  Computed computed = compute(id);
  if (std::holds_alternative<Literal>(computed.code.kind)) return computed;
  computed.depth = depth_of(graph_[id].axes);
  computed.code =
      scopes_.let(computed.depth, name_of(id), type_of(id, computed.is_vector), std::move(computed.code));
  hold(id, computed);
  return scopes_.remember(key, computed);
}

Computed GpuValues::compute(TileValueId id) {
  const TileValue& v = graph_[id];
  return match(
      v.op, [&](const TileLoad& op) { return load(id, op); },
      [&](const TileConstant& op) { return Computed{literal(op.value, info(v.dtype).compute), 0, false}; },
      [&](const TileIndex& op) {
        const Code code = index_code(op.expr);
        const auto number = constant_of(code);
        return Computed{number ? literal(*number, DType::I64) : code, 0, false};
      },
      [&](const TilePredicate& op) { return predicate(op); },
      [&](const TileMap& op) { return compute_map(id, op.fn); },
      [&](const auto&) -> Computed { TILEFUSE_CHECK(false, "%" + v.name + " is wanted before its pass"); });
}

Computed GpuValues::splat(TileValueId id, const Computed& scalar) {
  Computed result{call("splat", {scalar.code}, {info(graph_[id].dtype).compute}), scalar.depth, true};
  if (std::holds_alternative<Literal>(scalar.code.kind)) return result;
  const std::string key = key_of(id) + " splat";
  if (const Computed* known = scopes_.find(key)) return *known;
  result.code = scopes_.let(result.depth, name_of(id) + "_lanes", type_of(id, true), std::move(result.code));
  return scopes_.remember(key, std::move(result));
}

Computed GpuValues::compute_where(TileValueId id) {
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

Computed GpuValues::compute_map(TileValueId id, MapFn fn) {
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
  // The compiler knows the reciprocal of a number.
  const bool is_by_number =
      fn == MapFn::Div && std::holds_alternative<TileConstant>(graph_[v.operands[1]].op);
  const bool may_be_short = info(v.dtype).compute == DType::F32 && (is_vector || !is_by_number);
  const char* quick = may_be_short ? short_form(fn, wanted_[id.index]) : nullptr;
  if (quick == nullptr) return {spell_map(fn, spelled, v.dtype), 0, is_vector};
  std::vector<Code> codes;
  codes.reserve(spelled.size());
  for (const MapOperand& operand : spelled) codes.push_back(operand.code);
  return {call(quick, std::move(codes)), 0, is_vector};
}

std::vector<Expr> GpuValues::open_guards(const std::vector<Expr>& guard) const {
  std::vector<Expr> open;
  std::copy_if(guard.begin(), guard.end(), std::back_inserter(open),
               [&](const Expr& e) { return !proves_nonnegative(e, extents_); });
  return open;
}

Code GpuValues::condition(const std::vector<Expr>& guards) {
  return none_negative(guards, [this](const Expr& e) { return index_code(e); });
}

Computed GpuValues::predicate(const TilePredicate& predicate) {
  const std::vector<Expr> guards = open_guards(predicate.guard);
  if (guards.empty()) return {literal(true, DType::Bool), 0, false};
  return {condition(guards), 0, false};
}

// The address of an element: what does not vary along the row becomes a pointer with a name.
Code GpuValues::pointer_at(BufferId buffer, const Expr& offset) {
  Expr outer, inner;
  for (const Expr::Term& term : offset.terms()) {
    const Expr whole = make_expr({term});
    const bool stays = term.factors.empty() || uses_index(whole, static_cast<int>(lanes_.inner.index));
    (stays ? inner : outer) = (stays ? inner : outer) + whole;
  }
  Code pointer = pointers_[buffer.index];
  if (!outer.is_constant(0)) {
    const std::string key = "pointer " + std::to_string(buffer.index) + " " + to_text(outer);
    const Computed* known = scopes_.find(key);
    if (known == nullptr) {
      const CodeType type = kernel_[std::get<Reference>(pointer.kind).symbol].type;
      const int depth = depth_of(axes_of(outer));
      const Code row = add(pointer, index_code(outer));
      known =
          &scopes_.remember(key, {scopes_.let(depth, graph_[buffer].name + "_row", type, row), depth, false});
    }
    pointer = known->code;
  }
  return add(pointer, index_code(inner));
}

// Stops the kernel where the index is outside its extent.
Code GpuValues::checked_index(const IndexTerm& term) {
  const Code index = value(term.value).code;
  const Code extent = index_code(term.extent);
  const auto number = constant_of(extent);
  const Code limit = number ? literal(*number, DType::I64) : extent;
  return call(term.wrap ? "wrapped_index" : "checked_index", {index, limit});
}

Computed GpuValues::load(TileValueId id, const TileLoad& load) {
  const std::vector<Expr> guards = open_guards(load.guard);
  const bool is_vector = lanes_.vector > 1 && accesses_->wide_loads[id.index];
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

void GpuValues::declare_arguments() {
  for (const Buffer& buffer : graph_.buffers) {
    const bool is_output = buffer.role == Buffer::Role::Output;
    const CodeShape shape = is_output ? CodeShape::Pointer : CodeShape::ConstPointer;
    kernel_.arguments.push_back(scopes_.symbol(buffer.name, {buffer.dtype, shape}));
    pointers_.push_back(reference(kernel_.arguments.back()));
  }
  for (const std::string& symbol : symbols_) {
    kernel_.arguments.push_back(scopes_.symbol(symbol, {DType::I64, CodeShape::Scalar}));
    sizes_[symbol] = reference(kernel_.arguments.back());
  }
}

void GpuValues::in_condition(const std::vector<Code>& conditions, const std::function<void()>& body) {
  if (conditions.empty()) return body();
  Code all = conditions.front();
  for (size_t i = 1; i < conditions.size(); ++i) all = operate(CodeOperator::And, {all, conditions[i]});
  scopes_.open();
  body();
  Block block = scopes_.close();
  scopes_.add({If{all, std::move(block)}, ""});
}

void GpuValues::emit_store(const TileStore& store) { emit_store(store, value(store.value)); }

void GpuValues::emit_store(const TileStore& store, Computed stored) {
  const auto group_of_store = static_cast<size_t>(&store - graph_.stores.data());
  const bool is_vector = lanes_.vector > 1 && accesses_->wide_stores[group_of_store];
  if (is_vector && !stored.is_vector) stored = splat(store.value, stored);
  const Code pointer = pointer_at(store.buffer, store.offset);
  const int group = static_cast<int>(group_of_store);
  scopes_.add({Effect{call(is_vector ? "store" : "store_one", {pointer, stored.code}), group},
               "%" + graph_[store.value].name});
}

Code GpuValues::column() {
  if (const Computed* known = scopes_.find("column")) return known->code;
  const Code named = scopes_.let(column_depth_, graph_[lanes_.inner].name, index_type_, column_);
  return scopes_.remember("column", {named, column_depth_, false}).code;
}

Code GpuValues::atom_code(const Expr::Atom& atom) {
  using enum Expr::AtomKind;
  if (atom.kind == Symbol) return sizes_.at(atom.symbol);
  if (atom.kind == Index) {
    if (AxisId{static_cast<uint32_t>(atom.index)} == lanes_.inner) return column();
    const auto found = coordinates_.find({static_cast<uint32_t>(atom.index)});
    TILEFUSE_CHECK(found != coordinates_.end(),
                   "no thread has a place along axis " + graph_.axes.at(atom.index).name);
    return found->second;
  }
  const Code first = index_code(atom.args[0]), second = index_code(atom.args[1]);
  if (const auto known = known_atom(atom, first, second)) return *known;
  const auto typed = [&](const Code& code) {
    const auto number = constant_of(code);
    return number ? literal(*number, index_type_.dtype) : code;
  };
  if (atom.kind == Min) return call("min_nan", {typed(first), typed(second)});
  if (atom.kind == Max) return call("max_nan", {typed(first), typed(second)});
  const bool is_plain =
      proves_nonnegative(atom.args[0], extents_) && proves_nonnegative(atom.args[1] - 1, extents_);
  const bool divides = atom.kind == FloorDiv;
  if (is_plain) return operate(divides ? CodeOperator::Div : CodeOperator::Mod, {first, second});
  return call(divides ? "floor_div" : "remainder", {typed(first), typed(second)});
}

Code GpuValues::index_code(const Expr& e) {
  return expr_code(e, [this](const Expr::Atom& atom) { return atom_code(atom); });
}

}  // namespace tilefuse
