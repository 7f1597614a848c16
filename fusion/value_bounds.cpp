// Interval arithmetic on the values of a tile graph.
#include "fusion/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/match.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: of larger ones a double may be the neighbour

ValueRange unknown(DType dtype) { return {-kInfinity, kInfinity, is_float(dtype)}; }

bool is_finite(const ValueRange& a) { return std::isfinite(a.low) && std::isfinite(a.high) && !a.may_be_nan; }

ValueRange of_dtype(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return {0, 1};
    case DType::U8:
      return {0, 255};
    case DType::I8:
      return {-128, 127};
    case DType::I16:
      return {-32768, 32767};
    case DType::I32:
      return {-2147483648.0, 2147483647.0};
    default:
      return unknown(dtype);
  }
}

// Relative, of one rounding to the dtype; a value of a narrow dtype may be held in f32 instead.
double rounding_error(DType dtype) {
  return dtype == DType::F64 ? 0x1p-51 : dtype == DType::F32 ? 0x1p-23 : 0x1p-7;
}
constexpr double kLeastNormal = 1e-37;

// What the dtype makes of exact results between `low` and `high`: floats round, integers wrap around.
ValueRange rounded(double low, double high, DType dtype) {
  if (!std::isfinite(low) || !std::isfinite(high)) return unknown(dtype);
  const double size = std::max(std::abs(low), std::abs(high));
  if (!is_float(dtype)) {
    const ValueRange held = of_dtype(dtype);
    const bool fits = low >= held.low && high <= held.high && size < kExactIntegers;
    return fits ? ValueRange{low, high} : held;
  }
  const bool is_quarter = size_in_bytes(dtype) == 1;  // a float of three bits
  if (is_quarter || size > (is_narrow_float(dtype) ? 1e4 : 1e30)) return unknown(dtype);
  const auto error = [&](double x) {
    return x == 0 ? 0 : std::abs(x) * rounding_error(dtype) + kLeastNormal;
  };
  return {low - error(low), high + error(high)};
}

ValueRange product(const ValueRange& a, const ValueRange& b, DType dtype) {
  const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return rounded(low, high, dtype);
}

