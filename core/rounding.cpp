#include "core/rounding.h"

#include <cmath>
#include <limits>

#include "core/result.h"

namespace tilefuse {
namespace {

// A format with `digits` bits of significand and its smallest normal number at 2^min_exponent.
double rounded(double value, int digits, int min_exponent, double largest) {
  if (!std::isfinite(value) || value == 0.0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // value = m * 2^exponent with 0.5 <= |m| < 1
  const int quantum = std::max(exponent - 1, min_exponent) - (digits - 1);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
  if (std::fabs(result) > largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return result;
}

double as_f32(double value) { return static_cast<double>(static_cast<float>(value)); }

template <class Integer>
int64_t wrapped(int64_t value) {
  return static_cast<int64_t>(static_cast<Integer>(static_cast<uint64_t>(value)));
}

template <class Integer>
int64_t truncated(double value) {
  const double limit = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  if (!(value > -limit - 1 && value < limit)) return std::numeric_limits<Integer>::min();
  return static_cast<int64_t>(value);
}

}  // namespace

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::F64:
      return value;
    case DType::F32:
      return as_f32(value);
    case DType::F16:
      return rounded(as_f32(value), 11, -14, 65504.0);
    case DType::BF16:
      return rounded(as_f32(value), 8, -126, std::ldexp(255.0, 120));
    case DType::F8E5M2:
      return rounded(as_f32(value), 3, -14, 57344.0);
    case DType::F8E4M3FN: {  // has no infinity
      const double result = rounded(as_f32(value), 4, -6, 448.0);
      return std::isinf(result) ? std::copysign(448.0, result) : result;
    }
    default:
      TILEFUSE_CHECK(false, std::string("round_to wants a float dtype, got ") + info(dtype).name);
  }
}

int64_t wrap_to(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::Bool:
      return value != 0 ? 1 : 0;
    case DType::U8:
      return wrapped<uint8_t>(value);
    case DType::I8:
      return wrapped<int8_t>(value);
    case DType::I16:
      return wrapped<int16_t>(value);
    case DType::I32:
      return wrapped<int32_t>(value);
    case DType::I64:
      return value;
    default:
      TILEFUSE_CHECK(false, std::string("wrap_to wants an integer dtype, got ") + info(dtype).name);
  }
}

int64_t float_to_int(DType to, double value) {
  if (to == DType::Bool) return value != 0.0 ? 1 : 0;
  if (to == DType::I64) return truncated<int64_t>(value);
  return wrap_to(to, truncated<int32_t>(value));
}

double int_to_float(DType to, int64_t value) {
  if (to == DType::F64) return static_cast<double>(value);
  return round_to(to, static_cast<double>(static_cast<float>(value)));
}

}  // namespace tilefuse
