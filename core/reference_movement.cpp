#include "core/reference_map.h"
#include "core/reference_op.h"
#include "core/rounding.h"

namespace tilefuse {
namespace {

int64_t checked_index(int64_t index, int64_t base, int64_t extent, bool wraps, size_t dim) {
  const int64_t position = base + (wraps && index < 0 ? index + extent : index);
  if (position < 0 || position >= extent) {
    throw UserError("index " + std::to_string(index) + " is out of bounds for dimension " +
                    std::to_string(dim) + " with size " + std::to_string(extent));
  }
  return position;
}

// One update of one element, rounded or wrapped to the dtype of both.
void combine_at(const ReferenceContext& context, ScatterMode mode, Tensor& base, int64_t at,
                const Tensor& updates, int64_t position) {
  const auto& combine = info(mode).combine;
  const DType dtype = base.dtype();
  if (!combine) {
    base.copy_from(at, updates, position);
  } else if (is_float(dtype)) {
    const double sum = float_map(*combine, dtype, {base.float_at(at), updates.float_at(position), 0});
    base.set_float(at, context.rounded(dtype, sum));
  } else {
    const int64_t sum = int_map(*combine, dtype, {base.int_at(at), updates.int_at(position), 0});
    base.set_int(at, wrap_to(dtype, sum));
  }
}

}  // namespace

Tensor reference_view(const ReferenceContext& context, const IndexMap& map, const Tensor& operand) {
  Tensor result(operand.dtype(), context.shape({operand.dtype(), map.extents}));
  std::vector<int64_t> from(map.coordinates.size());
  int64_t position = 0;
  for_each_coordinate(result.shape(), [&](const std::vector<int64_t>& at) {
    bool is_inside = true;
    for (const Expr& condition : map.conditions) is_inside = is_inside && context.at(condition, at) >= 0;
    if (is_inside) {
      for (size_t dim = 0; dim < from.size(); ++dim) {
        from[dim] = context.at(map.coordinates[dim], at);
        TILEFUSE_CHECK(from[dim] >= 0 && from[dim] < operand.shape()[dim],
                       "view reads coordinate " + std::to_string(from[dim]) + " of dimension " +
                           std::to_string(dim) + ", size " + std::to_string(operand.shape()[dim]) + ": " +
                           to_text(map));
      }
      result.copy_from(position, operand, flat_position(operand.shape(), from));
    } else {
      result.set(position, map.fill);
    }
    ++position;
  });
  return result;
}

Tensor reference_gather(const ReferenceContext& context, const Gather& gather,
                        const std::vector<const Tensor*>& operands, const TensorType& type) {
  const Tensor& data = *operands[0];
  Tensor result(type.dtype, context.shape(type));
  std::vector<int64_t> from(data.shape().size());
  int64_t position = 0;
  for_each_coordinate(result.shape(), [&](const std::vector<int64_t>& at) {
    for (size_t dim = 0; dim < from.size(); ++dim) {
      const int64_t base = context.at(gather.coordinates[dim], at);
      const int source = gather.from_index[dim];
      const int64_t index = source < 0 ? 0 : operands[static_cast<size_t>(source) + 1]->int_at(position);
      from[dim] = checked_index(index, base, data.shape()[dim], gather.wrap, dim);
    }
    result.copy_from(position, data, flat_position(data.shape(), from));
    ++position;
  });
  return result;
}

Tensor reference_scatter(const ReferenceContext& context, const Scatter& scatter,
                         const std::vector<const Tensor*>& operands) {
  const Tensor& updates = *operands[1];
  Tensor result = *operands[0];
  std::vector<int64_t> to(result.shape().size());
  int64_t position = 0;
  for_each_coordinate(updates.shape(), [&](const std::vector<int64_t>& at) {
    for (size_t dim = 0; dim < to.size(); ++dim) {
      const int64_t base = context.at(scatter.coordinates[dim], at);
      const int source = scatter.from_index[dim];
      const int64_t index = source < 0 ? 0 : operands[static_cast<size_t>(source) + 2]->int_at(position);
      to[dim] = checked_index(index, base, result.shape()[dim], scatter.wrap, dim);
    }
    combine_at(context, scatter.mode, result, flat_position(result.shape(), to), updates, position);
    ++position;
  });
  return result;
}

Tensor reference_concat(const ReferenceContext& context, int dim, const std::vector<const Tensor*>& operands,
                        const TensorType& type) {
  Tensor result(type.dtype, context.shape(type));
  const auto along = static_cast<size_t>(dim);
  int64_t offset = 0;
  for (const Tensor* operand : operands) {
    int64_t position = 0;
    for_each_coordinate(operand->shape(), [&](std::vector<int64_t> at) {
      at[along] += offset;
      result.copy_from(flat_position(result.shape(), at), *operand, position++);
    });
    offset += operand->shape()[along];
  }
  return result;
}

}  // namespace tilefuse
