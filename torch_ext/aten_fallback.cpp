#include "torch_ext/aten_fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "core/expr_terms.h"
#include "core/match.h"
#include "core/result.h"
#include "torch_ext/aten_map_table.h"
#include "torch_ext/boxed_call.h"
#include "torch_ext/tensors.h"

namespace tilefuse {
namespace {

using at::Tensor;
using c10::IValue;

IValue dtype_value(DType dtype) { return int64_t(to_scalar_type(dtype)); }
IValue int_list(const std::vector<int64_t>& values) { return c10::List<int64_t>(values); }
c10::Scalar number(const Scalar& value) {
  return match(
      value, [](bool v) { return c10::Scalar(v); }, [](int64_t v) { return c10::Scalar(v); },
      [](double v) { return c10::Scalar(v); });
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, const std::vector<Tensor>& inputs,
              const std::map<std::string, int64_t>& symbols, c10::Device device)
      : graph_(graph), inputs_(inputs), symbols_(symbols), device_(device), values_(graph.values.size()) {}

  std::vector<Tensor> run() {
    for (const Node& node : graph_.nodes) {
      const ValueId result = node.results[0];
      values_[result.index] = match(node.op, [&](const auto& op) { return evaluate_node(op, node, result); });
    }
    std::vector<Tensor> outputs;
    for (const GraphOutput& output : graph_.outputs) {
      const ValueId value = std::get<ValueId>(output);
      outputs.push_back(cast(values_[value.index], graph_[value].type.dtype));
    }
    return outputs;
  }

 private:
  // ------------------------------------------------------------ small parts
  const Tensor& operand(const Node& node, size_t i) const { return values_[node.operands[i].index]; }
  DType held(ValueId value) const { return info(graph_[value].type.dtype).compute; }
  static Tensor cast(const Tensor& tensor, DType dtype) {
    if (tensor.scalar_type() == to_scalar_type(dtype)) return tensor;
    return boxed("aten::_to_copy", "", {tensor, dtype_value(dtype)});
  }
  int64_t size(const Expr& expr) const {
    return evaluate(expr, {}, [&](const std::string& symbol) { return symbols_.at(symbol); });
  }
  std::vector<int64_t> sizes(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> result;
    result.reserve(exprs.size());
    for (const Expr& expr : exprs) result.push_back(size(expr));
    return result;
  }
  Tensor full(const std::vector<int64_t>& shape, const c10::Scalar& value, DType dtype) const {
    return boxed("aten::full", "", {int_list(shape), value, dtype_value(dtype), IValue(), device_});
  }
  static Tensor add(const Tensor& a, const Tensor& b) { return boxed("aten::add", "Tensor", {a, b}); }
  static Tensor times(const Tensor& a, int64_t b) { return boxed("aten::mul", "Scalar", {a, b}); }
  static Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
    return boxed("aten::where", "self", {condition, a, b});
  }
  static Tensor at_least(const Tensor& a, int64_t b) { return boxed("aten::ge", "Scalar", {a, b}); }

  // 0, 1, 2, ... along one dimension of `shape`, the others 1.
  Tensor coordinate(const std::vector<int64_t>& shape, size_t dim) const {
    std::vector<int64_t> thin(shape.size(), 1);
    thin[dim] = shape[dim];
    return boxed("aten::reshape", "",
                 {boxed("aten::arange", "", {shape[dim], dtype_value(DType::I64), IValue(), device_}),
                  int_list(thin)});
  }

