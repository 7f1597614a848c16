#include "torch_ext/aten_map_table.h"

#include <array>

namespace tilefuse {
namespace {

// clang-format off
constexpr std::array kRows = {
    AtenMap{MapFn::Add, "aten::add", "Tensor"},
    AtenMap{MapFn::Sub, "aten::sub", "Tensor"},
    AtenMap{MapFn::Mul, "aten::mul", "Tensor"},
    AtenMap{MapFn::Div, "aten::div", "Tensor"},
    AtenMap{MapFn::FloorDiv, "aten::floor_divide", ""},
    AtenMap{MapFn::TruncDiv, "aten::div", "Tensor_mode", "trunc"},
    AtenMap{MapFn::Remainder, "aten::remainder", "Tensor"},
    AtenMap{MapFn::Fmod, "aten::fmod", "Tensor"},
    AtenMap{MapFn::Pow, "aten::pow", "Tensor_Tensor"},
    AtenMap{MapFn::Max, "aten::maximum", ""},
    AtenMap{MapFn::Min, "aten::minimum", ""},
    AtenMap{MapFn::Atan2, "aten::atan2", ""},
    AtenMap{MapFn::CopySign, "aten::copysign", "Tensor"},
    AtenMap{MapFn::Neg, "aten::neg", ""},
    AtenMap{MapFn::Abs, "aten::abs", ""},
    AtenMap{MapFn::Sign, "aten::sign", ""},
    AtenMap{MapFn::Reciprocal, "aten::reciprocal", ""},
    AtenMap{MapFn::Sqrt, "aten::sqrt", ""},
    AtenMap{MapFn::Rsqrt, "aten::rsqrt", ""},
    AtenMap{MapFn::Square, "aten::square", ""},
    AtenMap{MapFn::Exp, "aten::exp", ""},
    AtenMap{MapFn::Exp2, "aten::exp2", ""},
    AtenMap{MapFn::Expm1, "aten::expm1", ""},
    AtenMap{MapFn::Log, "aten::log", ""},
    AtenMap{MapFn::Log2, "aten::log2", ""},
    AtenMap{MapFn::Log10, "aten::log10", ""},
    AtenMap{MapFn::Log1p, "aten::log1p", ""},
    AtenMap{MapFn::Sin, "aten::sin", ""},
    AtenMap{MapFn::Cos, "aten::cos", ""},
    AtenMap{MapFn::Tan, "aten::tan", ""},
    AtenMap{MapFn::Asin, "aten::asin", ""},
    AtenMap{MapFn::Acos, "aten::acos", ""},
    AtenMap{MapFn::Atan, "aten::atan", ""},
    AtenMap{MapFn::Sinh, "aten::sinh", ""},
    AtenMap{MapFn::Cosh, "aten::cosh", ""},
    AtenMap{MapFn::Tanh, "aten::tanh", ""},
    AtenMap{MapFn::Erf, "aten::erf", ""},
    AtenMap{MapFn::Erfc, "aten::erfc", ""},
    AtenMap{MapFn::Sigmoid, "aten::sigmoid", ""},
    AtenMap{MapFn::Floor, "aten::floor", ""},
    AtenMap{MapFn::Ceil, "aten::ceil", ""},
    AtenMap{MapFn::Round, "aten::round", ""},
    AtenMap{MapFn::Trunc, "aten::trunc", ""},
    AtenMap{MapFn::Eq, "aten::eq", "Tensor"},
    AtenMap{MapFn::Ne, "aten::ne", "Tensor"},
    AtenMap{MapFn::Lt, "aten::lt", "Tensor"},
    AtenMap{MapFn::Le, "aten::le", "Tensor"},
    AtenMap{MapFn::Gt, "aten::gt", "Tensor"},
    AtenMap{MapFn::Ge, "aten::ge", "Tensor"},
    AtenMap{MapFn::IsNan, "aten::isnan", ""},
    AtenMap{MapFn::IsInf, "aten::isinf", ""},
    AtenMap{MapFn::And, "aten::bitwise_and", "Tensor"},
    AtenMap{MapFn::Or, "aten::bitwise_or", "Tensor"},
    AtenMap{MapFn::Xor, "aten::bitwise_xor", "Tensor"},
    AtenMap{MapFn::Not, "aten::bitwise_not", ""},
    AtenMap{MapFn::ShiftLeft, "aten::bitwise_left_shift", "Tensor"},
    AtenMap{MapFn::ShiftRight, "aten::bitwise_right_shift", "Tensor"},
    AtenMap{MapFn::Where, "aten::where", "self"},
    AtenMap{MapFn::Fma, "aten::addcmul", "", nullptr, /*addend_first=*/true},
    AtenMap{MapFn::Copy, "aten::clone", ""},
};
// clang-format on

}  // namespace

const AtenMap* aten_map(MapFn fn) {
  for (const AtenMap& row : kRows) {
    if (row.fn == fn) return &row;
  }
  return nullptr;
}

}  // namespace tilefuse
