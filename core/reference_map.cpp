#include "core/reference_map.h"

#include <cmath>
#include <limits>
#include <string>

#include "core/result.h"
#include "core/rounding.h"

namespace tilefuse {
namespace {

double sign_of(double value) { return static_cast<double>((value > 0) - (value < 0)); }  // 0 for NaN
double max_of(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double min_of(double a, double b) { return std::isnan(a) || a < b ? a : b; }

double remainder_of(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// The steps of Python's float floor division, each rounded to the dtype.
double floor_quotient(DType dtype, double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b);
  double quotient = round_to(dtype, round_to(dtype, a - rest) / b);
  if (rest != 0 && (b < 0) != (rest < 0)) quotient = round_to(dtype, quotient - 1);
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double binary_float(MapFn fn, DType dtype, double a, double b) {
  switch (fn) {
    case MapFn::Add:
      return a + b;
    case MapFn::Sub:
      return a - b;
    case MapFn::Mul:
      return a * b;
    case MapFn::Div:
      return a / b;
    case MapFn::FloorDiv:
      return floor_quotient(dtype, a, b);
    case MapFn::TruncDiv:
      return std::trunc(round_to(dtype, a / b));
    case MapFn::Remainder:
      return remainder_of(a, b);
    case MapFn::Fmod:
      return std::fmod(a, b);
    case MapFn::Pow:
      return std::pow(a, b);
    case MapFn::Max:
      return max_of(a, b);
    case MapFn::Min:
      return min_of(a, b);
    case MapFn::Atan2:
      return std::atan2(a, b);
    case MapFn::CopySign:
      return std::copysign(a, b);
    default:
      TILEFUSE_CHECK(false, std::string(info(fn).name) + " is no function of two floats");
  }
}

using UnaryFunction = double (*)(double);

// nullptr: none of one float.
UnaryFunction unary_float(MapFn fn) {
  // clang-format off
  switch (fn) {
    case MapFn::Copy: return [](double x) { return x; };
    case MapFn::Neg: return [](double x) { return -x; };
    case MapFn::Abs: return [](double x) { return std::fabs(x); };
    case MapFn::Sign: return sign_of;
    case MapFn::Reciprocal: return [](double x) { return 1 / x; };
    case MapFn::Sqrt: return [](double x) { return std::sqrt(x); };
    case MapFn::Rsqrt: return [](double x) { return 1 / std::sqrt(x); };
    case MapFn::Square: return [](double x) { return x * x; };
    case MapFn::Exp: return [](double x) { return std::exp(x); };
    case MapFn::ExpNonpositive: return [](double x) { return x < -87.33654 ? 0.0 : std::exp(x); };
    case MapFn::Exp2Nonpositive: return [](double x) { return x < -126 ? 0.0 : std::exp2(x); };
    case MapFn::Exp2: return [](double x) { return std::exp2(x); };
    case MapFn::Expm1: return [](double x) { return std::expm1(x); };
    case MapFn::Log: return [](double x) { return std::log(x); };
    case MapFn::Log2: return [](double x) { return std::log2(x); };
    case MapFn::Log10: return [](double x) { return std::log10(x); };
    case MapFn::Log1p: return [](double x) { return std::log1p(x); };
    case MapFn::Sin: return [](double x) { return std::sin(x); };
    case MapFn::Cos: return [](double x) { return std::cos(x); };
    case MapFn::Tan: return [](double x) { return std::tan(x); };
    case MapFn::Asin: return [](double x) { return std::asin(x); };
    case MapFn::Acos: return [](double x) { return std::acos(x); };
    case MapFn::Atan: return [](double x) { return std::atan(x); };
    case MapFn::Sinh: return [](double x) { return std::sinh(x); };
    case MapFn::Cosh: return [](double x) { return std::cosh(x); };
    case MapFn::Tanh: return [](double x) { return std::tanh(x); };
    case MapFn::Erf: return [](double x) { return std::erf(x); };
    case MapFn::Erfc: return [](double x) { return std::erfc(x); };
    case MapFn::Sigmoid: return [](double x) { return 1 / (1 + std::exp(-x)); };
    case MapFn::Floor: return [](double x) { return std::floor(x); };
    case MapFn::Ceil: return [](double x) { return std::ceil(x); };
    case MapFn::Round: return [](double x) { return std::nearbyint(x); };
    case MapFn::Trunc: return [](double x) { return std::trunc(x); };
    default: return nullptr;
  }
  // clang-format on
}

// ---------------------------------------------------------------- integers
int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_neg(int64_t a) { return static_cast<int64_t>(-static_cast<uint64_t>(a)); }

// Towards zero; the lowest value by -1 wraps to itself.
int64_t quotient_of(int64_t a, int64_t b) {
  if (b == 0) throw UserError("ZeroDivisionError");
  return b == -1 ? wrapping_neg(a) : a / b;
}
int64_t rest_of(int64_t a, int64_t b) {
  if (b == 0) throw UserError("ZeroDivisionError");
  return b == -1 ? 0 : a % b;
}

bool rounds_down(int64_t a, int64_t b) { return rest_of(a, b) != 0 && (a < 0) != (b < 0); }

int64_t int_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = wrapping_mul(result, base);
    base = wrapping_mul(base, base);
  }
  return result;
}

int64_t shifted_left(DType dtype, int64_t value, int64_t by) {
  const int bits = size_in_bytes(dtype) * 8;
  if (by < 0 || by >= bits) return 0;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << by);
}

// What is shifted out of range leaves the sign.
int64_t shifted_right(DType dtype, int64_t value, int64_t by) {
  const int limit = size_in_bytes(dtype) * 8 - (info(dtype).is_signed ? 1 : 0);
  if (by < 0 || by >= limit) return value < 0 ? -1 : 0;
  return value >> by;
}

}  // namespace

