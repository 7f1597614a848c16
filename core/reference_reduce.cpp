#include <algorithm>
#include <cmath>
#include <limits>

#include "core/reference_map.h"
#include "core/reference_op.h"
#include "core/rounding.h"

namespace tilefuse {
namespace {

double combined(ReduceKind kind, double a, double b) {
  return float_map(*info(kind).combine, DType::F64, {a, b, 0});
}

int64_t combined(ReduceKind kind, int64_t a, int64_t b) {
  return int_map(*info(kind).combine, DType::I64, {a, b, 0});
}

// Of an empty reduction: what changes nothing.
double neutral_float(ReduceKind kind) {
  if (kind == ReduceKind::Sum) return 0;
  if (kind == ReduceKind::Prod) return 1;
  const double infinity = std::numeric_limits<double>::infinity();
  return kind == ReduceKind::Max ? -infinity : infinity;
}

int64_t neutral_int(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::Sum:
    case ReduceKind::Any:
      return 0;
    case ReduceKind::Prod:
    case ReduceKind::All:
      return 1;
    default:
      break;
  }
  const int value_bits = size_in_bytes(dtype) * 8 - (info(dtype).is_signed ? 1 : 0);
  const int64_t high = dtype == DType::Bool ? 1 : static_cast<int64_t>(~uint64_t{0} >> (64 - value_bits));
  const int64_t low = info(dtype).is_signed ? -high - 1 : 0;
  return kind == ReduceKind::Max ? low : high;
}

// Is element `b` the new extreme over `a`? NaN is more extreme than anything; the first of equals stays.
bool beats(ReduceKind kind, const Tensor& operand, int64_t b, int64_t a) {
  if (!is_float(operand.dtype())) {
    const int64_t vb = operand.int_at(b);
    const int64_t va = operand.int_at(a);
    return kind == ReduceKind::ArgMax ? vb > va : vb < va;
  }
  const double vb = operand.float_at(b);
  const double va = operand.float_at(a);
  if (std::isnan(va)) return false;
  if (std::isnan(vb)) return true;
  return kind == ReduceKind::ArgMax ? vb > va : vb < va;
}

// Splits coordinates into those of the result and the flat position among the reduced dims.
struct Split {
  std::vector<int64_t> kept;
  int64_t reduced = 0;
};

Split split(const std::vector<int64_t>& at, const std::vector<int64_t>& shape, const std::vector<int>& dims) {
  Split result;
  size_t next = 0;
  for (size_t dim = 0; dim < at.size(); ++dim) {
    if (next < dims.size() && dims[next] == static_cast<int>(dim)) {
      result.reduced = result.reduced * shape[dim] + at[dim];
      ++next;
    } else {
      result.kept.push_back(at[dim]);
    }
  }
  return result;
}

Tensor reduce_to_position(const Reduce& reduce, const Tensor& operand, std::vector<int64_t> shape) {
  Tensor result(DType::I64, std::move(shape));
  std::vector<int64_t> best(static_cast<size_t>(result.count()), -1);  // position in the operand
  int64_t position = 0;
  for_each_coordinate(operand.shape(), [&](const std::vector<int64_t>& at) {
    const Split where = split(at, operand.shape(), reduce.dims);
    const int64_t to = flat_position(result.shape(), where.kept);
    int64_t& current = best[static_cast<size_t>(to)];
    if (current < 0 || beats(reduce.kind, operand, position, current)) {
      current = position;
      result.set_int(to, where.reduced);
    }
    ++position;
  });
  return result;
}

}  // namespace

Tensor reference_reduce(const ReferenceContext& context, const Reduce& reduce, const Tensor& operand,
                        const TensorType& type) {
  if (info(reduce.kind).is_index) return reduce_to_position(reduce, operand, context.shape(type));
  Tensor result(type.dtype, context.shape(type));
  const bool is_float_result = is_float(type.dtype);
  for (int64_t i = 0; i < result.count(); ++i) {
    if (is_float_result) result.set_float(i, neutral_float(reduce.kind));
    if (!is_float_result) result.set_int(i, neutral_int(reduce.kind, type.dtype));
  }
  int64_t position = 0;
  for_each_coordinate(operand.shape(), [&](const std::vector<int64_t>& at) {
    const int64_t to = flat_position(result.shape(), split(at, operand.shape(), reduce.dims).kept);
    if (is_float_result) {
      result.set_float(to, combined(reduce.kind, result.float_at(to), operand.float_at(position)));
    } else {
      const int64_t value = combined(reduce.kind, result.int_at(to), operand.int_at(position));
      result.set_int(to, wrap_to(type.dtype, value));
    }
    ++position;
  });
  if (!is_float_result) return result;
  for (int64_t i = 0; i < result.count(); ++i) {
    result.set_float(i, context.rounded(type.dtype, result.float_at(i)));
  }
  return result;
}

Tensor reference_scan(const ReferenceContext& context, const Scan& scan, const Tensor& operand) {
  Tensor result(operand.dtype(), operand.shape());
  Tensor carried(is_float(operand.dtype()) ? DType::F64 : operand.dtype(), operand.shape());
  const auto dim = static_cast<size_t>(scan.dim);
  int64_t position = 0;
  for_each_coordinate(operand.shape(), [&](const std::vector<int64_t>& at) {
    carried.copy_from(position, operand, position);
    if (at[dim] > 0) {
      std::vector<int64_t> before = at;
      --before[dim];
      const int64_t previous = flat_position(operand.shape(), before);
      if (is_float(operand.dtype())) {
        carried.set_float(position,
                          combined(scan.kind, carried.float_at(previous), operand.float_at(position)));
      } else {
        const int64_t value = combined(scan.kind, carried.int_at(previous), operand.int_at(position));
        carried.set_int(position, wrap_to(operand.dtype(), value));
      }
    }
    if (is_float(operand.dtype())) {
      result.set_float(position, context.rounded(operand.dtype(), carried.float_at(position)));
    } else {
      result.copy_from(position, carried, position);
    }
    ++position;
  });
  return result;
}

}  // namespace tilefuse
