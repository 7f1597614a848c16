// Element types and the facts about them, as one table.
//
// Arithmetic on floats of 8 and 16 bits happens in f32 (`compute`); everything else computes in its own type.
// Opaque types have none: tensors of them pass between the framework's operators (Calls), graph inputs and
// outputs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace tilefuse {

enum class DType : uint8_t {
  // clang-format off
  Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, F8E4M3FN, F8E5M2,
  U16, U32, U64, C32, C64, C128, F8E4M3FNUZ, F8E5M2FNUZ, F8E8M0FNU,  // opaque
  // clang-format on
};

struct DTypeInfo {
  DType dtype;
  const char* name;  // in every text form: "f32", "bf16", "i64", "bool", ...
  int bytes;
  bool is_float;
  bool is_signed;
  DType compute;  // the type arithmetic happens in
  bool is_opaque = false;
};

const DTypeInfo& info(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
inline bool is_float(DType dtype) { return info(dtype).is_float; }
inline bool is_narrow_float(DType dtype) { return is_float(dtype) && info(dtype).bytes < 4; }
inline bool is_opaque(DType dtype) { return info(dtype).is_opaque; }
inline int size_in_bytes(DType dtype) { return info(dtype).bytes; }

// A literal. Integers and bools keep their own alternative so that 64-bit values stay exact.
using Scalar = std::variant<bool, int64_t, double>;

double to_double(const Scalar& value);
int64_t to_int(const Scalar& value);  // truncates a double
bool to_bool(const Scalar& value);
Scalar as_literal(const Scalar& value, DType dtype);  // in the alternative that literals of the dtype have
std::string to_text(const Scalar& value);  // shortest round trip; "true", "3", "0.125", "inf", "-inf", "nan"

}  // namespace tilefuse