  // ------------------------------------------------------------ coordinates as tensors
  Tensor coordinates_of(const Expr& expr, const std::vector<int64_t>& shape) const {
    Tensor sum = full(std::vector<int64_t>(shape.size(), 1), 0, DType::I64);
    for (const Expr::Term& term : expr.terms()) {
      Tensor product = full({}, term.coefficient, DType::I64);
      for (const Expr::Atom& atom : term.factors) {
        product = boxed("aten::mul", "Tensor", {product, atom_of(atom, shape)});
      }
      sum = add(sum, product);
    }
    return sum;
  }
  Tensor atom_of(const Expr::Atom& atom, const std::vector<int64_t>& shape) const {
    const auto both = [&](const char* op, const char* overload) {
      return boxed(op, overload, {coordinates_of(atom.args[0], shape), coordinates_of(atom.args[1], shape)});
    };
    switch (atom.kind) {
      case Expr::AtomKind::Index:
        return coordinate(shape, size_t(atom.index));
      case Expr::AtomKind::Symbol:
        return full({}, symbols_.at(atom.symbol), DType::I64);
      case Expr::AtomKind::FloorDiv:
        return both("aten::floor_divide", "");
      case Expr::AtomKind::Mod:
        return both("aten::remainder", "Tensor");
      case Expr::AtomKind::Min:
        return both("aten::minimum", "");
      case Expr::AtomKind::Max:
        return both("aten::maximum", "");
    }
    return {};
  }
  // Places counted row by row, from coordinates as tensors that broadcast to `shape`.
  Tensor counted(const Tensor& data, const std::vector<Tensor>& coordinates,
                 const std::vector<int64_t>& shape) const {
    Tensor place = full(shape, 0, DType::I64);
    int64_t stride = 1;
    for (size_t d = coordinates.size(); d-- > 0; stride *= data.size(int64_t(d))) {
      place = add(place, times(coordinates[d], stride));
    }
    return place;
  }
  // data[coordinates]
  Tensor take(const Tensor& data, const std::vector<Tensor>& coordinates,
              const std::vector<int64_t>& shape) const {
    const Tensor place = counted(data, coordinates, shape);
    // Of nothing, only nothing can be taken, which aten::take refuses unless the places are none.
    if (place.numel() == 0) return boxed("aten::new_empty", "", {data, int_list(shape)});
    return boxed("aten::take", "", {data, place});
  }
  // The base with the updates combined into it at these places.
  static Tensor put(ScatterMode mode, const Tensor& base, const Tensor& place, const Tensor& updates) {
    const bool adds = mode == ScatterMode::Add;
    if (adds || mode == ScatterMode::Assign) return boxed("aten::put", "", {base, place, updates, adds});
    const char* kind = mode == ScatterMode::Prod ? "prod" : mode == ScatterMode::Max ? "amax" : "amin";
    const auto flat = [](const Tensor& data) { return boxed("aten::reshape", "", {data, int_list({-1})}); };
    const Tensor combined =
        boxed("aten::scatter_reduce", "two",
              {flat(base), int64_t{0}, flat(place), flat(updates), std::string(kind), true});
    return boxed("aten::reshape", "", {combined, int_list(base.sizes().vec())});
  }

