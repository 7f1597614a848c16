// Comparisons, logic, bits and selection: everything whose operands are promoted among themselves, or are
// bool.
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

template <MapFn fn>
Outputs comparison(CapturedOp& op) {
  const DType dtype = promoted_dtype(op, {"self", "other"});
  return {map(fn, operand(op, "self", dtype), operand(op, "other", dtype))};
}

template <MapFn fn>
Outputs bits(CapturedOp& op) {
  return {map(fn, operand(op, "self", op.dtype()), operand(op, "other", op.dtype()))};
}

// By a literal count inside the type's width; other counts have rules of their own.
template <MapFn fn>
Outputs shift(CapturedOp& op) {
  const DType dtype = op.dtype();
  if (op.is_tensor("other")) decline("shifts by a tensor");
  const int64_t count = op.integer("other");
  if (count < 0 || count >= int64_t{8} * info(dtype).bytes) decline("a shift outside the type's width");
  return {map(fn, operand(op, "self", dtype), operand(op, "other", dtype))};
}

Outputs bitwise_not(CapturedOp& op) { return {negated(op.tensor("self"))}; }

template <MapFn fn>
Outputs logic(CapturedOp& op) {
  return {map(fn, operand(op, "self", DType::Bool), operand(op, "other", DType::Bool))};
}

Outputs logical_not(CapturedOp& op) { return {negated(cast(op.tensor("self"), DType::Bool))}; }

template <MapFn fn>
Outputs float_class(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (!is_float(x.dtype())) return {constant(op.builder(), false, DType::Bool, op.shape())};
  return {map(fn, x)};
}

Outputs isfinite(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (!is_float(x.dtype())) return {constant(op.builder(), true, DType::Bool, op.shape())};
  return {negated(either(map(MapFn::IsNan, x), map(MapFn::IsInf, x)))};
}

template <MapFn fn>
Outputs signed_infinity(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (!is_float(x.dtype())) return {constant(op.builder(), false, DType::Bool, op.shape())};
  return {both(map(MapFn::IsInf, x), compare(fn, x, 0.0))};
}

Outputs select(CapturedOp& op) {
  const Tensor condition = cast(op.tensor("condition"), DType::Bool);
  return {where(expand(condition, op.shape()), operand(op, "self", op.dtype()),
                operand(op, "other", op.dtype()))};
}

Outputs masked_fill(CapturedOp& op) {
  const Tensor mask = cast(op.tensor("mask"), DType::Bool);
  return {where(expand(mask, op.shape()), operand(op, "value", op.dtype()), operand(op, "self", op.dtype()))};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten.__and__.Scalar", bits<MapFn::And>},
    {"aten.__and__.Tensor", bits<MapFn::And>},
    {"aten.__lshift__.Scalar", shift<MapFn::ShiftLeft>},
    {"aten.__or__.Scalar", bits<MapFn::Or>},
    {"aten.__or__.Tensor", bits<MapFn::Or>},
    {"aten.__rshift__.Scalar", shift<MapFn::ShiftRight>},
    {"aten.__xor__.Scalar", bits<MapFn::Xor>},
    {"aten.__xor__.Tensor", bits<MapFn::Xor>},
    {"aten.bitwise_and.Scalar", bits<MapFn::And>},
    {"aten.bitwise_and.Tensor", bits<MapFn::And>},
    {"aten.bitwise_left_shift.Tensor_Scalar", shift<MapFn::ShiftLeft>},
    {"aten.bitwise_not.default", bitwise_not},
    {"aten.bitwise_or.Scalar", bits<MapFn::Or>},
    {"aten.bitwise_or.Tensor", bits<MapFn::Or>},
    {"aten.bitwise_right_shift.Tensor_Scalar", shift<MapFn::ShiftRight>},
    {"aten.bitwise_xor.Scalar", bits<MapFn::Xor>},
    {"aten.bitwise_xor.Tensor", bits<MapFn::Xor>},
    {"aten.eq.Scalar", comparison<MapFn::Eq>},
    {"aten.eq.Tensor", comparison<MapFn::Eq>},
    {"aten.ge.Scalar", comparison<MapFn::Ge>},
    {"aten.ge.Tensor", comparison<MapFn::Ge>},
    {"aten.gt.Scalar", comparison<MapFn::Gt>},
    {"aten.gt.Tensor", comparison<MapFn::Gt>},
    {"aten.isfinite.default", isfinite},
    {"aten.isinf.default", float_class<MapFn::IsInf>},
    {"aten.isnan.default", float_class<MapFn::IsNan>},
    {"aten.isneginf.default", signed_infinity<MapFn::Lt>},
    {"aten.isposinf.default", signed_infinity<MapFn::Gt>},
    {"aten.le.Scalar", comparison<MapFn::Le>},
    {"aten.le.Tensor", comparison<MapFn::Le>},
    {"aten.logical_and.default", logic<MapFn::And>},
    {"aten.logical_not.default", logical_not},
    {"aten.logical_or.default", logic<MapFn::Or>},
    {"aten.logical_xor.default", logic<MapFn::Xor>},
    {"aten.lt.Scalar", comparison<MapFn::Lt>},
    {"aten.lt.Tensor", comparison<MapFn::Lt>},
    {"aten.masked_fill.Scalar", masked_fill},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.ne.Scalar", comparison<MapFn::Ne>},
    {"aten.ne.Tensor", comparison<MapFn::Ne>},
    {"aten.where.Scalar", select},
    {"aten.where.ScalarOther", select},
    {"aten.where.ScalarSelf", select},
    {"aten.where.self", select},
};
// clang-format on

}  // namespace

OperatorFamily comparison_operators() { return kRows; }

}  // namespace tilefuse::aten
