#include "tests/element_bytes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tilefuse {
namespace {

// A float narrower than 32 bits: the sign, the exponent, and so many bits of the fraction.
struct Format {
  int bits, fraction_bits, bias;
  bool has_infinity;
};
constexpr Format kF16{16, 10, 15, true}, kF8E5M2{8, 2, 15, true}, kF8E4M3FN{8, 3, 7, false};

double value_of(uint32_t bits, const Format& format) {
  const int exponents = 1 << (format.bits - 1 - format.fraction_bits), unit = 1 << format.fraction_bits;
  const int exponent = int(bits >> format.fraction_bits) & (exponents - 1), fraction = int(bits) & (unit - 1);
  const bool is_last = exponent == exponents - 1;
  double value = std::ldexp(exponent == 0 ? fraction : unit + fraction,
                            std::max(exponent, 1) - format.bias - format.fraction_bits);
  if (is_last && format.has_infinity) value = fraction == 0 ? INFINITY : NAN;
  if (is_last && !format.has_infinity && fraction == unit - 1) value = NAN;
  return (bits >> (format.bits - 1) & 1) != 0 ? -value : value;
}

uint32_t bits_of(double value, const Format& format) {  // of a value that the format holds exactly
  const uint32_t sign = std::signbit(value) ? uint32_t{1} << (format.bits - 1) : 0;
  const uint32_t nan = (uint32_t{1} << (format.bits - 1)) - 1;
  if (std::isnan(value)) return nan;
  uint32_t largest = nan - 1;
  if (format.has_infinity) largest = nan >> format.fraction_bits << format.fraction_bits;
  for (uint32_t low = 0, high = largest; low <= high;) {
    const uint32_t middle = (low + high) / 2;
    const double at = value_of(middle, format);
    if (at == std::fabs(value)) return sign | middle;
    if (at < std::fabs(value)) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  ADD_FAILURE() << value << " is no float of " << format.bits << " bits";
  return 0;
}

template <class T>
void put(unsigned char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T taken(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

void write_element(unsigned char* to, const Tensor& tensor, int64_t at) {
  switch (tensor.dtype()) {
    case DType::Bool:
    case DType::U8:
    case DType::I8:
      return put(to, static_cast<int8_t>(tensor.int_at(at)));
    case DType::I16:
      return put(to, static_cast<int16_t>(tensor.int_at(at)));
    case DType::I32:
      return put(to, static_cast<int32_t>(tensor.int_at(at)));
    case DType::I64:
      return put(to, tensor.int_at(at));
    case DType::F16:
      return put(to, static_cast<uint16_t>(bits_of(tensor.float_at(at), kF16)));
    case DType::F8E5M2:
      return put(to, static_cast<uint8_t>(bits_of(tensor.float_at(at), kF8E5M2)));
    case DType::F8E4M3FN:
      return put(to, static_cast<uint8_t>(bits_of(tensor.float_at(at), kF8E4M3FN)));
    case DType::BF16: {
      const auto value = static_cast<float>(tensor.float_at(at));
      return std::memcpy(to, reinterpret_cast<const char*>(&value) + 2, 2), void();
    }
    case DType::F32:
      return put(to, static_cast<float>(tensor.float_at(at)));
    case DType::F64:
      return put(to, tensor.float_at(at));
    default:
      FAIL() << "kernels have no buffers of " << info(tensor.dtype()).name;
  }
}

Scalar read_element(DType dtype, const unsigned char* from) {
  switch (dtype) {
    case DType::Bool:
      EXPECT_LE(*from, 1) << "a bool is stored as " << int{*from};
      return *from != 0;
    case DType::U8:
      return int64_t{*from};
    case DType::I8:
      return int64_t{taken<int8_t>(from)};
    case DType::I16:
      return int64_t{taken<int16_t>(from)};
    case DType::I32:
      return int64_t{taken<int32_t>(from)};
    case DType::I64:
      return taken<int64_t>(from);
    case DType::F16:
      return value_of(taken<uint16_t>(from), kF16);
    case DType::F8E5M2:
      return value_of(taken<uint8_t>(from), kF8E5M2);
    case DType::F8E4M3FN:
      return value_of(taken<uint8_t>(from), kF8E4M3FN);
    case DType::BF16: {
      const uint32_t bits = uint32_t{taken<uint16_t>(from)} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return double{value};
    }
    case DType::F32:
      return double{taken<float>(from)};
    case DType::F64:
      return taken<double>(from);
    default:
      ADD_FAILURE() << "kernels have no buffers of " << info(dtype).name;
      return 0.0;
  }
}

}  // namespace tilefuse
