#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "core/graph.h"
#include "core/graph_symbols.h"
#include "core/graph_text.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

struct Finding {
  std::optional<NodeId> node;
  std::string message;
};

bool is_same_extent(const Expr& a, const Expr& b) { return a == b || simplify(a - b).is_constant(0); }

bool is_same_shape(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same_extent);
}

bool is_valid_name(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

bool is_framework_op(const std::string& op) {
  const size_t colons = op.find("::");
  return colons != std::string::npos && colons > 0 && colons + 2 < op.size();
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), is_defined_(graph.values.size(), false) {}

  std::vector<Finding> run() {
    check_inputs();
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) check_node(NodeId{i});
    node_.reset();
    check_values();
    check_outputs();
    check_symbols();
    return std::move(findings_);
  }

 private:
  void fail(std::string message) { findings_.push_back({node_, std::move(message)}); }
  void expect(bool holds, const std::string& message) {
    if (!holds) fail(message);
  }
  bool exists(ValueId id) const { return id.index < graph_.values.size(); }
  const TensorType& type(ValueId id) const { return graph_[id].type; }
  std::string named(ValueId id) const { return "%" + graph_[id].name; }

  void check_inputs();
  void check_values();
  void check_outputs();
  void check_symbols();
  void check_node(NodeId id);
  void check_op(const Node& node);
  void check_arity(const Node& node, size_t arity);
  void check_map(const Node& node, const MapFnInfo& row);
  void check_map_dtypes(const Node& node, const MapFnInfo& row);
  void check_reduce(const Node& node, const Reduce& reduce);
  void check_scan(const Node& node, const Scan& scan);
  void check_view(const Node& node, const IndexMap& map);
  void check_concat(const Node& node, int dim);
  void check_gather(const Node& node, const Gather& gather);
  void check_call(const Node& node, const Call& call);
  void check_argument(const Node& node, const CallArgument& argument);
  void check_indices(const Expr& e, size_t rank, const std::string& what);
  void check_dim(int dim, size_t rank);

  const Graph& graph_;
  std::vector<bool> is_defined_;
  std::optional<NodeId> node_;
  std::vector<Finding> findings_;
};

void Verifier::check_inputs() {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const GraphInput& input = graph_.inputs[i];
    if (!input.tensor) continue;
    const std::string where = "input " + std::to_string(i);
    if (!exists(*input.tensor) || graph_[*input.tensor].producer.index >= graph_.nodes.size()) {
      fail(where + " names a value that does not exist");
      continue;
    }
    const auto* op = std::get_if<Input>(&graph_.producer(*input.tensor).op);
    expect(op != nullptr && op->position == static_cast<int>(i),
           where + " is " + named(*input.tensor) + ", which is not made by Input " + std::to_string(i));
  }
}

void Verifier::check_values() {
  std::set<std::string> names;
  for (uint32_t i = 0; i < graph_.values.size(); ++i) {
    const Value& value = graph_.values[i];
    node_.reset();
    if (value.producer.index < graph_.nodes.size()) node_ = value.producer;
    if (!is_defined_[i]) fail("%" + value.name + " is the result of no node");
    if (!is_valid_name(value.name)) fail("'" + value.name + "' is not a name: letters, digits and _ only");
    if (!names.insert(value.name).second) fail("the name %" + value.name + " is used twice");
    for (const Expr& extent : value.type.shape) {
      check_indices(extent, 0, "an extent of %" + value.name);
      if (extent.constant() && *extent.constant() < 0) fail("%" + value.name + " has a negative extent");
    }
    if (!value.strides) continue;
    expect(value.strides->size() == value.type.shape.size(),
           "%" + value.name + " has " + std::to_string(value.strides->size()) + " strides for " +
               std::to_string(value.type.shape.size()) + " dimensions");
  }
  node_.reset();
}

