#include "tests/tile_evaluate.h"

#include <algorithm>
#include <utility>

#include "core/index_map.h"
#include "core/match.h"
#include "core/reference_map.h"
#include "core/reference_op.h"
#include "core/rounding.h"

namespace tilefuse {
namespace {

// A buffer as memory: elements at the positions its strides give.
struct Memory {
  const Buffer* buffer = nullptr;
  Tensor elements;  // one dimension
};

class Evaluator {
 public:
  Evaluator(const TileGraph& graph, const std::vector<Tensor>& inputs, const TileEvaluation& evaluation,
            const AxisRanges& ranges)
      : graph_(graph), context_{evaluation.symbols, evaluation.options} {
    for (const Axis& axis : graph.axes) {
      const AxisId id{static_cast<uint32_t>(ranges_.size())};
      const auto range = ranges.find(id);
      ranges_.push_back(range != ranges.end() ? range->second : AxisRange{0, context_.size(axis.extent)});
    }
    for (size_t i = 0; i < graph.buffers.size(); ++i) {
      memory_.push_back({&graph.buffers[i], Tensor(graph.buffers[i].dtype, {span_of(graph.buffers[i])})});
      if (i < inputs.size()) copy(graph.buffers[i], memory_.back().elements, inputs[i]);
    }
  }

  std::vector<Tensor> values(const KnownValues& known = {}) {
    for (uint32_t i = 0; i < graph_.values.size(); ++i) {
      const auto found = known.find({i});
      values_.push_back(found != known.end() ? found->second : make(graph_.values[i]));
    }
    return values_;
  }

