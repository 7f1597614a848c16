#include "core/reference_op.h"

#include "core/reference_map.h"
#include "core/rounding.h"

namespace tilefuse {
namespace {

std::array<double, 3> float_operands(const std::vector<const Tensor*>& operands, int64_t position) {
  std::array<double, 3> x{};
  for (size_t i = 0; i < operands.size(); ++i) x[i] = operands[i]->float_at(position);
  return x;
}

std::array<int64_t, 3> int_operands(const std::vector<const Tensor*>& operands, int64_t position) {
  std::array<int64_t, 3> x{};
  for (size_t i = 0; i < operands.size(); ++i) x[i] = operands[i]->int_at(position);
  return x;
}

void cast_element(const ReferenceContext& context, const Tensor& from, Tensor& to, int64_t position) {
  const DType dtype = to.dtype();
  if (is_float(from.dtype())) {
    const double value = from.float_at(position);
    if (is_float(dtype)) return to.set_float(position, context.rounded(dtype, value));
    return to.set_int(position, float_to_int(dtype, value));
  }
  const int64_t value = from.int_at(position);
  if (!is_float(dtype)) return to.set_int(position, wrap_to(dtype, value));
  const DType exact = context.options.rounds_floats ? dtype : DType::F64;
  to.set_float(position, int_to_float(exact, value));
}

void test_element(MapFn fn, const std::vector<const Tensor*>& operands, Tensor& to, int64_t position) {
  const bool is_float_test = is_float(operands[0]->dtype());
  bool holds = false;
  if (is_float_test) {
    const auto x = float_operands(operands, position);
    holds = float_test(fn, x[0], x[1]);
  } else {
    const auto x = int_operands(operands, position);
    holds = int_test(fn, x[0], x[1]);
  }
  to.set_int(position, holds ? 1 : 0);
}

}  // namespace

int64_t ReferenceContext::size(const Expr& e) const { return at(e, {}); }

int64_t ReferenceContext::at(const Expr& e, const std::vector<int64_t>& coordinates) const {
  if (const auto value = e.constant()) return *value;
  return evaluate(e, coordinates, [&](const std::string& name) {
    const auto found = symbols.find(name);
    if (found == symbols.end()) throw UserError("the size symbol " + name + " has no value");
    return found->second;
  });
}

std::vector<int64_t> ReferenceContext::shape(const TensorType& type) const {
  std::vector<int64_t> sizes;
  sizes.reserve(type.shape.size());
  for (const Expr& extent : type.shape) sizes.push_back(size(extent));
  return sizes;
}

double ReferenceContext::rounded(DType dtype, double value) const {
  return options.rounds_floats ? round_to(dtype, value) : value;
}

Tensor reference_map(const ReferenceContext& context, MapFn fn, const std::vector<const Tensor*>& operands,
                     const TensorType& type) {
  Tensor result(type.dtype, context.shape(type));
  const DType compute = context.options.rounds_floats ? info(type.dtype).compute : DType::F64;
  for (int64_t i = 0; i < result.count(); ++i) {
    if (fn == MapFn::Cast) {
      cast_element(context, *operands[0], result, i);
    } else if (fn == MapFn::Where) {
      result.copy_from(i, *operands[operands[0]->int_at(i) != 0 ? 1 : 2], i);
    } else if (info(fn).result == ResultKind::Bool) {
      test_element(fn, operands, result, i);
    } else if (is_float(type.dtype)) {
      const double value = float_map(fn, compute, float_operands(operands, i));
      result.set_float(i, context.rounded(type.dtype, value));
    } else {
      const int64_t value = int_map(fn, type.dtype, int_operands(operands, i));
      result.set_int(i, wrap_to(type.dtype, value));
    }
  }
  return result;
}

}  // namespace tilefuse
