#include "core/map_function.h"

#include <array>
#include <limits>

#include "core/enum_order.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr ResultKind kSame = ResultKind::SameAsOperands;
constexpr ResultKind kBool = ResultKind::Bool;
using enum CostClass;

// clang-format off
constexpr std::array kMapFns = {
    //        fn                 name        arity result      cost            floats_only  no_floats
    MapFnInfo{MapFn::Copy,       "copy",        1, kSame,      Free,           false, false},
    MapFnInfo{MapFn::Cast,       "cast",        1, ResultKind::Declared, Simple, false, false},

    MapFnInfo{MapFn::Add,        "add",         2, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Sub,        "sub",         2, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Mul,        "mul",         2, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Div,        "div",         2, kSame,      Divide,         true,  false},
    MapFnInfo{MapFn::FloorDiv,   "floor_div",   2, kSame,      Divide,         false, false},
    MapFnInfo{MapFn::TruncDiv,   "trunc_div",   2, kSame,      Divide,         false, false},
    MapFnInfo{MapFn::Remainder,  "remainder",   2, kSame,      Divide,         false, false},
    MapFnInfo{MapFn::Fmod,       "fmod",        2, kSame,      Divide,         false, false},
    MapFnInfo{MapFn::Pow,        "pow",         2, kSame,      Pow,            false, false},
    MapFnInfo{MapFn::Max,        "max",         2, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Min,        "min",         2, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Atan2,      "atan2",       2, kSame,      Pow,            true,  false},
    MapFnInfo{MapFn::CopySign,   "copysign",    2, kSame,      Simple,         true,  false},

    MapFnInfo{MapFn::Neg,        "neg",         1, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Abs,        "abs",         1, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Sign,       "sign",        1, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Reciprocal, "reciprocal",  1, kSame,      Divide,         true,  false},
    MapFnInfo{MapFn::Sqrt,       "sqrt",        1, kSame,      SquareRoot,     true,  false},
    MapFnInfo{MapFn::Rsqrt,      "rsqrt",       1, kSame,      SquareRoot,     true,  false},
    MapFnInfo{MapFn::Square,     "square",      1, kSame,      Simple,         false, false},

    MapFnInfo{MapFn::Exp,        "exp",         1, kSame,      Exp,            true,  false},
    MapFnInfo{MapFn::ExpNonpositive, "exp_nonpositive", 1, kSame,  Exp,        true,  false},
    MapFnInfo{MapFn::Exp2,       "exp2",        1, kSame,      Exp,            true,  false},
    MapFnInfo{MapFn::Exp2Nonpositive, "exp2_nonpositive", 1, kSame, Exp,        true,  false},
    MapFnInfo{MapFn::Expm1,      "expm1",       1, kSame,      Exp,            true,  false},
    MapFnInfo{MapFn::Log,        "log",         1, kSame,      Log,            true,  false},
    MapFnInfo{MapFn::Log2,       "log2",        1, kSame,      Log,            true,  false},
    MapFnInfo{MapFn::Log10,      "log10",       1, kSame,      Log,            true,  false},
    MapFnInfo{MapFn::Log1p,      "log1p",       1, kSame,      Log,            true,  false},
    MapFnInfo{MapFn::Sin,        "sin",         1, kSame,      Trigonometric,  true,  false},
    MapFnInfo{MapFn::Cos,        "cos",         1, kSame,      Trigonometric,  true,  false},
    MapFnInfo{MapFn::Tan,        "tan",         1, kSame,      Trigonometric,  true,  false},
    MapFnInfo{MapFn::Asin,       "asin",        1, kSame,      Trigonometric,  true,  false},
    MapFnInfo{MapFn::Acos,       "acos",        1, kSame,      Trigonometric,  true,  false},
    MapFnInfo{MapFn::Atan,       "atan",        1, kSame,      Trigonometric,  true,  false},
    MapFnInfo{MapFn::Sinh,       "sinh",        1, kSame,      Slow,           true,  false},
    MapFnInfo{MapFn::Cosh,       "cosh",        1, kSame,      Slow,           true,  false},
    MapFnInfo{MapFn::Tanh,       "tanh",        1, kSame,      Tanh,           true,  false},
    MapFnInfo{MapFn::Erf,        "erf",         1, kSame,      Erf,            true,  false},
    MapFnInfo{MapFn::Erfc,       "erfc",        1, kSame,      Pow,            true,  false},
    MapFnInfo{MapFn::Sigmoid,    "sigmoid",     1, kSame,      Exp,            true,  false},

    MapFnInfo{MapFn::Floor,      "floor",       1, kSame,      Simple,         true,  false},
    MapFnInfo{MapFn::Ceil,       "ceil",        1, kSame,      Simple,         true,  false},
    MapFnInfo{MapFn::Round,      "round",       1, kSame,      Simple,         true,  false},
    MapFnInfo{MapFn::Trunc,      "trunc",       1, kSame,      Simple,         true,  false},

    MapFnInfo{MapFn::Eq,         "eq",          2, kBool,      Simple,         false, false},
    MapFnInfo{MapFn::Ne,         "ne",          2, kBool,      Simple,         false, false},
    MapFnInfo{MapFn::Lt,         "lt",          2, kBool,      Simple,         false, false},
    MapFnInfo{MapFn::Le,         "le",          2, kBool,      Simple,         false, false},
    MapFnInfo{MapFn::Gt,         "gt",          2, kBool,      Simple,         false, false},
    MapFnInfo{MapFn::Ge,         "ge",          2, kBool,      Simple,         false, false},
    MapFnInfo{MapFn::IsNan,      "isnan",       1, kBool,      Simple,         true,  false},
    MapFnInfo{MapFn::IsInf,      "isinf",       1, kBool,      Simple,         true,  false},

    MapFnInfo{MapFn::And,        "and",         2, kSame,      Simple,         false, true},
    MapFnInfo{MapFn::Or,         "or",          2, kSame,      Simple,         false, true},
    MapFnInfo{MapFn::Xor,        "xor",         2, kSame,      Simple,         false, true},
    MapFnInfo{MapFn::Not,        "not",         1, kSame,      Simple,         false, true},
    MapFnInfo{MapFn::ShiftLeft,  "shift_left",  2, kSame,      Simple,         false, true},
    MapFnInfo{MapFn::ShiftRight, "shift_right", 2, kSame,      Simple,         false, true},

    MapFnInfo{MapFn::Where,      "where",       3, kSame,      Simple,         false, false},
    MapFnInfo{MapFn::Fma,        "fma",         3, kSame,      Simple,         true,  false},
};

