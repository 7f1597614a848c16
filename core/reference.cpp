#include "core/reference.h"

#include "core/match.h"
#include "core/reference_op.h"
#include "core/rounding.h"

namespace tilefuse {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// The tensor inputs in order, each with its value.
std::vector<ValueId> tensor_inputs(const Graph& graph) {
  std::vector<ValueId> values;
  for (const GraphInput& input : graph.inputs) {
    if (input.tensor) values.push_back(*input.tensor);
  }
  return values;
}

void check_count(const Graph& graph, const std::vector<Tensor>& inputs) {
  const size_t expected = tensor_inputs(graph).size();
  if (inputs.size() != expected) {
    throw UserError("graph " + graph.name + " takes " + std::to_string(expected) + " tensors, got " +
                    std::to_string(inputs.size()));
  }
}

Tensor splat(const ReferenceContext& context, const Constant& constant, const TensorType& type) {
  Tensor result(type.dtype, context.shape(type));
  for (int64_t i = 0; i < result.count(); ++i) {
    result.set(i, constant.value);
    if (is_float(type.dtype)) result.set_float(i, context.rounded(type.dtype, result.float_at(i)));
  }
  return result;
}

Tensor counted(const ReferenceContext& context, const Iota& iota, const TensorType& type) {
  Tensor result(DType::I64, context.shape(type));
  const int64_t start = context.size(iota.start);
  const int64_t step = context.size(iota.step);
  int64_t position = 0;
  for_each_coordinate(result.shape(), [&](const std::vector<int64_t>& at) {
    result.set_int(position++, start + step * at[static_cast<size_t>(iota.dim)]);
  });
  return result;
}

Result<Tensor> computed(const ReferenceContext& context, const Op& op,
                        const std::vector<const Tensor*>& operands, const TensorType& type) {
  return match(
      op, [](const Input&) -> Result<Tensor> { return Unsupported{"an input is not computed"}; },
      [&](const Constant& constant) -> Result<Tensor> { return splat(context, constant, type); },
      [&](const Iota& iota) -> Result<Tensor> { return counted(context, iota, type); },
      [&](const Map& map) -> Result<Tensor> { return reference_map(context, map.fn, operands, type); },
      [&](const Reduce& reduce) -> Result<Tensor> {
        return reference_reduce(context, reduce, *operands[0], type);
      },
      [&](const Scan& scan) -> Result<Tensor> { return reference_scan(context, scan, *operands[0]); },
      [&](const View& view) -> Result<Tensor> { return reference_view(context, view.map, *operands[0]); },
      [&](const Concat& concat) -> Result<Tensor> {
        return reference_concat(context, concat.dim, operands, type);
      },
      [&](const Gather& gather) -> Result<Tensor> {
        return reference_gather(context, gather, operands, type);
      },
      [&](const Scatter& scatter) -> Result<Tensor> { return reference_scatter(context, scatter, operands); },
      [](const Call& call) -> Result<Tensor> {
        return Unsupported{"cannot interpret " + call.op + ": it is an opaque operator of the framework"};
      });
}

}  // namespace

SymbolValues bind_symbols(const Graph& graph, const std::vector<Tensor>& inputs) {
  check_count(graph, inputs);
  SymbolValues symbols;
  const std::vector<ValueId> values = tensor_inputs(graph);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::vector<Expr>& extents = graph[values[i]].type.shape;
    for (size_t dim = 0; dim < extents.size() && dim < inputs[i].shape().size(); ++dim) {
      const std::vector<std::string> names = symbols_of(extents[dim]);
      if (names.size() == 1 && to_text(extents[dim]) == names[0]) {
        symbols.try_emplace(names[0], inputs[i].shape()[dim]);
      }
    }
  }
  return symbols;
}

Result<std::vector<Tensor>> evaluate_values(const Graph& graph, const std::vector<Tensor>& inputs,
                                            const SymbolValues& symbols, const ReferenceOptions& options) {
  check_count(graph, inputs);
  const ReferenceContext context{symbols, options};
  std::vector<Tensor> values(graph.values.size());
  const std::vector<ValueId> tensors = tensor_inputs(graph);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Value& value = graph[tensors[i]];
    const std::vector<int64_t> shape = context.shape(value.type);
    if (inputs[i].dtype() != value.type.dtype || inputs[i].shape() != shape) {
      throw UserError("%" + value.name + " is " + info(value.type.dtype).name + shape_text(shape) + ", got " +
                      info(inputs[i].dtype()).name + shape_text(inputs[i].shape()));
    }
    values[tensors[i].index] = inputs[i];
  }
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<Input>(node.op)) continue;
    std::vector<const Tensor*> operands;
    operands.reserve(node.operands.size());
    for (const ValueId operand : node.operands) operands.push_back(&values[operand.index]);
    const TensorType type = node.results.empty() ? TensorType{} : graph[node.results[0]].type;
    Result<Tensor> result = computed(context, node.op, operands, type);
    if (!result) return result.unsupported();
    values[node.results[0].index] = *std::move(result);
  }
  return values;
}

Result<ReferenceResult> evaluate(const Graph& graph, const std::vector<Tensor>& inputs,
                                 const SymbolValues& symbols, const ReferenceOptions& options) {
  const Result<std::vector<Tensor>> values = evaluate_values(graph, inputs, symbols, options);
  if (!values) return values.unsupported();
  const ReferenceContext context{symbols, options};
  ReferenceResult result;
  for (const GraphOutput& output : graph.outputs) {
    result.outputs.push_back(match(
        output, [&](ValueId id) -> ReferenceOutput { return (*values)[id.index]; },
        [&](const Expr& e) -> ReferenceOutput { return context.size(e); },
        [](NoneArgument none) -> ReferenceOutput { return none; }));
  }
  for (const auto& [position, value] : graph.mutations) {
    result.mutations.emplace_back(position, (*values)[value.index]);
  }
  return result;
}

}  // namespace tilefuse