void Verifier::check_outputs() {
  for (const GraphOutput& output : graph_.outputs) {
    const auto* value = std::get_if<ValueId>(&output);
    expect(value == nullptr || exists(*value), "an output names a value that does not exist");
  }
  for (const auto& [position, value] : graph_.mutations) {
    const std::string what = "mutation of input " + std::to_string(position);
    const bool is_tensor = position >= 0 && position < static_cast<int>(graph_.inputs.size()) &&
                           graph_.inputs[static_cast<size_t>(position)].tensor.has_value();
    if (!is_tensor || !exists(value)) {
      fail(what + " needs a tensor input and a value");
      continue;
    }
    const ValueId target = *graph_.inputs[static_cast<size_t>(position)].tensor;
    if (!exists(target)) continue;
    expect(type(target).dtype == type(value).dtype && is_same_shape(type(target).shape, type(value).shape),
           what + " writes " + to_text(type(value)) + " into " + to_text(type(target)));
  }
}

void Verifier::check_symbols() {
  const SymbolRanges ranges = symbol_ranges(graph_);
  std::set<std::string> reported;
  for_each_expr(graph_, [&](const Expr& e) {
    SymbolRanges own;
    add_symbol_ranges(e, own);
    for (const auto& [name, range] : own) {
      if (ranges.at(name) != range && reported.insert(name).second) {
        fail("symbol " + name + " has two different ranges");
      }
    }
  });
}

void Verifier::check_node(NodeId id) {
  node_ = id;
  const Node& node = graph_[id];
  bool is_sound = true;
  for (const ValueId operand : node.operands) {
    if (!exists(operand)) {
      fail("operand " + std::to_string(operand.index) + " does not exist");
      is_sound = false;
    } else if (!is_defined_[operand.index]) {
      fail("uses " + named(operand) + " before it is defined");
    }
  }
  for (const ValueId result : node.results) {
    if (!exists(result) || is_defined_[result.index] || graph_[result].producer != id) {
      fail("result " + std::to_string(result.index) + " does not exist, or belongs to another node");
      is_sound = false;
      continue;
    }
    is_defined_[result.index] = true;
  }
  const bool is_call = std::holds_alternative<Call>(node.op);
  if (!is_call && node.results.size() != 1) {
    fail("has " + std::to_string(node.results.size()) + " results, must have one");
    is_sound = false;
  }
  if (is_sound) check_op(node);
}

void Verifier::check_op(const Node& node) {
  match(
      node.op,
      [&](const Input& in) {
        check_arity(node, 0);
        const bool is_known = in.position >= 0 && in.position < static_cast<int>(graph_.inputs.size()) &&
                              graph_.inputs[static_cast<size_t>(in.position)].tensor == node.results[0];
        expect(is_known, "is not the tensor of input " + std::to_string(in.position));
      },
      [&](const Constant&) { check_arity(node, 0); },
      [&](const Iota& iota) {
        check_arity(node, 0);
        check_dim(iota.dim, type(node.results[0]).shape.size());
        expect(type(node.results[0]).dtype == DType::I64, "iota gives i64");
      },
      [&](const Map& map) { check_map(node, info(map.fn)); },
      [&](const Reduce& reduce) { check_reduce(node, reduce); },
      [&](const Scan& scan) { check_scan(node, scan); },
      [&](const View& view) { check_view(node, view.map); },
      [&](const Concat& concat) { check_concat(node, concat.dim); },
      [&](const Gather& gather) { check_gather(node, gather); },
      [&](const Call& call) { check_call(node, call); });
}

void Verifier::check_arity(const Node& node, size_t arity) {
  expect(node.operands.size() == arity,
         "takes " + std::to_string(arity) + " operands, got " + std::to_string(node.operands.size()));
}

void Verifier::check_dim(int dim, size_t rank) {
  expect(dim >= 0 && dim < static_cast<int>(rank),
         "dim " + std::to_string(dim) + " is outside the rank " + std::to_string(rank));
}

void Verifier::check_indices(const Expr& e, size_t rank, const std::string& what) {
  const std::vector<int> used = indices_of(e);
  if (!used.empty() && (used.front() < 0 || used.back() >= static_cast<int>(rank))) {
    fail(what + " (" + to_text(e) + ") uses an index outside the rank " + std::to_string(rank));
  }
}

