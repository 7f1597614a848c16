// The elementwise functions, as one table: everything a stage needs to know about one stands in its row.
//
// Semantics are torch's: max and min propagate NaN; round is half to even; floor_div and remainder follow
// Python's sign rule; trunc_div and fmod C's; integer overflow wraps; comparisons give bool. Casts are
// Map{Cast}, from the operand's dtype to the value's (float to integer truncates, anything to bool is != 0).
// exp_nonpositive is exp of what is at most 0, or NaN: 0 below the least normal number of f32;
// exp2_nonpositive is exp2 of what is at most 0 but for rounding, with zeros there, too.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace tilefuse {

enum class MapFn : uint8_t {
  // clang-format off
  Copy, Cast,
  Add, Sub, Mul, Div, FloorDiv, TruncDiv, Remainder, Fmod, Pow, Max, Min, Atan2, CopySign,
  Neg, Abs, Sign, Reciprocal, Sqrt, Rsqrt, Square,
  Exp, ExpNonpositive, Exp2, Exp2Nonpositive, Expm1, Log, Log2, Log10, Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Erf, Erfc, Sigmoid,
  Floor, Ceil, Round, Trunc,
  Eq, Ne, Lt, Le, Gt, Ge, IsNan, IsInf,
  And, Or, Xor, Not,                            // on bool: logic; on integers: bits
  ShiftLeft, ShiftRight,
  Where,                                        // (condition: bool, then, else)
  Fma,                                          // a * b + c, one rounding
  // clang-format on
};

enum class ResultKind : uint8_t { SameAsOperands, Bool, Declared };

// How dear an element is; the cost model turns a class into cycles a vector by the target's profile.
enum class CostClass : uint8_t {
  Free,
  Simple,
  Divide,
  SquareRoot,
  Exp,
  Log,
  Trigonometric,
  Tanh,
  Erf,
  Pow,
  Slow
};

struct MapFnInfo {
  MapFn fn;
  const char* name;  // in text forms: "add", "exp", "where", ...
  int arity;
  ResultKind result;
  CostClass cost;
  bool floats_only;  // refuses integer operands (the importer inserts casts as torch does)
  bool no_floats;    // takes bools and integers only
};

const MapFnInfo& info(MapFn fn);
std::optional<MapFn> parse_map_fn(std::string_view name);

enum class ReduceKind : uint8_t { Sum, Prod, Max, Min, Any, All, ArgMax, ArgMin };
struct ReduceInfo {
  ReduceKind kind;
  const char* name;  // "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"
  bool is_index;  // the result is the (first) position of the extreme, i64, flattened over the reduced dims
  std::optional<MapFn> combine;  // of the results of two parts; absent: of a position
};
const ReduceInfo& info(ReduceKind kind);
std::optional<ReduceKind> parse_reduce_kind(std::string_view name);
// What changes nothing that it is reduced with; absent: no number is known to (extremes of integers), or the
// result is a position.
std::optional<Scalar> identity_of(ReduceKind kind, DType dtype);

// What becomes of an element that is written to: the new value, or the old one combined with it.
enum class ScatterMode : uint8_t { Assign, Add, Prod, Max, Min };
struct ScatterInfo {
  ScatterMode mode;
  const char* name;              // "assign", "add", "prod", "max", "min"
  std::optional<MapFn> combine;  // (old, new); absent: the old one counts for nothing
};
const ScatterInfo& info(ScatterMode mode);
std::optional<ScatterMode> parse_scatter_mode(std::string_view name);

}  // namespace tilefuse