// Towards minus infinity where `floors`, else towards zero; by a divisor that is one sign away from zero.
ValueRange whole_quotient(const ValueRange& a, const ValueRange& b, bool floors, DType dtype) {
  if (b.low <= 0) return of_dtype(dtype);
  const auto [low, high] = std::minmax({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
  return floors ? rounded(std::floor(low), std::floor(high), dtype)
                : rounded(std::trunc(low), std::trunc(high), dtype);
}

ValueRange cast(const ValueRange& a, DType from, DType to) {
  if (to == DType::Bool) return {0, 1};
  if (!is_finite(a)) return of_dtype(to);
  if (is_float(to)) return rounded(a.low, a.high, to);
  return is_float(from) ? rounded(std::trunc(a.low), std::trunc(a.high), to) : rounded(a.low, a.high, to);
}

ValueRange larger(const ValueRange& a, const ValueRange& b) {
  return {std::max(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan};
}
ValueRange smaller(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::min(a.high, b.high), a.may_be_nan || b.may_be_nan};
}
ValueRange either(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan};
}

ValueRange map_finite(MapFn fn, const std::vector<ValueRange>& x, DType dtype) {
  switch (fn) {
    case MapFn::Add:
      return rounded(x[0].low + x[1].low, x[0].high + x[1].high, dtype);
    case MapFn::Sub:
      return rounded(x[0].low - x[1].high, x[0].high - x[1].low, dtype);
    case MapFn::Mul:
      return product(x[0], x[1], dtype);
    case MapFn::Neg:
      return rounded(-x[0].high, -x[0].low, dtype);
    case MapFn::Abs: {
      const double far = std::max(std::abs(x[0].low), std::abs(x[0].high));
      return rounded(x[0].low <= 0 && x[0].high >= 0 ? 0 : std::min(std::abs(x[0].low), std::abs(x[0].high)),
                     far, dtype);
    }
    case MapFn::Div:
      if (x[1].low <= 0 || !is_float(dtype)) return of_dtype(dtype);
      return product(x[0], {1 / x[1].high, 1 / x[1].low}, dtype);
    case MapFn::FloorDiv:
    case MapFn::TruncDiv:
      if (is_float(dtype)) return of_dtype(dtype);
      return whole_quotient(x[0], x[1], fn == MapFn::FloorDiv, dtype);
    case MapFn::Remainder:  // has the sign of the divisor
      if (is_float(dtype) || x[1].low <= 0) return of_dtype(dtype);
      return {0, x[1].high - 1};
    case MapFn::Floor:
      return rounded(std::floor(x[0].low), std::floor(x[0].high), dtype);
    case MapFn::Ceil:
      return rounded(std::ceil(x[0].low), std::ceil(x[0].high), dtype);
    case MapFn::Trunc:
      return rounded(std::trunc(x[0].low), std::trunc(x[0].high), dtype);
    case MapFn::Round:
      return rounded(std::nearbyint(x[0].low), std::nearbyint(x[0].high), dtype);
    default:
      return of_dtype(dtype);
  }
}

ValueRange map_range(const TileGraph& graph, const TileValue& value, MapFn fn,
                     const std::vector<ValueRange>& x) {
  if (value.dtype == DType::Bool) return {0, 1};
  switch (fn) {
    case MapFn::Copy:
      return x[0];
    case MapFn::Cast:
      return cast(x[0], graph[value.operands[0]].dtype, value.dtype);
    case MapFn::Max:
      return larger(x[0], x[1]);
    case MapFn::Min:
      return smaller(x[0], x[1]);
    case MapFn::Where:
      return either(x[1], x[2]);
    default:
      return std::all_of(x.begin(), x.end(), is_finite) ? map_finite(fn, x, value.dtype)
                                                        : of_dtype(value.dtype);
  }
}

ValueRange index_range(const Expr& expr, const std::vector<Expr>& extents, DType dtype) {
  const Interval interval = bounds(expr, extents);
  constexpr auto kNone = std::numeric_limits<int64_t>::min(), kAny = std::numeric_limits<int64_t>::max();
  return rounded(interval.low == kNone ? -kInfinity : double(interval.low),
                 interval.high == kAny ? kInfinity : double(interval.high), dtype);
}

}  // namespace

std::vector<ValueRange> value_ranges(const TileGraph& graph) {
  const std::vector<Expr> extents = axis_extents(graph);
  std::vector<ValueRange> ranges;
  ranges.reserve(graph.values.size());
  for (const TileValue& value : graph.values) {
    std::vector<ValueRange> operands;
    operands.reserve(value.operands.size());
    bool uses_data = std::holds_alternative<TileLoad>(value.op);
    for (const TileValueId operand : operands_of(value)) uses_data |= ranges[operand.index].uses_data;
    for (const TileValueId operand : value.operands) operands.push_back(ranges[operand.index]);
    ValueRange range = match(
        value.op,
        [&](const TileConstant& constant) -> ValueRange {
          const double number = to_double(constant.value);
          return std::isfinite(number) ? rounded(number, number, value.dtype)
                                       : ValueRange{number, number, std::isnan(number)};
        },
        [&](const TileIndex& index) { return index_range(index.expr, extents, value.dtype); },
        [&](const TileMap& map) { return map_range(graph, value, map.fn, operands); },
        [&](const auto&) { return of_dtype(value.dtype); });
    range.uses_data = uses_data;
    ranges.push_back(range);
  }
  return ranges;
}

bool is_index_into(const ValueRange& range, const Expr& extent) {
  const auto elements = extent.constant();
  return elements && !range.may_be_nan && range.low >= 0 && range.high <= double(*elements - 1);
}

}  // namespace tilefuse