  std::vector<Tensor> outputs() {
    values();
    for (const TileStore& store : graph_.stores) write(store);
    std::vector<Tensor> results;
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[i];
      if (buffer.role != Buffer::Role::Output) continue;
      Tensor result(buffer.dtype, sizes(buffer.shape));
      for_each_coordinate(result.shape(), [&](const std::vector<int64_t>& at) {
        result.copy_from(flat_position(result.shape(), at), memory_[i].elements, position(buffer, at));
      });
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  std::vector<int64_t> sizes(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> result;
    result.reserve(exprs.size());
    for (const Expr& e : exprs) result.push_back(context_.size(e));
    return result;
  }

  int64_t position(const Buffer& buffer, const std::vector<int64_t>& at) const {
    int64_t result = 0;
    for (size_t dim = 0; dim < at.size(); ++dim) result += at[dim] * context_.size(buffer.strides[dim]);
    return result;
  }

  int64_t span_of(const Buffer& buffer) const {
    int64_t last = 0;
    for (size_t dim = 0; dim < buffer.shape.size(); ++dim) {
      const int64_t extent = context_.size(buffer.shape[dim]);
      if (extent == 0) return 0;
      last += (extent - 1) * context_.size(buffer.strides[dim]);
    }
    return last + 1;
  }

  void copy(const Buffer& buffer, Tensor& memory, const Tensor& tensor) const {
    for_each_coordinate(tensor.shape(), [&](const std::vector<int64_t>& at) {
      memory.copy_from(position(buffer, at), tensor, flat_position(tensor.shape(), at));
    });
  }

  std::vector<int64_t> shape_of(const std::vector<AxisId>& axes) const {
    std::vector<int64_t> shape;
    shape.reserve(axes.size());
    for (const AxisId axis : axes) shape.push_back(ranges_[axis.index].end - ranges_[axis.index].begin);
    return shape;
  }

  // visit(flat position, value of every axis index)
  template <class Visit>
  void for_each_point(const std::vector<AxisId>& axes, const Visit& visit) const {
    std::vector<int64_t> indices(graph_.axes.size(), 0);
    int64_t flat = 0;
    for_each_coordinate(shape_of(axes), [&](const std::vector<int64_t>& at) {
      for (size_t i = 0; i < axes.size(); ++i) indices[axes[i].index] = ranges_[axes[i].index].begin + at[i];
      visit(flat++, indices);
    });
  }

  bool inside(const std::vector<Expr>& guard, const std::vector<int64_t>& indices) const {
    return std::all_of(guard.begin(), guard.end(),
                       [&](const Expr& e) { return context_.at(e, indices) >= 0; });
  }

  Tensor make(const TileValue& value) {
    return match(
        value.op, [&](const TileLoad& load) { return make_load(value, load); },
        [&](const TileConstant& constant) {
          Tensor result(value.dtype, {});
          result.set(0, constant.value);
          return result;
        },
        [&](const TileIndex& index) {
          Tensor result(value.dtype, shape_of(value.axes));
          for_each_point(value.axes, [&](int64_t flat, const std::vector<int64_t>& indices) {
            result.set_int(flat, context_.at(index.expr, indices));
          });
          return result;
        },
        [&](const TilePredicate& predicate) {
          Tensor result(value.dtype, shape_of(value.axes));
          for_each_point(value.axes, [&](int64_t flat, const std::vector<int64_t>& indices) {
            result.set_int(flat, inside(predicate.guard, indices) ? 1 : 0);
          });
          return result;
        },
        [&](const TileMap& map) { return make_map(value, map); },
        [&](const TileReduce& reduce) { return make_reduce(value, reduce); },
        [&](const TileScan& scan) {
          const auto along = std::find(value.axes.begin(), value.axes.end(), scan.axis);
          const Scan plain{scan.kind, static_cast<int>(along - value.axes.begin())};
          return reference_scan(context_, plain, operand(value, 0, value.axes));
        },
        [](const TileCarry&) -> Tensor { throw UserError("a carry has no value outside its walk"); });
  }

  Tensor operand(const TileValue& value, size_t number, const std::vector<AxisId>& axes) const {
    const TileValueId id = value.operands[number];
    return spread(values_[id.index], graph_[id].axes, axes, shape_of(axes));
  }

  // Literal sizes, for the operators of the tensor graph.
  TensorType type_of(const TileValue& value, bool rounds) const {
    TensorType type{rounds ? value.dtype : info(value.dtype).compute, {}};
    for (const int64_t extent : shape_of(value.axes)) type.shape.emplace_back(extent);
    return type;
  }

  Tensor make_map(const TileValue& value, const TileMap& map) const {
    std::vector<Tensor> operands;
    std::vector<const Tensor*> pointers;
    operands.reserve(value.operands.size());
    pointers.reserve(value.operands.size());
    for (size_t i = 0; i < value.operands.size(); ++i) operands.push_back(operand(value, i, value.axes));
    for (const Tensor& tensor : operands) pointers.push_back(&tensor);
    return reference_map(context_, map.fn, pointers, type_of(value, map.fn == MapFn::Cast));
  }

  Tensor make_reduce(const TileValue& value, const TileReduce& reduce) const {
    std::vector<AxisId> axes = value.axes;
    axes.insert(axes.end(), reduce.axes.begin(), reduce.axes.end());
    std::sort(axes.begin(), axes.end());
    Reduce plain{reduce.kind, {}};
    for (size_t i = 0; i < axes.size(); ++i) {
      if (std::binary_search(reduce.axes.begin(), reduce.axes.end(), axes[i])) {
        plain.dims.push_back(static_cast<int>(i));
      }
    }
    return reference_reduce(context_, plain, operand(value, 0, axes), type_of(value, false));
  }

  int64_t wrapped(const IndexTerm& term, int64_t at) const {
    const int64_t extent = context_.size(term.extent);
    if (term.wrap && at < 0) at += extent;
    if (at < 0 || at >= extent) throw UserError("index " + std::to_string(at) + " out of range");
    return at * context_.size(term.stride);
  }

  Tensor make_load(const TileValue& value, const TileLoad& load) const {
    Tensor result(value.dtype, shape_of(value.axes));
    const Tensor& memory = memory_[load.buffer.index].elements;
    std::vector<Tensor> indices;
    for (const IndexTerm& term : load.gathered) {
      const TileValueId id = term.value;
      indices.push_back(spread(values_[id.index], graph_[id].axes, value.axes, shape_of(value.axes)));
    }
    for_each_point(value.axes, [&](int64_t flat, const std::vector<int64_t>& at) {
      if (!inside(load.guard, at)) {
        result.set(flat, load.fill);
        return;
      }
      int64_t offset = context_.at(load.offset, at);
      for (size_t i = 0; i < indices.size(); ++i) {
        offset += wrapped(load.gathered[i], indices[i].int_at(flat));
      }
      if (offset < 0 || offset >= memory.count()) {
        throw UserError("%" + value.name + " reads element " + std::to_string(offset) + " of " +
                        std::to_string(memory.count()));
      }
      result.copy_from(flat, memory, offset);
    });
    return result;
  }

  void write(const TileStore& store) {
    Tensor& memory = memory_[store.buffer.index].elements;
    std::vector<AxisId> axes;
    for (const int index : indices_of(store.offset)) axes.push_back({static_cast<uint32_t>(index)});
    if (store.scatter) axes = store.scatter->over;
    const auto over_axes = [&](TileValueId id) {
      return spread(values_[id.index], graph_[id].axes, axes, shape_of(axes));
    };
    const Tensor value = over_axes(store.value);
    std::vector<Tensor> indices;
    for (size_t i = 1; i < operands_of(store).size(); ++i)
      indices.push_back(over_axes(operands_of(store)[i]));
    for_each_point(axes, [&](int64_t flat, const std::vector<int64_t>& at) {
      int64_t offset = context_.at(store.offset, at);
      for (size_t i = 0; i < indices.size(); ++i) {
        offset += wrapped(store.scatter->at[i], indices[i].int_at(flat));
      }
      if (offset < 0 || offset >= memory.count()) {
        throw UserError("%" + graph_[store.buffer].name + " is written at " + std::to_string(offset) +
                        " of " + std::to_string(memory.count()));
      }
      const auto combine = store.scatter ? info(store.scatter->mode).combine : std::nullopt;
      const DType dtype = memory.dtype();
      if (is_float(dtype)) {
        const double written = value.float_at(flat);
        const double all =
            combine ? float_map(*combine, dtype, {memory.float_at(offset), written, 0}) : written;
        memory.set_float(offset, context_.rounded(dtype, all));
      } else {
        const int64_t written = value.int_at(flat);
        const int64_t all = combine ? int_map(*combine, dtype, {memory.int_at(offset), written, 0}) : written;
        memory.set_int(offset, combine ? wrap_to(dtype, all) : all);
      }
    });
  }

  const TileGraph& graph_;
  ReferenceContext context_;
  std::vector<AxisRange> ranges_;
  std::vector<Memory> memory_;
  std::vector<Tensor> values_;
};

}  // namespace

Tensor spread(const Tensor& tensor, const std::vector<AxisId>& from, const std::vector<AxisId>& to,
              const std::vector<int64_t>& shape) {
  if (from == to) return tensor;
  std::vector<size_t> source;  // position in `to` of every axis of `from`
  source.reserve(from.size());
  for (const AxisId axis : from) {
    source.push_back(static_cast<size_t>(std::find(to.begin(), to.end(), axis) - to.begin()));
  }
  Tensor result(tensor.dtype(), shape);
  int64_t flat = 0;
  std::vector<int64_t> at(from.size());
  for_each_coordinate(shape, [&](const std::vector<int64_t>& coordinates) {
    for (size_t i = 0; i < from.size(); ++i) at[i] = coordinates[source[i]];
    result.copy_from(flat++, tensor, flat_position(tensor.shape(), at));
  });
  return result;
}

std::vector<Tensor> evaluate_values(const TileGraph& graph, const std::vector<Tensor>& inputs,
                                    const TileEvaluation& evaluation, const AxisRanges& ranges,
                                    const KnownValues& known) {
  return Evaluator(graph, inputs, evaluation, ranges).values(known);
}

std::vector<Tensor> evaluate(const TileGraph& graph, const std::vector<Tensor>& inputs,
                             const TileEvaluation& evaluation) {
  return Evaluator(graph, inputs, evaluation, {}).outputs();
}

}  // namespace tilefuse
