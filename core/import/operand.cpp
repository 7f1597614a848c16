#include "core/import/operand.h"

#include <algorithm>

#include "core/import/refusal.h"
#include "core/rounding.h"

namespace tilefuse::aten {
namespace {

constexpr int kNumber = 0, kScalarTensor = 1, kSizedTensor = 2;  // classes of operands, weakest first
constexpr int kBool = 0, kInteger = 1, kFloat = 2;               // kinds of dtypes

int kind_of(DType dtype) { return dtype == DType::Bool ? kBool : is_float(dtype) ? kFloat : kInteger; }

// torch.promote_types
DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  const int bytes_a = info(a).bytes, bytes_b = info(b).bytes;
  if (kind_of(a) == kFloat && bytes_a == bytes_b) return DType::F32;  // f16 and bf16
  if (bytes_a == bytes_b) return DType::I16;                          // u8 and i8
  return bytes_a > bytes_b ? a : b;
}

DType dtype_of_number(const Number& number) {
  const Scalar* literal = std::get_if<Scalar>(&number);
  if (literal == nullptr) return DType::I64;
  if (std::holds_alternative<bool>(*literal)) return DType::Bool;
  return std::holds_alternative<double>(*literal) ? DType::F32 : DType::I64;
}

bool fits(const Number& number, DType dtype) {
  const Scalar* literal = std::get_if<Scalar>(&number);
  if (literal == nullptr) return false;
  const double value = to_double(*literal);
  return value != value || round_to(dtype, value) == value;
}

bool operand_fits(CapturedOp& op, std::string_view name, DType dtype) {
  if (!op.has(name)) return true;
  if (!op.is_tensor(name)) return fits(op.scalar(name), dtype);
  const DType of_tensor = op.tensor(name).dtype();
  return of_tensor == dtype || !is_float(of_tensor);
}

}  // namespace

Tensor operand(CapturedOp& op, std::string_view name, DType dtype) {
  if (op.is_tensor(name)) return expand(cast(op.tensor(name), dtype), op.shape());
  const Number number = op.scalar(name);
  if (const Expr* size = std::get_if<Expr>(&number)) {
    return size_tensor(op.builder(), *size, dtype, op.shape());
  }
  return constant(op.builder(), std::get<Scalar>(number), dtype, op.shape());
}

Tensor operand_or(CapturedOp& op, std::string_view name, DType dtype, double fallback) {
  if (op.has(name)) return operand(op, name, dtype);
  op.ignore(name);
  return constant(op.builder(), fallback, dtype, op.shape());
}

DType arithmetic_dtype(CapturedOp& op, std::initializer_list<std::string_view> operands) {
  const DType dtype = op.dtype();
  if (info(dtype).compute == dtype) return dtype;
  const bool all_fit = std::all_of(operands.begin(), operands.end(),
                                   [&](std::string_view name) { return operand_fits(op, name, dtype); });
  return all_fit ? dtype : info(dtype).compute;
}

DType promoted_dtype(CapturedOp& op, std::initializer_list<std::string_view> operands) {
  std::optional<DType> by_class[3];
  for (const std::string_view name : operands) {
    if (!op.has(name)) continue;
    const bool is_tensor = op.is_tensor(name);
    const DType dtype = is_tensor ? op.tensor(name).dtype() : dtype_of_number(op.scalar(name));
    const int strength = !is_tensor ? kNumber : op.tensor(name).rank() > 0 ? kSizedTensor : kScalarTensor;
    std::optional<DType>& known = by_class[strength];
    known = known ? promoted(*known, dtype) : dtype;
  }
  std::optional<DType> result;
  for (int strength = kSizedTensor; strength >= kNumber; --strength) {
    const std::optional<DType>& weaker = by_class[strength];
    if (!weaker) continue;
    if (!result) {
      result = weaker;
    } else if (kind_of(*weaker) > kind_of(*result)) {
      result = promoted(*result, *weaker);
    }
  }
  if (!result) decline("no operand has a dtype");
  return *result;
}

Tensor as_result(CapturedOp& op, const Tensor& value, size_t i) { return cast(value, op.dtype(i)); }

void require_nonzero_divisor(CapturedOp& op, std::string_view name, DType dtype) {
  if (is_float(dtype)) return;
  if (!op.is_tensor(name)) {
    const Number number = op.scalar(name);
    const Scalar* literal = std::get_if<Scalar>(&number);
    if (literal != nullptr && to_int(*literal) != 0) return;
  }
  decline("an integer divisor may be zero, which is an error");
}

}  // namespace tilefuse::aten
