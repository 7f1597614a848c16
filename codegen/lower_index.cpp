// Integer expressions over coordinates and sizes as code.
#include <algorithm>
#include <bit>

#include "codegen/expr_code.h"
#include "codegen/launch_lowering.h"
#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};

}  // namespace

Code LaunchLowering::size_symbol(const std::string& name) {
  const std::string key = "size " + name;
  if (const Computed* known = scopes_.find(key)) return known->code;
  const auto found = std::find(facts_.symbols.begin(), facts_.symbols.end(), name);
  TILEFUSE_CHECK(found != facts_.symbols.end(), "the size " + name + " is no argument of the region");
  const int64_t position = found - facts_.symbols.begin();
  const Code code = scopes_.let(0, name, kIndexType, subscript(reference(kSizes), integer(position)));
  return scopes_.remember(key, {code, 0, false}).code;
}

Code LaunchLowering::atom_code(const Expr::Atom& atom) {
  using enum Expr::AtomKind;
  if (atom.kind == Symbol) return size_symbol(atom.symbol);
  if (atom.kind == Index) {
    const auto found = bound_.find({static_cast<uint32_t>(atom.index)});
    TILEFUSE_CHECK(found != bound_.end(), "no loop binds axis " + graph_.axes.at(atom.index).name);
    return found->second.index;
  }
  const Code first = index_code(atom.args[0]), second = index_code(atom.args[1]);
  if (const auto known = known_atom(atom, first, second)) return *known;
  const auto typed = [](const Code& code) {
    const auto value = constant_of(code);
    return value ? literal(*value, DType::I64) : code;
  };
  if (atom.kind == Min) return call("min_nan", {typed(first), typed(second)});
  if (atom.kind == Max) return call("max_nan", {typed(first), typed(second)});
  const bool is_plain = is_nonnegative(atom.args[0]) && is_nonnegative(atom.args[1] - 1);
  if (is_plain)
    return operate(atom.kind == FloorDiv ? CodeOperator::Div : CodeOperator::Mod, {first, second});
  return call(atom.kind == FloorDiv ? "floor_div" : "remainder", {typed(first), typed(second)});
}

Code LaunchLowering::index_code(const Expr& e) {
  return expr_code(e, [this](const Expr::Atom& atom) { return atom_code(atom); });
}

// The same for every lane of the current vector.
Code LaunchLowering::index_vector(const Expr& e) {
  if (!uses_lanes(e)) return call("splat", {index_code(e)}, {DType::I64});
  const int lane_index = static_cast<int>(schedule_.lane_axis->index);
  if (const auto affine = affine_in(e, lane_index)) {
    const Code first = index_code(e);
    const Expr step = affine->coefficient * lane_step();
    if (step.is_constant(1)) return call("iota", {first}, {DType::I64});
    const Code steps = operate(CodeOperator::Mul, {call("iota", {}, {DType::I64}), index_code(step)});
    return constant_of(first) == 0 ? steps : operate(CodeOperator::Add, {steps, first});
  }
  if (const auto pattern = pattern_of_lanes(e)) {
    Code numbers = call("lane_numbers", {}, {}, pattern->lanes);
    if (pattern->first.is_constant(0)) return numbers;
    return operate(CodeOperator::Add, {numbers, index_code(pattern->first)});
  }
  std::optional<Code> sum;
  Expr even;
  for (const Expr::Term& term : e.terms()) {
    const Expr whole = make_expr({term});
    if (!uses_lanes(whole)) {
      even = even + whole;
      continue;
    }
    std::optional<Code> product;
    for (const Expr::Atom& atom : term.factors) {
      product = product ? operate(CodeOperator::Mul, {*product, atom_vector(atom)}) : atom_vector(atom);
    }
    if (term.coefficient != 1) product = operate(CodeOperator::Mul, {*product, integer(term.coefficient)});
    sum = sum ? operate(CodeOperator::Add, {*sum, *product}) : *product;
  }
  return even.is_constant(0) ? *sum : operate(CodeOperator::Add, {*sum, index_code(even)});
}

