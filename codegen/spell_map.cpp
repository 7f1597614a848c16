#include "codegen/spell_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/result.h"

namespace tilefuse {
namespace {

// Functions that are operators on numbers. On bools they are the mask functions below.
std::optional<CodeOperator> operator_of(MapFn fn) {
  switch (fn) {
    case MapFn::Add:
      return CodeOperator::Add;
    case MapFn::Sub:
      return CodeOperator::Sub;
    case MapFn::Mul:
      return CodeOperator::Mul;
    case MapFn::Div:
      return CodeOperator::Div;
    case MapFn::Neg:
      return CodeOperator::Negate;
    case MapFn::And:
      return CodeOperator::BitAnd;
    case MapFn::Or:
      return CodeOperator::BitOr;
    case MapFn::Xor:
      return CodeOperator::BitXor;
    case MapFn::Not:
      return CodeOperator::BitNot;
    default:
      return std::nullopt;
  }
}

std::optional<CodeOperator> comparison_of(MapFn fn) {
  switch (fn) {
    case MapFn::Eq:
      return CodeOperator::Equal;
    case MapFn::Ne:
      return CodeOperator::NotEqual;
    case MapFn::Lt:
      return CodeOperator::Less;
    case MapFn::Le:
      return CodeOperator::LessEqual;
    case MapFn::Gt:
      return CodeOperator::Greater;
    case MapFn::Ge:
      return CodeOperator::GreaterEqual;
    default:
      return std::nullopt;
  }
}

const char* mask_function(MapFn fn) {
  switch (fn) {
    case MapFn::And:
    case MapFn::Mul:
    case MapFn::Min:
      return "mask_and";
    case MapFn::Or:
    case MapFn::Add:
    case MapFn::Max:
      return "mask_or";
    case MapFn::Xor:
      return "mask_xor";
    case MapFn::Not:
      return "mask_not";
    default:
      return nullptr;
  }
}

// Functions whose name in the runtime header differs from the one in text forms.
const char* runtime_name(MapFn fn) {
  switch (fn) {
    case MapFn::Max:
      return "max_nan";
    case MapFn::Min:
      return "min_nan";
    case MapFn::IsNan:
      return "is_nan";
    case MapFn::IsInf:
      return "is_inf";
    case MapFn::Where:
      return "select";
    default:
      return info(fn).name;
  }
}

Code spell_cast(const MapOperand& operand, DType to) {
  const DType from_compute = info(operand.dtype).compute, to_compute = info(to).compute;
  const bool rounds = is_narrow_float(to);
  // Also from a value of that type: it is held in f32, and rounded only by a cast.
  if (rounds && from_compute == DType::F32) return call("round_to", {operand.code}, {to});
  if (!rounds && from_compute == to_compute) return operand.code;
  return call("convert", {operand.code}, {to});
}

// Splat or not.
bool is_literal_number(const Code& code) {
  const auto* splat = std::get_if<FunctionCall>(&code.kind);
  if (splat != nullptr && splat->function == "splat") return is_literal_number(splat->arguments[0]);
  const auto* literal = std::get_if<Literal>(&code.kind);
  return literal != nullptr && !std::isnan(to_double(literal->value));
}

// Where only one side can be NaN, one instruction takes it along: max_num keeps what is not a number in its
// second argument.
std::optional<Code> spell_extreme(MapFn fn, const std::vector<Code>& codes, DType result) {
  if ((fn != MapFn::Max && fn != MapFn::Min) || !is_float(result)) return std::nullopt;
  const char* function = fn == MapFn::Max ? "max_num" : "min_num";
  if (is_literal_number(codes[0])) return call(function, {codes[0], codes[1]});
  if (is_literal_number(codes[1])) return call(function, {codes[1], codes[0]});
  return std::nullopt;
}

// Scalars narrower than int are promoted by the language; the result is brought back.
Code narrowed(Code code, DType dtype, bool is_vector) {
  const bool promoted = dtype == DType::I8 || dtype == DType::U8 || dtype == DType::I16;
  return promoted && !is_vector ? call("convert", {std::move(code)}, {dtype}) : code;
}

}  // namespace

bool takes_mixed_shapes(MapFn fn, DType dtype) {
  return is_float(dtype) && operator_of(fn) && fn != MapFn::Neg;
}

Code spell_map(MapFn fn, const std::vector<MapOperand>& operands, DType result) {
  if (fn == MapFn::Copy) return operands[0].code;
  if (fn == MapFn::Cast) return spell_cast(operands[0], result);
  const bool is_vector = std::any_of(operands.begin(), operands.end(),
                                     [](const MapOperand& operand) { return operand.is_vector; });
  std::vector<Code> codes;
  codes.reserve(operands.size());
  for (const MapOperand& operand : operands) codes.push_back(operand.code);
  if (const auto comparison = comparison_of(fn); comparison && !is_vector) return operate(*comparison, codes);
  if (fn == MapFn::Where && !is_vector) return operate(CodeOperator::Choose, codes);
  if (result == DType::Bool && operands[0].dtype == DType::Bool && mask_function(fn) != nullptr) {
    return call(mask_function(fn), std::move(codes));
  }
  if (const auto op = operator_of(fn)) return narrowed(operate(*op, std::move(codes)), result, is_vector);
  if (auto extreme = spell_extreme(fn, codes, result)) return *std::move(extreme);
  if (fn == MapFn::ExpNonpositive && result == DType::BF16) {
    return call("exp_nonpositive_bf16", std::move(codes));
  }
  return call(runtime_name(fn), std::move(codes));
}

}  // namespace tilefuse
