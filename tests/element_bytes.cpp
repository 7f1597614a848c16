#include "tests/element_bytes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tilefuse {
namespace {

double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                  : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t f16_bits(double value) {  // of a value that f16 holds exactly
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return 0x7e00;
  for (uint32_t low = 0, high = 0x7c00; low <= high;) {
    const uint32_t middle = (low + high) / 2;
    const double at = f16_value(static_cast<uint16_t>(middle));
    if (at == std::fabs(value)) return static_cast<uint16_t>(sign | middle);
    if (at < std::fabs(value)) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  ADD_FAILURE() << value << " is no f16";
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
      return put(to, f16_bits(tensor.float_at(at)));
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
      return f16_value(taken<uint16_t>(from));
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
