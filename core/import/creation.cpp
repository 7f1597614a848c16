// Tensors made from nothing but sizes and numbers, and the triangles.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/import/view_maps.h"
#include "core/rounding.h"

namespace tilefuse::aten {
namespace {

// What the recorded result says already.
void ignore_factory_arguments(CapturedOp& op) {
  for (const auto* name : {"dtype", "layout", "device", "pin_memory", "memory_format", "size", "self",
                           "stride", "names", "physical_layout"}) {
    op.ignore(name);
  }
}

Tensor filled(CapturedOp& op, const Number& value) {
  if (const Expr* size = std::get_if<Expr>(&value)) {
    return size_tensor(op.builder(), *size, op.dtype(), op.shape());
  }
  return constant(op.builder(), std::get<Scalar>(value), op.dtype(), op.shape());
}

Outputs full(CapturedOp& op) {
  ignore_factory_arguments(op);
  return {filled(op, op.scalar("fill_value"))};
}

Outputs scalar_tensor(CapturedOp& op) {
  ignore_factory_arguments(op);
  return {filled(op, op.scalar("s"))};
}

Outputs fill(CapturedOp& op) {
  op.ignore("self");
  return {operand(op, "value", op.dtype())};
}

// Also for memory that nobody promised a value for.
Outputs zeros(CapturedOp& op) {
  ignore_factory_arguments(op);
  return {filled(op, Scalar{int64_t{0}})};
}

Outputs ones(CapturedOp& op) {
  ignore_factory_arguments(op);
  return {filled(op, Scalar{int64_t{1}})};
}

bool is_integer(const Number& value) {
  const Scalar* literal = std::get_if<Scalar>(&value);
  return literal == nullptr || !std::holds_alternative<double>(*literal);
}

Expr as_expr(const Number& value) {
  if (const Expr* size = std::get_if<Expr>(&value)) return *size;
  return to_int(std::get<Scalar>(value));
}

// In the elements' type: an integer range cuts the fractions off its start and step first.
Number range_number(CapturedOp& op, const char* name, int64_t fallback) {
  if (!op.has(name)) return Scalar{fallback};
  const Number number = op.scalar(name);
  const auto* literal = std::get_if<Scalar>(&number);
  return literal == nullptr || is_float(op.dtype()) ? number : Number(Scalar{to_int(*literal)});
}

// start + step * i; for floats in f64, as eager accumulates.
Outputs arange(CapturedOp& op) {
  ignore_factory_arguments(op);
  op.ignore("end");
  const Number start = range_number(op, "start", 0), step = range_number(op, "step", 1);
  if (is_integer(start) && is_integer(step)) {
    const Tensor place{op.builder(), op.builder().iota(op.shape(), 0, as_expr(start), as_expr(step))};
    return {as_result(op, place)};
  }
  if (std::holds_alternative<Expr>(start) || std::holds_alternative<Expr>(step))
    decline("a symbolic float range");
  const Tensor place = cast(positions(op.builder(), op.shape(), 0), DType::F64);
  return {as_result(op, place * to_double(std::get<Scalar>(step)) + to_double(std::get<Scalar>(start)))};
}

// From both ends, as eager does, so that the last element is exact.
Outputs linspace(CapturedOp& op) {
  ignore_factory_arguments(op);
  const DType dtype = info(op.dtype()).compute;
  if (!is_float(dtype)) decline("integer linspace");
  const double start = op.number("start"), end = op.number("end");
  const int64_t steps = op.integer("steps");
  if (steps < 2) return {constant(op.builder(), start, op.dtype(), op.shape())};
  const double step = round_to(dtype, (end - start) / static_cast<double>(steps - 1));
  const Tensor place = positions(op.builder(), op.shape(), 0);
  const Tensor from_start = cast(place, dtype) * step + start;
  const Tensor from_end = end - cast(like(place, steps - 1) - place, dtype) * step;
  return {as_result(op, where(map(MapFn::Lt, place, like(place, steps / 2)), from_start, from_end))};
}

Outputs eye(CapturedOp& op) {
  ignore_factory_arguments(op);
  op.ignore("n");
  op.ignore("m");
  const Tensor is_diagonal =
      map(MapFn::Eq, positions(op.builder(), op.shape(), 0), positions(op.builder(), op.shape(), 1));
  return {as_result(op, is_diagonal)};
}

// Keeps column - row <= diagonal (lower) or >= diagonal (upper).
template <bool is_lower>
Outputs triangle(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const Expr diagonal = op.size("diagonal", Expr(0));
  const Expr above = Expr::index(x.rank() - 1) - Expr::index(x.rank() - 2);
  return {view(x, masked_identity(x.shape(), is_lower ? diagonal - above : above - diagonal))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.arange.default", arange},
    {"aten.arange.start", arange},
    {"aten.arange.start_step", arange},
    {"aten.empty.memory_format", zeros},
    {"aten.empty_like.default", zeros},
    {"aten.empty_permuted.default", zeros},
    {"aten.empty_strided.default", zeros},
    {"aten.eye.default", eye},
    {"aten.eye.m", eye},
    {"aten.fill.Scalar", fill},
    {"aten.fill.Tensor", fill},
    {"aten.full.default", full},
    {"aten.full_like.default", full},
    {"aten.linspace.default", linspace},
    {"aten.new_empty.default", zeros},
    {"aten.new_empty_strided.default", zeros},
    {"aten.new_full.default", full},
    {"aten.new_ones.default", ones},
    {"aten.new_zeros.default", zeros},
    {"aten.ones.default", ones},
    {"aten.ones_like.default", ones},
    {"aten.scalar_tensor.default", scalar_tensor},
    {"aten.tril.default", triangle<true>},
    {"aten.triu.default", triangle<false>},
    {"aten.zeros.default", zeros},
    {"aten.zeros_like.default", zeros},
};
// clang-format on

}  // namespace

OperatorFamily creation_operators() { return kRows; }

}  // namespace tilefuse::aten
