#include "codegen/spell_reduce.h"

#include <limits>

#include "core/result.h"
#include "fusion/scan.h"

namespace tilefuse {
namespace {

// The least (or greatest) value of a type: what max (or min) starts from.
Code end_of_range(DType dtype, bool lowest) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (is_float(dtype)) return literal(lowest ? -infinity : infinity, dtype);
  return call(lowest ? "lowest" : "highest", {}, {dtype});
}

ReduceSpelling logical(bool is_any) {
  return {.types = {DType::Bool},
          .identity = literal(!is_any, DType::Bool),
          .op = std::nullopt,
          .combine = is_any ? "mask_or" : "mask_and",
          .update = "",
          .across = is_any ? "reduce_any" : "reduce_all",
          .across_4 = "",
          .along = ""};
}

}  // namespace

ReduceSpelling spell_reduce(ReduceKind kind, const TileValue& result, const TileValue& operand) {
  const DType to = info(result.dtype).compute, from = info(operand.dtype).compute;
  switch (kind) {
    case ReduceKind::Sum:
      return {{to},
              literal(is_float(to) ? Scalar(0.0) : Scalar(int64_t{0}), to),
              CodeOperator::Add,
              "",
              "",
              "reduce_add",
              "reduce_add_4",
              "inclusive_scan_add"};
    case ReduceKind::Prod:
      return {{to},
              literal(is_float(to) ? Scalar(1.0) : Scalar(int64_t{1}), to),
              CodeOperator::Mul,
              "",
              "",
              "reduce_mul",
              "",
              "inclusive_scan_mul"};
    case ReduceKind::Max:
      if (to == DType::Bool) return logical(true);
      return {{to}, end_of_range(to, true), std::nullopt,   "max_nan",
              "",   "reduce_max",           "reduce_max_4", "inclusive_scan_max"};
    case ReduceKind::Min:
      if (to == DType::Bool) return logical(false);
      return {{to},         end_of_range(to, false), std::nullopt,        "min_nan", "",
              "reduce_min", "reduce_min_4",          "inclusive_scan_min"};
    case ReduceKind::Any:
      return logical(true);
    case ReduceKind::All:
      return logical(false);
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin: {
      const bool is_max = kind == ReduceKind::ArgMax;
      const DType best = from == DType::Bool ? DType::U8 : from;
      return {{best, DType::I64},
              end_of_range(best, is_max),
              std::nullopt,
              "",
              is_max ? "update_max_index" : "update_min_index",
              is_max ? "reduce_max_index" : "reduce_min_index",
              "",
              ""};
    }
  }
  TILEFUSE_CHECK(false, "a ReduceKind outside its enum");
}

ReduceSpelling spell_scan(ReduceKind kind, const TileValue& result, const TileValue& operand) {
  ReduceSpelling spelling = spell_reduce(kind, result, operand);
  if (carried_dtype(result) != spelling.types[0]) {
    spelling.types[0] = carried_dtype(result);
    spelling.identity = literal(kind == ReduceKind::Sum ? 0.0 : 1.0, spelling.types[0]);
  }
  return spelling;
}

std::string named_across(const ReduceSpelling& spelling, std::string_view prefix) {
  constexpr std::string_view kOfLanes = "reduce_";
  return std::string(prefix).append(std::string_view(spelling.across).substr(kOfLanes.size()));
}

Code combined(const ReduceSpelling& spelling, Code a, Code b) {
  if (spelling.op) return operate(*spelling.op, {std::move(a), std::move(b)});
  return call(spelling.combine, {std::move(a), std::move(b)});
}

Code converted_element(const ReduceSpelling& spelling, DType from, Code element) {
  if (info(from).compute == spelling.types[0]) return element;
  return call("convert", {std::move(element)}, {spelling.types[0]});
}

}  // namespace tilefuse