void Verifier::check_map(const Node& node, const MapFnInfo& row) {
  check_arity(node, static_cast<size_t>(row.arity));
  if (static_cast<int>(node.operands.size()) != row.arity) return;
  for (const ValueId operand : node.operands) {
    expect(is_same_shape(type(operand).shape, type(node.results[0]).shape),
           named(operand) + " is " + to_text(type(operand)) + ", the result " +
               to_text(type(node.results[0])) + ": broadcasts are views of their own");
  }
  check_map_dtypes(node, row);
}

void Verifier::check_map_dtypes(const Node& node, const MapFnInfo& row) {
  const std::string name = row.name;
  const size_t first = row.fn == MapFn::Where ? 1 : 0;
  const DType dtype = type(node.operands[first]).dtype;
  if (first == 1) {
    expect(type(node.operands[0]).dtype == DType::Bool, "the condition of where must be bool");
  }
  for (size_t i = first; i < node.operands.size(); ++i) {
    const DType other = type(node.operands[i]).dtype;
    expect(other == dtype, name + " mixes " + info(dtype).name + " and " + info(other).name +
                               ": casts are nodes of their own");
  }
  expect(!row.floats_only || is_float(dtype), name + " takes floats, got " + info(dtype).name);
  expect(!row.no_floats || !is_float(dtype), name + " takes bools and integers, got " + info(dtype).name);
  const DType result = type(node.results[0]).dtype;
  if (row.result == ResultKind::Declared) return;
  const DType expected = row.result == ResultKind::Bool ? DType::Bool : dtype;
  expect(result == expected, name + " gives " + info(expected).name + ", not " + info(result).name);
}

void Verifier::check_reduce(const Node& node, const Reduce& reduce) {
  check_arity(node, 1);
  if (node.operands.size() != 1) return;
  const TensorType& from = type(node.operands[0]);
  const TensorType& to = type(node.results[0]);
  const bool is_ascending =
      std::adjacent_find(reduce.dims.begin(), reduce.dims.end(), std::greater_equal<>()) == reduce.dims.end();
  expect(!reduce.dims.empty() && is_ascending, "dims must be a rising list of at least one");
  for (const int dim : reduce.dims) check_dim(dim, from.shape.size());
  std::vector<Expr> kept;
  for (size_t dim = 0; dim < from.shape.size(); ++dim) {
    if (std::count(reduce.dims.begin(), reduce.dims.end(), static_cast<int>(dim)) == 0) {
      kept.push_back(from.shape[dim]);
    }
  }
  const DType dtype = info(reduce.kind).is_index ? DType::I64 : from.dtype;
  expect(is_same_shape(kept, to.shape) && dtype == to.dtype,
         "gives " + to_text(TensorType{dtype, kept}) + ", not " + to_text(to));
  const bool is_logic = reduce.kind == ReduceKind::Any || reduce.kind == ReduceKind::All;
  expect(!is_logic || from.dtype == DType::Bool, "any and all take bool");
}

void Verifier::check_scan(const Node& node, const Scan& scan) {
  check_arity(node, 1);
  if (node.operands.size() != 1) return;
  const TensorType& from = type(node.operands[0]);
  check_dim(scan.dim, from.shape.size());
  const TensorType& to = type(node.results[0]);
  expect(from.dtype == to.dtype && is_same_shape(from.shape, to.shape),
         "gives " + to_text(from) + ", not " + to_text(to));
  expect(scan.kind <= ReduceKind::Min, std::string("there is no scan.") + info(scan.kind).name);
}

void Verifier::check_view(const Node& node, const IndexMap& map) {
  check_arity(node, 1);
  if (node.operands.size() != 1) return;
  const TensorType& from = type(node.operands[0]);
  const TensorType& to = type(node.results[0]);
  expect(from.dtype == to.dtype && is_same_shape(map.extents, to.shape),
         "gives " + to_text(TensorType{from.dtype, map.extents}) + ", not " + to_text(to));
  expect(map.coordinates.size() == from.shape.size(),
         "the map has " + std::to_string(map.coordinates.size()) + " coordinates for an input of rank " +
             std::to_string(from.shape.size()));
  for (const Expr& e : map.coordinates) check_indices(e, map.extents.size(), "a coordinate");
  for (const Expr& e : map.conditions) check_indices(e, map.extents.size(), "a condition");
}

