#include "core/verify_op.h"

#include <algorithm>

#include "core/graph_text.h"
#include "core/match.h"

namespace tilefuse {
namespace {

bool is_same_extent(const Expr& a, const Expr& b) { return a == b || simplify(a - b).is_constant(0); }

bool is_framework_op(const std::string& op) {
  const size_t colons = op.find("::");
  return colons != std::string::npos && colons > 0 && colons + 2 < op.size();
}

class OpVerifier {
 public:
  OpVerifier(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  std::vector<std::string> run();

 private:
  void fail(std::string message) { findings_.push_back(std::move(message)); }
  void expect(bool holds, const std::string& message) {
    if (!holds) fail(message);
  }
  const TensorType& type(ValueId id) const { return graph_[id].type; }
  std::string named(ValueId id) const { return "%" + graph_[id].name; }

  void check_op();
  void check_opaque();
  void check_arity(size_t arity);
  void check_map(const MapFnInfo& row);
  void check_map_dtypes(const MapFnInfo& row);
  void check_reduce(const Reduce& reduce);
  void check_scan(const Scan& scan);
  void check_view(const IndexMap& map);
  void check_concat(int dim);
  template <class Placed>
  void check_places(const Placed& op, const TensorType& data, const TensorType& walked, size_t first_index);
  void check_gather(const Gather& gather);
  void check_scatter(const Scatter& scatter);
  void check_call(const Call& call);
  void check_argument(const CallArgument& argument);
  void check_indices(const Expr& e, size_t rank, const std::string& what);
  void check_dim(int dim, size_t rank);

  const Graph& graph_;
  const Node& node_;
  std::vector<std::string> findings_;
};

std::vector<std::string> OpVerifier::run() {
  check_op();
  check_opaque();
  return std::move(findings_);
}

// Only operators of the framework touch elements that the tensor graph cannot compute with.
void OpVerifier::check_opaque() {
  if (std::holds_alternative<Input>(node_.op) || std::holds_alternative<Call>(node_.op)) return;
  for (const std::vector<ValueId>* values : {&node_.operands, &node_.results}) {
    for (const ValueId value : *values) {
      expect(!is_opaque(type(value).dtype), named(value) + " is " + to_text(type(value)) +
                                                ": elements that only the framework's operators touch");
    }
  }
}

void OpVerifier::check_op() {
  match(
      node_.op,
      [&](const Input& in) {
        check_arity(0);
        const bool is_known = in.position >= 0 && in.position < static_cast<int>(graph_.inputs.size()) &&
                              graph_.inputs[static_cast<size_t>(in.position)].tensor == node_.results[0];
        expect(is_known, "is not the tensor of input " + std::to_string(in.position));
      },
      [&](const Constant&) { check_arity(0); },
      [&](const Iota& iota) {
        check_arity(0);
        check_dim(iota.dim, type(node_.results[0]).shape.size());
        expect(type(node_.results[0]).dtype == DType::I64, "iota gives i64");
      },
      [&](const Map& map) { check_map(info(map.fn)); }, [&](const Reduce& reduce) { check_reduce(reduce); },
      [&](const Scan& scan) { check_scan(scan); }, [&](const View& view) { check_view(view.map); },
      [&](const Concat& concat) { check_concat(concat.dim); },
      [&](const Gather& gather) { check_gather(gather); },
      [&](const Scatter& scatter) { check_scatter(scatter); }, [&](const Call& call) { check_call(call); });
}

void OpVerifier::check_arity(size_t arity) {
  expect(node_.operands.size() == arity,
         "takes " + std::to_string(arity) + " operands, got " + std::to_string(node_.operands.size()));
}

void OpVerifier::check_dim(int dim, size_t rank) {
  expect(dim >= 0 && dim < static_cast<int>(rank),
         "dim " + std::to_string(dim) + " is outside the rank " + std::to_string(rank));
}

void OpVerifier::check_indices(const Expr& e, size_t rank, const std::string& what) {
  const std::vector<int> used = indices_of(e);
  if (!used.empty() && (used.front() < 0 || used.back() >= static_cast<int>(rank))) {
    fail(what + " (" + to_text(e) + ") uses an index outside the rank " + std::to_string(rank));
  }
}

void OpVerifier::check_map(const MapFnInfo& row) {
  check_arity(static_cast<size_t>(row.arity));
  if (static_cast<int>(node_.operands.size()) != row.arity) return;
  for (const ValueId operand : node_.operands) {
    expect(is_same_shape(type(operand).shape, type(node_.results[0]).shape),
           named(operand) + " is " + to_text(type(operand)) + ", the result " +
               to_text(type(node_.results[0])) + ": broadcasts are views of their own");
  }
  check_map_dtypes(row);
}

void OpVerifier::check_map_dtypes(const MapFnInfo& row) {
  const std::string name = row.name;
  const size_t first = row.fn == MapFn::Where ? 1 : 0;
  const DType dtype = type(node_.operands[first]).dtype;
  if (first == 1) {
    expect(type(node_.operands[0]).dtype == DType::Bool, "the condition of where must be bool");
  }
  for (size_t i = first; i < node_.operands.size(); ++i) {
    const DType other = type(node_.operands[i]).dtype;
    expect(other == dtype, name + " mixes " + info(dtype).name + " and " + info(other).name +
                               ": casts are nodes of their own");
  }
  expect(!row.floats_only || is_float(dtype), name + " takes floats, got " + info(dtype).name);
  expect(!row.no_floats || !is_float(dtype), name + " takes bools and integers, got " + info(dtype).name);
  const DType result = type(node_.results[0]).dtype;
  if (row.result == ResultKind::Declared) return;
  const DType expected = row.result == ResultKind::Bool ? DType::Bool : dtype;
  expect(result == expected, name + " gives " + info(expected).name + ", not " + info(result).name);
}

void OpVerifier::check_reduce(const Reduce& reduce) {
  check_arity(1);
  if (node_.operands.size() != 1) return;
  const TensorType& from = type(node_.operands[0]);
  const TensorType& to = type(node_.results[0]);
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

void OpVerifier::check_scan(const Scan& scan) {
  check_arity(1);
  if (node_.operands.size() != 1) return;
  const TensorType& from = type(node_.operands[0]);
  check_dim(scan.dim, from.shape.size());
  const TensorType& to = type(node_.results[0]);
  expect(from.dtype == to.dtype && is_same_shape(from.shape, to.shape),
         "gives " + to_text(from) + ", not " + to_text(to));
  expect(scan.kind <= ReduceKind::Min, std::string("there is no scan.") + info(scan.kind).name);
}

void OpVerifier::check_view(const IndexMap& map) {
  check_arity(1);
  if (node_.operands.size() != 1) return;
  const TensorType& from = type(node_.operands[0]);
  const TensorType& to = type(node_.results[0]);
  expect(from.dtype == to.dtype && is_same_shape(map.extents, to.shape),
         "gives " + to_text(TensorType{from.dtype, map.extents}) + ", not " + to_text(to));
  expect(map.coordinates.size() == from.shape.size(),
         "the map has " + std::to_string(map.coordinates.size()) + " coordinates for an input of rank " +
             std::to_string(from.shape.size()));
  for (const Expr& e : map.coordinates) check_indices(e, map.extents.size(), "a coordinate");
  for (const Expr& e : map.conditions) check_indices(e, map.extents.size(), "a condition");
}

void OpVerifier::check_concat(int dim) {
  expect(!node_.operands.empty(), "needs an operand");
  const TensorType& to = type(node_.results[0]);
  check_dim(dim, to.shape.size());
  if (dim < 0 || dim >= static_cast<int>(to.shape.size())) return;
  const auto at = static_cast<size_t>(dim);
  Expr total = 0;
  for (const ValueId operand : node_.operands) {
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

// Where a Gather reads its data, or a Scatter writes its base: over the coordinates of `walked`.
template <class Placed>
void OpVerifier::check_places(const Placed& op, const TensorType& data, const TensorType& walked,
                              size_t first_index) {
  expect(op.coordinates.size() == data.shape.size() && op.from_index.size() == data.shape.size(),
         "needs one coordinate and one from_index per dimension of " + to_text(data));
  for (const Expr& e : op.coordinates) check_indices(e, walked.shape.size(), "a coordinate");
  const int index_count = static_cast<int>(node_.operands.size() - first_index);
  for (const int from : op.from_index) {
    expect(from >= -1 && from < index_count, "there is no index operand " + std::to_string(from));
  }
  for (size_t i = first_index; i < node_.operands.size(); ++i) {
    const TensorType& index = type(node_.operands[i]);
    const bool is_index = index.dtype == DType::I64 || index.dtype == DType::I32;
    expect(is_index && is_same_shape(index.shape, walked.shape),
           named(node_.operands[i]) + " is " + to_text(index) + ": an index is i64 or i32 of shape " +
               to_text(TensorType{DType::I64, walked.shape}));
  }
}

void OpVerifier::check_gather(const Gather& gather) {
  if (node_.operands.empty()) return fail("needs the data to gather from");
  const TensorType& data = type(node_.operands[0]);
  const TensorType& to = type(node_.results[0]);
  expect(data.dtype == to.dtype, "gives " + std::string(info(data.dtype).name) + " as its data");
  check_places(gather, data, to, 1);
}

void OpVerifier::check_scatter(const Scatter& scatter) {
  if (node_.operands.size() < 2) return fail("needs a base and the updates to scatter into it");
  const TensorType& base = type(node_.operands[0]);
  const TensorType& updates = type(node_.operands[1]);
  const TensorType& to = type(node_.results[0]);
  expect(base.dtype == to.dtype && is_same_shape(base.shape, to.shape),
         "gives " + to_text(base) + " as its base");
  expect(updates.dtype == base.dtype,
         "its updates are " + std::string(info(base.dtype).name) + " as its base");
  expect(scatter.mode == ScatterMode::Assign || base.dtype != DType::Bool,
         "combines no bools, which are assigned");
  check_places(scatter, base, updates, 2);
}

void OpVerifier::check_call(const Call& call) {
  expect(is_framework_op(call.op), "'" + call.op + "' is no operator name: namespace::name");
  for (const CallArgument& argument : call.arguments) {
    expect(!argument.name.empty(), "an argument of a call needs the name of its parameter");
    check_argument(argument);
  }
}

void OpVerifier::check_argument(const CallArgument& argument) {
  if (const auto* operand = std::get_if<OperandArgument>(&argument.value)) {
    expect(operand->operand >= 0 && operand->operand < static_cast<int>(node_.operands.size()),
           "argument " + argument.name + " names operand " + std::to_string(operand->operand));
  }
  if (const auto* list = std::get_if<ListArgument>(&argument.value)) {
    for (const CallArgument& item : list->items) check_argument(item);
  }
}

}  // namespace

bool is_same_shape(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same_extent);
}

std::vector<std::string> op_findings(const Graph& graph, const Node& node) {
  return OpVerifier(graph, node).run();
}

}  // namespace tilefuse