double float_map(MapFn fn, DType dtype, const std::array<double, 3>& x) {
  if (fn == MapFn::Fma) return std::fma(x[0], x[1], x[2]);
  if (info(fn).arity == 2) return binary_float(fn, dtype, x[0], x[1]);
  const UnaryFunction unary = unary_float(fn);
  TILEFUSE_CHECK(unary != nullptr, std::string(info(fn).name) + " is no function of one float");
  return unary(x[0]);
}

int64_t int_map(MapFn fn, DType dtype, const std::array<int64_t, 3>& x) {
  const int64_t a = x[0];
  const int64_t b = x[1];
  // clang-format off
  switch (fn) {
    case MapFn::Copy: return a;
    case MapFn::Add: return wrapping_add(a, b);
    case MapFn::Sub: return wrapping_add(a, wrapping_neg(b));
    case MapFn::Mul: return wrapping_mul(a, b);
    case MapFn::FloorDiv: return quotient_of(a, b) - (rounds_down(a, b) ? 1 : 0);
    case MapFn::TruncDiv: return quotient_of(a, b);
    case MapFn::Remainder: return rest_of(a, b) + (rounds_down(a, b) ? b : 0);
    case MapFn::Fmod: return rest_of(a, b);
    case MapFn::Pow: return int_power(a, b);
    case MapFn::Max: return a > b ? a : b;
    case MapFn::Min: return a < b ? a : b;
    case MapFn::Neg: return wrapping_neg(a);
    case MapFn::Abs: return a < 0 ? wrapping_neg(a) : a;
    case MapFn::Sign: return (a > 0 ? 1 : 0) - (a < 0 ? 1 : 0);
    case MapFn::Square: return wrapping_mul(a, a);
    case MapFn::And: return a & b;
    case MapFn::Or: return a | b;
    case MapFn::Xor: return a ^ b;
    case MapFn::Not: return dtype == DType::Bool ? (a == 0 ? 1 : 0) : ~a;
    case MapFn::ShiftLeft: return shifted_left(dtype, a, b);
    case MapFn::ShiftRight: return shifted_right(dtype, a, b);
    default: TILEFUSE_CHECK(false, std::string(info(fn).name) + " is no function of integers");
  }
  // clang-format on
}

namespace {

template <class Number>
bool compares(MapFn fn, Number a, Number b) {
  switch (fn) {
    case MapFn::Eq:
      return a == b;
    case MapFn::Ne:
      return a != b;
    case MapFn::Lt:
      return a < b;
    case MapFn::Le:
      return a <= b;
    case MapFn::Gt:
      return a > b;
    case MapFn::Ge:
      return a >= b;
    default:
      TILEFUSE_CHECK(false, std::string(info(fn).name) + " is no comparison");
  }
}

}  // namespace

bool float_test(MapFn fn, double a, double b) {
  if (fn == MapFn::IsNan) return std::isnan(a);
  if (fn == MapFn::IsInf) return std::isinf(a);
  return compares(fn, a, b);
}

bool int_test(MapFn fn, int64_t a, int64_t b) { return compares(fn, a, b); }

}  // namespace tilefuse