constexpr std::array kReduceKinds = {
    ReduceInfo{ReduceKind::Sum,    "sum",    false, MapFn::Add},
    ReduceInfo{ReduceKind::Prod,   "prod",   false, MapFn::Mul},
    ReduceInfo{ReduceKind::Max,    "max",    false, MapFn::Max},
    ReduceInfo{ReduceKind::Min,    "min",    false, MapFn::Min},
    ReduceInfo{ReduceKind::Any,    "any",    false, MapFn::Or},
    ReduceInfo{ReduceKind::All,    "all",    false, MapFn::And},
    ReduceInfo{ReduceKind::ArgMax, "argmax", true,  std::nullopt},
    ReduceInfo{ReduceKind::ArgMin, "argmin", true,  std::nullopt},
};

constexpr std::array kScatterModes = {
    ScatterInfo{ScatterMode::Assign, "assign", std::nullopt},
    ScatterInfo{ScatterMode::Add,    "add",    MapFn::Add},
    ScatterInfo{ScatterMode::Prod,   "prod",   MapFn::Mul},
    ScatterInfo{ScatterMode::Max,    "max",    MapFn::Max},
    ScatterInfo{ScatterMode::Min,    "min",    MapFn::Min},
};
// clang-format on

static_assert(is_in_enum_order(kMapFns, &MapFnInfo::fn, MapFn::Fma),
              "kMapFns: one row per MapFn, in the order of the enum");
static_assert(is_in_enum_order(kReduceKinds, &ReduceInfo::kind, ReduceKind::ArgMin),
              "kReduceKinds: one row per ReduceKind, in the order of the enum");

static_assert(is_in_enum_order(kScatterModes, &ScatterInfo::mode, ScatterMode::Min),
              "kScatterModes: one row per ScatterMode, in the order of the enum");

}  // namespace

const MapFnInfo& info(MapFn fn) {
  TILEFUSE_CHECK(static_cast<size_t>(fn) < kMapFns.size(), "a MapFn outside its enum");
  return kMapFns[static_cast<size_t>(fn)];
}

std::optional<MapFn> parse_map_fn(std::string_view name) {
  for (const MapFnInfo& row : kMapFns) {
    if (name == row.name) return row.fn;
  }
  return std::nullopt;
}

const ReduceInfo& info(ReduceKind kind) {
  TILEFUSE_CHECK(static_cast<size_t>(kind) < kReduceKinds.size(), "a ReduceKind outside its enum");
  return kReduceKinds[static_cast<size_t>(kind)];
}

std::optional<ReduceKind> parse_reduce_kind(std::string_view name) {
  for (const ReduceInfo& row : kReduceKinds) {
    if (name == row.name) return row.kind;
  }
  return std::nullopt;
}

std::optional<Scalar> identity_of(ReduceKind kind, DType dtype) {
  const bool is_float_type = is_float(dtype);
  const double infinity = std::numeric_limits<double>::infinity();
  const Scalar zero = is_float_type ? Scalar(0.0) : Scalar(int64_t{0});
  const Scalar one = is_float_type ? Scalar(1.0) : Scalar(int64_t{1});
  if (kind == ReduceKind::Sum) return zero;
  if (kind == ReduceKind::Prod) return one;
  if (kind == ReduceKind::Any) return Scalar(false);
  if (kind == ReduceKind::All) return Scalar(true);
  if (kind == ReduceKind::Max && is_float_type) return Scalar(-infinity);
  if (kind == ReduceKind::Min && is_float_type) return Scalar(infinity);
  return std::nullopt;
}

const ScatterInfo& info(ScatterMode mode) {
  TILEFUSE_CHECK(static_cast<size_t>(mode) < kScatterModes.size(), "a ScatterMode outside its enum");
  return kScatterModes[static_cast<size_t>(mode)];
}

std::optional<ScatterMode> parse_scatter_mode(std::string_view name) {
  for (const ScatterInfo& row : kScatterModes) {
    if (name == row.name) return row.mode;
  }
  return std::nullopt;
}

}  // namespace tilefuse
