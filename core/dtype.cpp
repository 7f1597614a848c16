#include "core/dtype.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/enum_order.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr DTypeInfo opaque(DType dtype, const char* name, int bytes) {
  return {dtype, name, bytes, false, false, dtype, true};
}

constexpr std::array kDTypes = {
    DTypeInfo{DType::Bool, "bool", 1, false, false, DType::Bool},
    DTypeInfo{DType::U8, "u8", 1, false, false, DType::U8},
    DTypeInfo{DType::I8, "i8", 1, false, true, DType::I8},
    DTypeInfo{DType::I16, "i16", 2, false, true, DType::I16},
    DTypeInfo{DType::I32, "i32", 4, false, true, DType::I32},
    DTypeInfo{DType::I64, "i64", 8, false, true, DType::I64},
    DTypeInfo{DType::F16, "f16", 2, true, true, DType::F32},
    DTypeInfo{DType::BF16, "bf16", 2, true, true, DType::F32},
    DTypeInfo{DType::F32, "f32", 4, true, true, DType::F32},
    DTypeInfo{DType::F64, "f64", 8, true, true, DType::F64},
    DTypeInfo{DType::F8E4M3FN, "f8e4m3fn", 1, true, true, DType::F32},
    DTypeInfo{DType::F8E5M2, "f8e5m2", 1, true, true, DType::F32},
    opaque(DType::U16, "u16", 2),
    opaque(DType::U32, "u32", 4),
    opaque(DType::U64, "u64", 8),
    opaque(DType::C32, "c32", 4),
    opaque(DType::C64, "c64", 8),
    opaque(DType::C128, "c128", 16),
    opaque(DType::F8E4M3FNUZ, "f8e4m3fnuz", 1),
    opaque(DType::F8E5M2FNUZ, "f8e5m2fnuz", 1),
    opaque(DType::F8E8M0FNU, "f8e8m0fnu", 1),
};

static_assert(is_in_enum_order(kDTypes, &DTypeInfo::dtype, DType::F8E8M0FNU),
              "kDTypes: one row per DType, in the order of the enum");

// Out of range and NaN give the lowest value, as the x86 conversion instruction does.
int64_t truncate(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(value >= -kLimit && value < kLimit)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

}  // namespace

const DTypeInfo& info(DType dtype) {
  TILEFUSE_CHECK(static_cast<size_t>(dtype) < kDTypes.size(), "a DType outside its enum");
  return kDTypes[static_cast<size_t>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& row : kDTypes) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

double to_double(const Scalar& value) {
  return match(
      value, [](bool b) { return b ? 1.0 : 0.0; }, [](int64_t i) { return static_cast<double>(i); },
      [](double d) { return d; });
}

int64_t to_int(const Scalar& value) {
  return match(
      value, [](bool b) { return int64_t{b}; }, [](int64_t i) { return i; },
      [](double d) { return truncate(d); });
}

bool to_bool(const Scalar& value) {
  return match(
      value, [](bool b) { return b; }, [](int64_t i) { return i != 0; }, [](double d) { return d != 0.0; });
}

Scalar as_literal(const Scalar& value, DType dtype) {
  if (dtype == DType::Bool) return to_bool(value);
  if (is_float(dtype)) return to_double(value);
  return to_int(value);
}

std::string to_text(const Scalar& value) {
  return match(
      value, [](bool b) { return std::string(b ? "true" : "false"); },
      [](int64_t i) { return std::to_string(i); }, [](double d) { return shortest(d); });
}

}  // namespace tilefuse
