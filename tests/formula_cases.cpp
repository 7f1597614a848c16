#include "tests/formula_cases.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "core/index_map.h"
#include "core/text_cursor.h"
#include "fusion/tile_writer.h"

namespace tilefuse {
namespace {

class CaseParser {
 public:
  explicit CaseParser(const std::string& text) : cursor_(text), writer_("case") {
    for (const auto& [name, extent] : {std::pair{"q", 5}, {"k", 45}, {"d", 6}, {"v", 4}, {"n", 3}}) {
      axes_.emplace(name, writer_.add_axis(extent));
    }
  }

  FormulaCase parse() {
    while (!cursor_.at_end()) statement();
    FormulaCase result{std::move(writer_).take(), {}};
    for (const auto& [name, axis] : axes_) result.graph.axes[axis.index].name = name;
    const AxisId walk = axes_.at("k");
    result.structure.reduced = {walk};
    for (uint32_t i = 0; i < result.graph.values.size(); ++i) {
      const TileReduce* reduce = std::get_if<TileReduce>(&result.graph.values[i].op);
      const bool walks = reduce != nullptr &&
                         std::find(reduce->axes.begin(), reduce->axes.end(), walk) != reduce->axes.end();
      if (walks) result.structure.reductions.push_back({i});
    }
    return result;
  }

 private:
  void statement() {
    cursor_.expect("%");
    target_ = cursor_.identifier();
    cursor_.expect("=");
    values_[target_] = expression(true);
  }

  TileValueId make(TileOp op, std::vector<TileValueId> operands, DType dtype, const std::string& name) {
    return writer_.add(std::move(op), std::move(operands), dtype, {}, name);
  }
  TileValueId literal(double value) { return make(TileConstant{value}, {}, DType::F32, "literal"); }

  TileValueId expression(bool outermost = false) {
    if (cursor_.accept("%")) return reference();
    const char first = cursor_.peek();
    if (first == '-' || first == '.' || (first >= '0' && first <= '9')) return literal(cursor_.number());
    const std::string op = cursor_.identifier();
    if (op == "inf") return literal(std::numeric_limits<double>::infinity());
    if (op == "iota" || op == "extent") return position(op);
    std::vector<TileValueId> operands;
    cursor_.list("(", ")", [&] { operands.push_back(expression()); });
    return apply(op, std::move(operands), outermost ? target_ : op);
  }

  TileValueId position(const std::string& op) {
    cursor_.expect("(");
    const AxisId axis = axes_.at(cursor_.identifier());
    cursor_.expect(")");
    if (op == "extent") return literal(static_cast<double>(*writer_.extents()[axis.index].constant()));
    const TileValueId index =
        make(TileIndex{Expr::index(static_cast<int>(axis.index))}, {}, DType::I64, "position");
    return make(TileMap{MapFn::Cast}, {index}, DType::F32, "iota");
  }

  TileValueId reference() {
    const std::string name = cursor_.identifier();
    if (!cursor_.looking_at("[")) return values_.at(name);
    std::vector<AxisId> axes;
    cursor_.list("[", "]", [&] { axes.push_back(axes_.at(cursor_.identifier())); });
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    Buffer buffer;
    buffer.name = name;
    buffer.dtype = name.starts_with("mask") ? DType::Bool : DType::F32;
    for (const AxisId axis : axes) buffer.shape.push_back(writer_.extents()[axis.index]);
    buffer.strides = contiguous_strides(buffer.shape);
    TileLoad load;
    for (size_t i = 0; i < axes.size(); ++i) {
      load.offset = load.offset + Expr::index(static_cast<int>(axes[i].index)) * buffer.strides[i];
    }
    load.buffer = writer_.add_buffer(std::move(buffer));
    return values_[name] = writer_.add_load(std::move(load), {});
  }

  TileValueId apply(const std::string& op, std::vector<TileValueId> operands, const std::string& name) {
    if (op == "contract") {
      const TileValueId product = make(TileMap{MapFn::Mul}, std::move(operands), DType::F32, "product");
      return make(TileReduce{ReduceKind::Sum, over()}, {product}, DType::F32, name);
    }
    if (op.starts_with("reduce.")) {
      const std::string kind = op.substr(7) == "add" ? "sum" : op.substr(7) == "mul" ? "prod" : op.substr(7);
      return make(TileReduce{*parse_reduce_kind(kind), over()}, std::move(operands), DType::F32, name);
    }
    if (op == "relu") operands.push_back(literal(0));
    const MapFn fn = op == "relu" ? MapFn::Max : op == "recip" ? MapFn::Reciprocal : *parse_map_fn(op);
    const bool is_test = info(fn).result == ResultKind::Bool || info(fn).no_floats;
    return make(TileMap{fn}, std::move(operands), is_test ? DType::Bool : DType::F32, name);
  }

  std::vector<AxisId> over() {
    cursor_.expect("over");
    std::vector<AxisId> axes;
    do {
      axes.push_back(axes_.at(cursor_.identifier()));
    } while (cursor_.accept(","));
    return axes;
  }

  TextCursor cursor_;
  TileWriter writer_;
  std::string target_;
  std::map<std::string, AxisId> axes_;
  std::map<std::string, TileValueId> values_;
};

}  // namespace

FormulaCase formula_case(const std::string& text) { return CaseParser(text).parse(); }

std::vector<Tensor> formula_inputs(const TileGraph& graph, double scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<Tensor> inputs;
  for (const Buffer& buffer : graph.buffers) {
    std::vector<int64_t> shape;
    for (const Expr& extent : buffer.shape) shape.push_back(*extent.constant());
    Tensor tensor(buffer.dtype, shape);
    const bool is_scaled = buffer.name == "Q" || buffer.name == "K" || buffer.name == "x";
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const int64_t row = i / shape.back(), column = i % shape.back();
      if (buffer.dtype == DType::Bool) {
        tensor.set_int(i, uniform(random) < 0.6 && row != 1 && !(row == 2 && column < 20) ? 1 : 0);
      } else if (buffer.name == "temp") {
        tensor.set_float(i, 0.5 + uniform(random));
      } else if (buffer.name == "label") {
        tensor.set_float(i, std::floor(uniform(random) * 45));
      } else {
        tensor.set_float(i, normal(random) * (is_scaled ? scale : 1) + 0.3);
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace tilefuse
