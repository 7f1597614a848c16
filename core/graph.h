// The tensor graph: a closed set of operators on values with a dtype and symbolic shape. Tables, no pointers.
//
//   graph softmax(%x: f32[s0, 1024]) {
//     %m  = reduce.max(%x) {dims = [1]}                           : f32[s0]
//     %mb = view(%m) {map = (i0, i1) -> (i0) : [s0, 1024]}        : f32[s0, 1024]
//     %d  = sub(%x, %mb)                                          : f32[s0, 1024]
//     %e  = exp(%d)                                               : f32[s0, 1024]
//     ...
//     return %y
//   }
//
// On a GPU it is `graph softmax on "cuda:0"(...)`, and `%step: i64[] on "cpu"` a value that is elsewhere.
//
// Invariants (verify checks them): nodes are in topological order; operands of a Map all have the shape of
// its result (broadcasts are explicit Views); a Reduce drops its dims (keepdim is a View); bf16/f16 stay the
// *declared* dtype of values, while arithmetic happens in info(dtype).compute.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/dtype.h"
#include "core/expr.h"
#include "core/id.h"
#include "core/index_map.h"
#include "core/map_function.h"

namespace tilefuse {

struct TensorType {
  DType dtype = DType::F32;
  std::vector<Expr> shape;
  bool operator==(const TensorType&) const = default;
};

// ---------------------------------------------------------------- operators
struct Input {  // graph input number `position`; its strides stand at its value
  int position = 0;
  bool is_parameter = false;
  bool operator==(const Input&) const = default;
};
struct Constant {  // every element is `value`
  Scalar value;
  bool operator==(const Constant&) const = default;
};
struct Iota {  // i64: start + step * coordinate along `dim`
  int dim = 0;
  Expr start = 0, step = 1;
  bool operator==(const Iota&) const = default;
};
struct Map {
  MapFn fn;
  bool operator==(const Map&) const = default;
};
struct Reduce {
  ReduceKind kind;
  std::vector<int> dims;  // sorted; removed from the shape
  bool operator==(const Reduce&) const = default;
};
struct Scan {  // inclusive prefix along `dim`; kinds Sum, Prod, Max, Min
  ReduceKind kind;
  int dim = 0;
  bool operator==(const Scan&) const = default;
};
struct View {
  IndexMap map;
  bool operator==(const View&) const = default;
};
struct Concat {  // operands one after the other along `dim`
  int dim = 0;
  bool operator==(const Concat&) const = default;
};
// Operands: data, then the index values, each i64 or i32 of the output's shape. Output element o reads data
// at coordinates[i] (an Expr over o) + the value of index operand from_index[i] (-1: none). A negative index
// counts from the end when `wrap`; one out of range is the framework's IndexError, raised after the launch.
struct Gather {
  std::vector<Expr> coordinates;  // one per dimension of data
  std::vector<int> from_index;    // one per dimension of data: which index operand (0-based), or -1
  bool wrap = true;
  bool operator==(const Gather&) const = default;
};
// Operands: base, updates, then the index values, each i64 or i32 of the updates' shape. The result is the
// base in which every update u, in row-major order, is combined into the element at coordinates[i] (an Expr
// over u's coordinates) + the value of index operand from_index[i] (-1: none), as if one were done after the
// other: with Assign the last one stays. A negative index counts from the end when `wrap`; one out of range
// is the framework's IndexError, raised after the launch. In f16 and bf16 every step rounds.
struct Scatter {
  ScatterMode mode = ScatterMode::Add;
  std::vector<Expr> coordinates;  // one per dimension of the base
  std::vector<int> from_index;    // one per dimension of the base: which index operand (0-based), or -1
  bool wrap = true;
  bool operator==(const Scatter&) const = default;
};
struct CallArgument;
struct NoneArgument {
  bool operator==(const NoneArgument&) const = default;
};
struct OperandArgument {  // operand number `operand` of the node
  int operand = 0;
  bool operator==(const OperandArgument&) const = default;
};
struct EnumArgument {  // dtype, layout, device, memory format: kind and the framework's own text
  std::string kind, value;
  bool operator==(const EnumArgument&) const = default;
};
struct ListArgument {
  std::vector<CallArgument> items;
  bool operator==(const ListArgument&) const;
};
struct CallArgument {
  std::string name;  // of the schema's parameter; empty inside lists
  std::variant<NoneArgument, OperandArgument, bool, Expr, double, std::string, EnumArgument, ListArgument>
      value;
  bool operator==(const CallArgument&) const = default;
};
struct Call {  // an opaque operator of the framework: "aten::addmm", overload "default" -> ""
  std::string op, overload;
  std::vector<CallArgument> arguments;
  bool operator==(const Call&) const = default;
};

using Op = std::variant<Input, Constant, Iota, Map, Reduce, Scan, View, Concat, Gather, Scatter, Call>;

// ---------------------------------------------------------------- tables
struct Node {
  Op op;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;  // one, except for Call (any number)
  std::string source;            // "model.py:17 in forward: y = torch.relu(x)"; empty if unknown
  std::string origin;            // the framework operator it was expanded from: "aten.gelu.default"
};

struct Value {
  std::string name;  // unique, without '%'
  TensorType type;
  NodeId producer;
  // Strides (elements) that whoever sees this value from outside expects: inputs, results and operands of
  // Calls, graph outputs. Absent: nobody sees it, or contiguous will do.
  std::optional<std::vector<Expr>> strides;
  // An input that holds the same elements at every call (see constants.h).
  bool is_constant = false;
  // The device that has it, where that is not the graph's: "cpu", "cuda:1". Only inputs and results of Calls
  // are elsewhere, and only Calls and outputs read them.
  std::string elsewhere = {};
};

// What the graph returns at one position: a tensor, a size, or None.
using GraphOutput = std::variant<ValueId, Expr, NoneArgument>;

// An input position of the captured graph: a tensor (an Input node has it) or a size symbol.
struct GraphInput {
  std::optional<ValueId> tensor;
  Expr size;  // when it is no tensor: the symbol (or expression) it carries
};

struct Graph {
  std::string name;
  std::string device = "cpu";  // of its values, as the framework calls it: "cuda:0"
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<GraphInput> inputs;  // by position
  std::vector<GraphOutput> outputs;
  // (target, source): the value written back into the input of that position after the run (functionalised
  // mutation).
  std::vector<std::pair<int, ValueId>> mutations;