Code LaunchLowering::atom_vector(const Expr::Atom& atom) {
  using enum Expr::AtomKind;
  if (atom.kind == Index) return index_vector(Expr::index(atom.index));
  if (atom.kind == Symbol) return call("splat", {size_symbol(atom.symbol)}, {DType::I64});
  const auto divisor = atom.args[1].constant();
  const bool divides = atom.kind == FloorDiv || atom.kind == Mod;
  if (divides && divisor && *divisor > 0 && std::has_single_bit(static_cast<uint64_t>(*divisor))) {
    // Exact below zero, too, and for all lanes at once where a division goes one by one.
    const Code dividend = index_vector(atom.args[0]);
    if (atom.kind == Mod) return operate(CodeOperator::BitAnd, {dividend, integer(*divisor - 1)});
    return operate(CodeOperator::ShiftRight,
                   {dividend, integer(std::countr_zero(static_cast<uint64_t>(*divisor)))});
  }
  const std::vector<Code> arguments = {index_vector(atom.args[0]), index_vector(atom.args[1])};
  if (atom.kind == Min) return call("min_nan", arguments);
  if (atom.kind == Max) return call("max_nan", arguments);
  return call(atom.kind == FloorDiv ? "floor_div" : "remainder", arguments);
}

Expr LaunchLowering::moved(const Expr& e, int64_t along_lanes) const {
  Expr result = e;
  if (schedule_.lane_axis && along_lanes > 0) {
    const int index = static_cast<int>(schedule_.lane_axis->index);
    result = substitute_index(result, index, Expr::index(index) + along_lanes);
  }
  const auto move = [&](const std::optional<AxisId>& axis, int by) {
    if (!axis || by == 0) return;
    const int index = static_cast<int>(axis->index);
    result = substitute_index(result, index, Expr::index(index) + by);
  };
  move(facts_.row_axis, copies_.row_in_column());
  move(facts_.column_axis, copies_.column());
  move(neighbour_axis_, copies_.neighbour);
  return result;
}

Expr LaunchLowering::at_copy(const Expr& e) const { return moved(e, copies_.lane * lane_width()); }

Expr LaunchLowering::at_element(const Expr& e) const {
  if (!in_pairs()) return at_copy(e);
  const int in_pair = copies_.lane % 2;
  return moved(e, int64_t{copies_.lane - in_pair} * schedule_.lanes + in_pair);
}

// Of a row that is written out, with no loop around it, the place is known. Compilers are left to find that
// of two rows stored in turn: they load neighbours side by side then, and rotations of them take 0.97 of the
// time (Zen 4).
Expr LaunchLowering::at_written_row(const Expr& e) const {
  if (!facts_.row_axis || rows_are_windows(*facts_.row_axis)) return e;
  const auto row = bound_.find(*facts_.row_axis);
  const auto first = row == bound_.end() ? std::nullopt : constant_of(row->second.index);
  if (!first) return e;
  return substitute_index(e, static_cast<int>(facts_.row_axis->index), *first + copies_.row_in_column());
}

// Under the ranges of the loops that are open; axes not bound yet range over their extents. So many elements
// of the lane axis lie behind its coordinate.
bool LaunchLowering::is_nonnegative(const Expr& e, int64_t lanes_at_once) const {
  std::vector<Expr> replacements, extents;
  for (uint32_t i = 0; i < graph_.axes.size(); ++i) {
    const auto found = bound_.find({i});
    const Expr index = Expr::index(static_cast<int>(i));
    replacements.push_back(found == bound_.end() ? index : found->second.low + index);
    extents.push_back(found == bound_.end() ? facts_.extents[i] : found->second.high - found->second.low);
    if (schedule_.lane_axis == AxisId{i}) extents.back() = extents.back() - (lanes_at_once - 1);
  }
  return proves_nonnegative(substitute_indices(e, replacements), extents);
}

bool LaunchLowering::uses_lanes(const Expr& e) const {
  return schedule_.lane_axis && uses_index(e, static_cast<int>(schedule_.lane_axis->index));
}

int LaunchLowering::depth_of(const std::vector<AxisId>& axes) const {
  int depth = base_depth_;
  for (const AxisId axis : axes) {
    const auto found = bound_.find(axis);
    TILEFUSE_CHECK(found != bound_.end(), "a value is wanted outside the loop over " + graph_[axis].name);
    depth = std::max(depth, found->second.depth);
  }
  return depth;
}

int LaunchLowering::depth_of(const Expr& e) const {
  std::vector<AxisId> axes;
  for (const int index : indices_of(e)) axes.push_back({static_cast<uint32_t>(index)});
  int depth = axes.empty() ? 0 : depth_of(axes);
  for (const std::string& symbol : symbols_of(e)) {
    const Computed* known = scopes_.find("size " + symbol);
    depth = std::max(depth, known == nullptr ? 0 : known->depth);
  }
  return depth;
}

}  // namespace tilefuse