void Verifier::check_concat(const Node& node, int dim) {
  expect(!node.operands.empty(), "needs an operand");
  const TensorType& to = type(node.results[0]);
  check_dim(dim, to.shape.size());
  if (dim < 0 || dim >= static_cast<int>(to.shape.size())) return;
  const auto at = static_cast<size_t>(dim);
  Expr total = 0;
  for (const ValueId operand : node.operands) {
    std::vector<Expr> shape = type(operand).shape;
    if (shape.size() == to.shape.size()) {
      total = total + shape[at];
      shape[at] = to.shape[at];
    }
    expect(type(operand).dtype == to.dtype && is_same_shape(shape, to.shape),
           named(operand) + " is " + to_text(type(operand)) + ", which is no piece of " + to_text(to));
  }
  expect(is_same_extent(total, to.shape[at]),
         "the pieces add up to " + to_text(total) + ", not " + to_text(to.shape[at]));
}

void Verifier::check_gather(const Node& node, const Gather& gather) {
  if (node.operands.empty()) return fail("needs the data to gather from");
  const TensorType& data = type(node.operands[0]);
  const TensorType& to = type(node.results[0]);
  expect(data.dtype == to.dtype, "gives " + std::string(info(data.dtype).name) + " as its data");
  expect(gather.coordinates.size() == data.shape.size() && gather.from_index.size() == data.shape.size(),
         "needs one coordinate and one from_index per dimension of " + to_text(data));
  for (const Expr& e : gather.coordinates) check_indices(e, to.shape.size(), "a coordinate");
  const int index_count = static_cast<int>(node.operands.size()) - 1;
  for (const int from : gather.from_index) {
    expect(from >= -1 && from < index_count, "there is no index operand " + std::to_string(from));
  }
  for (size_t i = 1; i < node.operands.size(); ++i) {
    const TensorType& index = type(node.operands[i]);
    const bool is_index = index.dtype == DType::I64 || index.dtype == DType::I32;
    expect(is_index && is_same_shape(index.shape, to.shape),
           named(node.operands[i]) + " is " + to_text(index) + ": an index is i64 or i32 of shape " +
               to_text(TensorType{DType::I64, to.shape}));
  }
}

void Verifier::check_call(const Node& node, const Call& call) {
  expect(is_framework_op(call.op), "'" + call.op + "' is no operator name: namespace::name");
  for (const CallArgument& argument : call.arguments) {
    expect(!argument.name.empty(), "an argument of a call needs the name of its parameter");
    check_argument(node, argument);
  }
}

void Verifier::check_argument(const Node& node, const CallArgument& argument) {
  if (const auto* operand = std::get_if<OperandArgument>(&argument.value)) {
    expect(operand->operand >= 0 && operand->operand < static_cast<int>(node.operands.size()),
           "argument " + argument.name + " names operand " + std::to_string(operand->operand));
  }
  if (const auto* list = std::get_if<ListArgument>(&argument.value)) {
    for (const CallArgument& item : list->items) check_argument(node, item);
  }
}

std::string annotated(const Graph& graph, const std::vector<Finding>& findings) {
  std::multimap<uint32_t, std::string> by_node;
  std::string rest;
  for (const Finding& finding : findings) {
    const bool has_line = finding.node && !std::holds_alternative<Input>(graph[*finding.node].op);
    if (has_line) {
      by_node.emplace(finding.node->index, finding.message);
    } else {
      rest += "^ " + finding.message + "\n";
    }
  }
  std::string text;
  for (const GraphLine& line : text_lines(graph)) {
    text += line.text + "\n";
    if (!line.node) continue;
    const auto [begin, end] = by_node.equal_range(line.node->index);
    for (auto it = begin; it != end; ++it) text += "  ^ " + it->second + "\n";
  }
  return text + rest;
}

}  // namespace

void verify(const Graph& graph, std::string_view after_stage) {
  const std::vector<Finding> findings = Verifier(graph).run();
  if (findings.empty()) return;
  throw InternalError("verify graph after " + std::string(after_stage) + ": " +
                      std::to_string(findings.size()) + (findings.size() == 1 ? " finding" : " findings") +
                      "\n" + annotated(graph, findings));
}

}  // namespace tilefuse
