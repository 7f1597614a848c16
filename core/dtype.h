// Element types and the facts about them, as one table.
//
// Arithmetic on f16 and bf16 happens in f32 (`compute`); everything else computes in its own type.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace tilefuse {

enum class DType : uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };

struct DTypeInfo {
  DType dtype;
  const char* name;  // in every text form: "f32", "bf16", "i64", "bool", ...
  int bytes;
  bool is_float;
  bool is_signed;
  DType compute;  // the type arithmetic happens in
};

const DTypeInfo& info(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
inline bool is_float(DType dtype) { return info(dtype).is_float; }
inline int size_in_bytes(DType dtype) { return info(dtype).bytes; }

// A literal. Integers and bools keep their own alternative so that 64-bit values stay exact.
using Scalar = std::variant<bool, int64_t, double>;

double to_double(const Scalar& value);
int64_t to_int(const Scalar& value);  // truncates a double
bool to_bool(const Scalar& value);
Scalar as_literal(const Scalar& value, DType dtype);  // in the alternative that literals of the dtype have
std::string to_text(const Scalar& value);  // shortest round trip; "true", "3", "0.125", "inf", "-inf", "nan"

}  // namespace tilefuse
