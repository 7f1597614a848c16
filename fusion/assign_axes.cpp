#include "fusion/assign_axes.h"

#include <algorithm>

#include "core/match.h"
#include "core/result.h"
#include "fusion/view_digits.h"

namespace tilefuse {
namespace {

class Linker {
 public:
  Linker(const Graph& graph, const RegionNodes& region, const RegionValues& values)
      : graph_(graph), region_(region), values_(values), assignment_{AxisFactors(values.values.size()), {}} {
    for (size_t value = 0; value < values.values.size(); ++value) add_dims(value);
  }

  AxisAssignment run() && {
    for (const bool of_inputs : {false, true}) {
      for (const NodeId id : region_.nodes) link_node(graph_[id], of_inputs);
      for (const NodeId id : region_.nodes) {
        if (const View* view = std::get_if<View>(&graph_[id].op)) link_view(graph_[id], *view, of_inputs);
      }
    }
    link_outputs();
    link_reduced();
    return std::move(assignment_);
  }

 private:
  using Dims = std::vector<std::vector<int>>;

  void add_dims(size_t value) {
    Dims& dims = assignment_.dims.emplace_back();
    for (const Expr& extent : graph_[values_.values[value]].type.shape) {
      std::vector<int>& list = dims.emplace_back();
      if (!extent.is_constant(1)) list.push_back(assignment_.factors.add(extent, value));
    }
  }

  Dims& dims(ValueId value) { return assignment_.dims[values_.number(value)]; }

  // Every dimension apart from `except` (-1: all).
  void link_dims(ValueId a, ValueId b, bool of_inputs, int except = -1) {
    if ((values_.is_input(a) || values_.is_input(b)) != of_inputs) return;
    const size_t rank = dims(a).size();
    for (size_t dim = 0; dim < rank; ++dim) {
      if (static_cast<int>(dim) != except) assignment_.factors.link(dims(a)[dim], dims(b)[dim]);
    }
  }

  void link_node(const Node& node, bool of_inputs) {
    const ValueId result = node.results[0];
    auto link_operands = [&](size_t first, int except) {
      for (size_t i = first; i < node.operands.size(); ++i) {
        link_dims(node.operands[i], result, of_inputs, except);
      }
    };
    match(
        node.op, [&](const Map&) { link_operands(0, -1); },
        [&](const Concat& concat) { link_operands(0, concat.dim); },
        [&](const Gather&) { link_operands(1, -1); }, [&](const Scatter&) { link_scatter(node, of_inputs); },
        [&](const Scan& scan) {
          for (const int factor : dims(node.operands[0])[scan.dim]) assignment_.factors.pin(factor);
          for (const int factor : dims(result)[scan.dim]) assignment_.factors.pin(factor);
          link_operands(0, -1);
        },
        [&](const Reduce& reduce) { link_kept(node, reduce, of_inputs); }, [](const View&) {},
        [](const Input&) {}, [](const Constant&) {}, [](const Iota&) {}, [](const Call&) {});
  }

  // What is there before has the result's shape, where it goes that of the updates.
  void link_scatter(const Node& node, bool of_inputs) {
    link_dims(node.operands[0], node.results[0], of_inputs);
    for (size_t i = 2; i < node.operands.size(); ++i) {
      link_dims(node.operands[i], node.operands[1], of_inputs);
    }
  }

  void link_kept(const Node& node, const Reduce& reduce, bool of_inputs) {
    if (values_.is_input(node.operands[0]) != of_inputs) return;
    const Dims& operand = dims(node.operands[0]);
    size_t kept = 0;
    for (size_t dim = 0; dim < operand.size(); ++dim) {
      if (std::binary_search(reduce.dims.begin(), reduce.dims.end(), static_cast<int>(dim))) continue;
      assignment_.factors.link(operand[dim], dims(node.results[0])[kept++]);
    }
  }

  void link_view(const Node& node, const View& view, bool of_inputs) {
    const ValueId operand = node.operands[0];
    if (values_.is_input(operand) != of_inputs) return;
    const ViewDigits digits = digits_of(view.map, graph_[operand].type.shape);
    AxisFactors& factors = assignment_.factors;
    Dims pieces;  // by output dimension
    for (size_t dim = 0; dim < digits.output.size(); ++dim) {
      std::vector<int>& row = pieces.emplace_back();
      for (const Expr& extent : digits.output[dim]) row.push_back(factors.add(extent));
      if (!row.empty() && !factors.link(row, dims(node.results[0])[dim])) row.clear();
    }
    for (size_t dim = 0; dim < digits.input.size(); ++dim) {
      if (!digits.input[dim]) continue;
      std::vector<int> list;
      for (const auto& [output, piece] : *digits.input[dim]) {
        if (!pieces[output].empty()) list.push_back(pieces[output][piece]);
      }
      if (list.size() == digits.input[dim]->size()) factors.link(list, dims(operand)[dim]);
    }
  }

  void link_outputs() {
    for (size_t i = 1; i < region_.outputs.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const auto& shape = graph_[region_.outputs[i]].type.shape;
        if (shape != graph_[region_.outputs[j]].type.shape) continue;
        for (size_t dim = 0; dim < shape.size(); ++dim) {
          assignment_.factors.link(dims(region_.outputs[j])[dim], dims(region_.outputs[i])[dim]);
        }
      }
    }
  }

  void link_reduced() {
    std::vector<int> reduced, stored;
    auto append = [this](std::vector<int>& list, const std::vector<int>& dim) {
      for (const int leaf : assignment_.factors.leaves(dim)) {
        if (std::find(list.begin(), list.end(), leaf) == list.end()) list.push_back(leaf);
      }
    };
    for (const NodeId id : region_.nodes) {
      if (const Reduce* reduce = std::get_if<Reduce>(&graph_[id].op)) {
        for (const int dim : reduce->dims) append(reduced, dims(graph_[id].operands[0])[dim]);
      } else if (const Scan* scan = std::get_if<Scan>(&graph_[id].op)) {
        append(reduced, dims(graph_[id].operands[0])[scan->dim]);
      }
    }
    for (const ValueId output : region_.outputs) {
      for (const auto& dim : dims(output)) append(stored, dim);
    }
    for (size_t i = 0; i < reduced.size(); ++i) {
      std::vector<int> partners(reduced.begin(), reduced.begin() + static_cast<std::ptrdiff_t>(i));
      partners.insert(partners.end(), stored.begin(), stored.end());
      for (const int partner : partners) {
        if (assignment_.factors.link({partner}, {reduced[i]})) break;
      }
    }
  }

  const Graph& graph_;
  const RegionNodes& region_;
  const RegionValues& values_;
  AxisAssignment assignment_;
};

}  // namespace

RegionValues::RegionValues(const Graph& graph, const RegionNodes& region) {
  auto add = [this](ValueId value) {
    if (numbers_.emplace(value, values.size()).second) values.push_back(value);
  };
  for (const ValueId value : region.inputs) add(value);
  inputs = values.size();
  for (const NodeId id : region.nodes) add(graph[id].results[0]);
}

size_t RegionValues::number(ValueId value) const {
  const auto found = numbers_.find(value);
  TILEFUSE_CHECK(found != numbers_.end(), "a region reads value " + std::to_string(value.index) +
                                              ", which is neither an input of it nor made in it");
  return found->second;
}

AxisAssignment assign_axes(const Graph& graph, const RegionNodes& region, const RegionValues& values) {
  return Linker(graph, region, values).run();
}

}  // namespace tilefuse