  // ------------------------------------------------------------ nodes
  Tensor evaluate_node(const Input& input, const Node&, ValueId result) const {
    return cast(inputs_[size_t(input.position)], held(result));
  }
  Tensor evaluate_node(const Constant& constant, const Node&, ValueId result) const {
    return full(sizes(graph_[result].type.shape), number(constant.value), held(result));
  }
  Tensor evaluate_node(const Iota& iota, const Node&, ValueId result) const {
    const auto shape = sizes(graph_[result].type.shape);
    const Expr value = iota.start + iota.step * Expr::index(iota.dim);
    return boxed("aten::expand", "", {coordinates_of(value, shape), int_list(shape)});
  }
  Tensor evaluate_node(const Map& map, const Node& node, ValueId result) const {
    if (map.fn == MapFn::Cast) return cast(cast(operand(node, 0), graph_[result].type.dtype), held(result));
    const AtenMap* row = aten_map(map.fn);
    TILEFUSE_CHECK(row != nullptr, std::string("no operator stands for ") + info(map.fn).name);
    std::vector<IValue> arguments;
    arguments.reserve(node.operands.size());
    for (size_t i = 0; i < node.operands.size(); ++i) arguments.emplace_back(operand(node, i));
    if (row->addend_first) std::rotate(arguments.begin(), arguments.end() - 1, arguments.end());
    if (row->rounding_mode != nullptr) arguments.emplace_back(std::string(row->rounding_mode));
    return cast(boxed(row->op, row->overload, std::move(arguments)), held(result));
  }
  // Which the framework's operators refuse: what any element is beyond.
  Tensor extreme_of_nothing(std::vector<int64_t> shape, ReduceKind kind, DType dtype) const {
    shape.pop_back();
    const bool is_largest = kind == ReduceKind::Max;
    if (is_float(dtype)) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      return full(shape, is_largest ? -kInfinity : kInfinity, dtype);
    }
    const int bits = info(dtype).is_signed ? size_in_bytes(dtype) * 8 - 1 : size_in_bytes(dtype) * 8;
    const int64_t high = dtype == DType::Bool ? 1 : int64_t((uint64_t{1} << bits) - 1);
    const int64_t low = info(dtype).is_signed ? -high - 1 : 0;
    return full(shape, is_largest ? low : high, dtype);
  }
  Tensor evaluate_node(const Reduce& reduce, const Node& node, ValueId result) const {
    // The reduced dimensions, made one at the end: argmax counts over all of them.
    const Tensor& data = operand(node, 0);
    std::vector<int64_t> order, kept;
    for (int64_t d = 0; d < data.dim(); ++d) {
      if (std::find(reduce.dims.begin(), reduce.dims.end(), int(d)) != reduce.dims.end()) continue;
      order.push_back(d);
      kept.push_back(data.size(d));
    }
    order.insert(order.end(), reduce.dims.begin(), reduce.dims.end());
    kept.push_back(std::accumulate(reduce.dims.begin(), reduce.dims.end(), int64_t{1},
                                   [&](int64_t n, int d) { return n * data.size(d); }));
    const Tensor rows =
        boxed("aten::reshape", "", {boxed("aten::permute", "", {data, int_list(order)}), int_list(kept)});
    const auto over_last = [&](const char* op, const char* overload) {
      return boxed(op, overload, {rows, int64_t{-1}});
    };
    const auto over_dims = [&](const char* op) { return boxed(op, "", {rows, int_list({-1})}); };
    switch (reduce.kind) {
      case ReduceKind::Sum:
        return cast(boxed("aten::sum", "dim_IntList", {rows, int_list({-1})}), held(result));
      case ReduceKind::Prod:
        return cast(over_last("aten::prod", "dim_int"), held(result));
      case ReduceKind::Max:
      case ReduceKind::Min:
        if (kept.back() == 0) return extreme_of_nothing(kept, reduce.kind, held(result));
        return over_dims(reduce.kind == ReduceKind::Max ? "aten::amax" : "aten::amin");
      case ReduceKind::Any:
        return cast(over_last("aten::any", "dim"), held(result));
      case ReduceKind::All:
        return cast(over_last("aten::all", "dim"), held(result));
      case ReduceKind::ArgMax:
        return over_last("aten::argmax", "");
      case ReduceKind::ArgMin:
        return over_last("aten::argmin", "");
    }
    return {};
  }
  Tensor evaluate_node(const Scan& scan, const Node& node, ValueId result) const {
    const std::vector<IValue> arguments = {operand(node, 0), int64_t{scan.dim}};
    switch (scan.kind) {
      case ReduceKind::Sum:
        return cast(boxed("aten::cumsum", "", arguments), held(result));
      case ReduceKind::Prod:
        return cast(boxed("aten::cumprod", "", arguments), held(result));
      case ReduceKind::Max:
        return boxed("aten::cummax", "", arguments);  // (values, positions)
      case ReduceKind::Min:
        return boxed("aten::cummin", "", arguments);
      default:
        break;
    }
    throw_internal_error("scan.kind", "a scan of this kind", __FILE__, __LINE__);
  }
  Tensor evaluate_node(const View& view, const Node& node, ValueId) const {
    const Tensor data = boxed("aten::contiguous", "", {operand(node, 0)});
    const auto shape = sizes(view.map.extents);
    std::optional<Tensor> inside;
    for (const Expr& condition : view.map.conditions) {
      const Tensor here = at_least(coordinates_of(condition, shape), 0);
      inside = inside ? boxed("aten::bitwise_and", "Tensor", {*inside, here}) : here;
    }
    std::vector<Tensor> coordinates;
    const Tensor zero = full({}, 0, DType::I64);
    for (const Expr& coordinate : view.map.coordinates) {
      const Tensor place = coordinates_of(coordinate, shape);
      coordinates.push_back(inside ? where(*inside, place, zero) : place);
    }
    if (!inside) return take(data, coordinates, shape);
    const Tensor fill = boxed("aten::full_like", "",
                              {boxed("aten::new_empty", "", {data, int_list(shape)}), number(view.map.fill)});
    return data.numel() == 0 ? fill : where(*inside, take(data, coordinates, shape), fill);
  }
  Tensor evaluate_node(const Concat& concat, const Node& node, ValueId) const {
    c10::List<Tensor> pieces;
    for (size_t i = 0; i < node.operands.size(); ++i) pieces.push_back(operand(node, i));
    return boxed("aten::cat", "", {pieces, int64_t{concat.dim}});
  }
  Tensor evaluate_node(const Gather& gather, const Node& node, ValueId result) const {
    const Tensor data = boxed("aten::contiguous", "", {operand(node, 0)});
    const auto shape = sizes(graph_[result].type.shape);
    return take(data, places(gather, node, 1, data, shape), shape);
  }
  Tensor evaluate_node(const Scatter& scatter, const Node& node, ValueId result) const {
    const DType dtype = graph_[result].type.dtype;  // every step rounds to it
    const Tensor base = boxed("aten::contiguous", "", {cast(operand(node, 0), dtype)});
    const auto shape = sizes(graph_[node.operands[1]].type.shape);
    const Tensor place = counted(base, places(scatter, node, 2, base, shape), shape);
    return cast(put(scatter.mode, base, place, cast(operand(node, 1), dtype)), held(result));
  }
  // Of a Gather or a Scatter: where every element of `shape` is read or written, by dimension of the data.
  template <class Placed>
  std::vector<Tensor> places(const Placed& op, const Node& node, size_t first_index, const Tensor& data,
                             const std::vector<int64_t>& shape) const {
    std::vector<Tensor> coordinates;
    for (size_t d = 0; d < op.coordinates.size(); ++d) {
      Tensor place = coordinates_of(op.coordinates[d], shape);
      if (op.from_index[d] >= 0) {
        const Tensor index = cast(operand(node, size_t(op.from_index[d]) + first_index), DType::I64);
        place = add(place, checked(index, data.size(int64_t(d)), op.wrap));
      }
      coordinates.push_back(place);
    }
    return coordinates;
  }
  Tensor checked(const Tensor& index, int64_t extent, bool wrap) const {
    const Tensor below = boxed("aten::lt", "Scalar", {index, int64_t{0}});
    const Tensor wrapped = wrap ? where(below, boxed("aten::add", "Scalar", {index, extent}), index) : index;
    const Tensor outside =
        boxed("aten::bitwise_or", "Tensor",
              {boxed("aten::lt", "Scalar", {wrapped, int64_t{0}}), at_least(wrapped, extent)});
    const Tensor any = boxed("aten::any", "", {outside});
    if (device_.is_cpu()) {
      TORCH_CHECK_INDEX(!*any.const_data_ptr<bool>(), "index out of range in self");
    } else {
      assert_on_device(boxed("aten::logical_not", "", {any}), "index out of range in self");
    }
    return wrapped;
  }
  // Fails there, later: without waiting, so that a stream may be captured.
  static void assert_on_device(const Tensor& holds, const char* message) {
    torch::jit::Stack stack = {holds, std::string(message)};
    c10::Dispatcher::singleton().findSchemaOrThrow("aten::_assert_async", "msg").callBoxed(stack);
  }
  Tensor evaluate_node(const Call& call, const Node&, ValueId) const {
    throw_internal_error("node", "the operator " + call.op + " inside a region", __FILE__, __LINE__);
  }

  const Graph& graph_;
  const std::vector<Tensor>& inputs_;
  const std::map<std::string, int64_t>& symbols_;
  c10::Device device_;
  std::vector<Tensor> values_;
};

}  // namespace

std::vector<at::Tensor> AtenFallback::run(const std::vector<at::Tensor>& inputs,
                                          const std::map<std::string, int64_t>& symbols,
                                          c10::Device device) const {
  return Interpreter(graph_, inputs, symbols, device).run();
}

}  // namespace tilefuse