  const Node& operator[](NodeId id) const { return nodes[id.index]; }
  const Value& operator[](ValueId id) const { return values[id.index]; }
  const Node& producer(ValueId id) const { return nodes[values[id.index].producer.index]; }
};

// Builds a graph front to back; names are made unique.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& name);
  ValueId input(const std::string& name, TensorType type, bool is_parameter = false,
                std::optional<std::vector<Expr>> strides = std::nullopt);
  void size_input(Expr size);
  ValueId add(Op op, std::vector<ValueId> operands, TensorType type, const std::string& name = "");
  std::vector<ValueId> add_call(Call call, std::vector<ValueId> operands, std::vector<TensorType> types,
                                const std::vector<std::string>& names = {});
  // Shorthands that compute the result type.
  ValueId constant(Scalar value, TensorType type);
  ValueId iota(std::vector<Expr> shape, int dim, Expr start = 0, Expr step = 1);
  ValueId map(MapFn fn, std::vector<ValueId> operands, const std::string& name = "");
  ValueId cast(ValueId value, DType dtype);  // the value itself if it has that dtype
  ValueId reduce(ReduceKind kind, ValueId value, std::vector<int> dims, const std::string& name = "");
  ValueId view(ValueId value, IndexMap map, const std::string& name = "");  // the value itself if identity
  ValueId expand(ValueId value, const std::vector<Expr>& shape);            // numpy broadcasting
  void output(GraphOutput output);
  void mutation(int input_position, ValueId value);
  void set_source(std::string source, std::string origin);  // of the nodes added from now on
  void set_strides(ValueId value, std::vector<Expr> strides);
  void set_constant(ValueId value);
  void set_device(std::string device) { graph_.device = std::move(device); }
  void set_elsewhere(ValueId value, std::string device);  // nothing where it is the graph's
  void rename(ValueId value, const std::string& name);
  const Graph& graph() const { return graph_; }
  Graph finish();  // verified

 private:
  ValueId add_value(const std::string& name, TensorType type, NodeId producer);
  std::string unique_name(const std::string& wanted);

  Graph graph_;
  std::string source_, origin_;
  std::unordered_map<std::string, int> names_;  // taken, with the last number appended to each
};

// Users of every value, in node order.
std::vector<std::vector<NodeId>> users_of(const Graph& graph);

std::string to_text(const Graph& graph);
Graph parse_graph(std::string_view text);  // UserError with line and column

// Collects all findings and throws InternalError with the IR text and each message under its line.
void verify(const Graph& graph, std::string_view after_stage);

}  // namespace tilefuse
