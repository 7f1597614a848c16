#include <algorithm>
#include <cctype>

#include "core/graph.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

std::string sanitized(const std::string& wanted) {
  std::string name = wanted.empty() ? "v" : wanted;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(0, 1, 'v');
  return name;
}

// What a value without a name of its own is called: after what made it.
std::string default_name(const Op& op) {
  return match(
      op, [](const Input&) -> std::string { return "in"; },
      [](const Constant&) -> std::string { return "c"; }, [](const Iota&) -> std::string { return "iota"; },
      [](const Map& map) -> std::string { return info(map.fn).name; },
      [](const Reduce& reduce) -> std::string { return info(reduce.kind).name; },
      [](const Scan& scan) -> std::string { return std::string("cum") + info(scan.kind).name; },
      [](const View&) -> std::string { return "view"; },
      [](const Concat&) -> std::string { return "concat"; },
      [](const Gather&) -> std::string { return "gather"; },
      [](const Scatter&) -> std::string { return "scatter"; },
      [](const Call& call) -> std::string { return call.op.substr(call.op.rfind(':') + 1); });
}

DType map_result_dtype(const Graph& graph, MapFn fn, const std::vector<ValueId>& operands) {
  const MapFnInfo& row = info(fn);
  TILEFUSE_CHECK(row.result != ResultKind::Declared,
                 std::string(row.name) + " needs its dtype declared: use GraphBuilder::cast");
  if (row.result == ResultKind::Bool) return DType::Bool;
  return graph[operands[fn == MapFn::Where ? 1 : 0]].type.dtype;
}

}  // namespace

bool ListArgument::operator==(const ListArgument& other) const { return items == other.items; }

GraphBuilder::GraphBuilder(const std::string& name) { graph_.name = sanitized(name); }

std::string GraphBuilder::unique_name(const std::string& wanted) {
  std::string name = sanitized(wanted);
  auto [entry, is_new] = names_.try_emplace(name, 0);
  if (is_new) return name;
  int& last = entry->second;  // references into an unordered_map survive insertion
  std::string numbered;
  do {
    numbered = name + "_" + std::to_string(++last);
  } while (!names_.try_emplace(numbered, 0).second);
  return numbered;
}

ValueId GraphBuilder::add_value(const std::string& name, TensorType type, NodeId producer) {
  const ValueId id{static_cast<uint32_t>(graph_.values.size())};
  graph_.values.push_back({unique_name(name), std::move(type), producer, std::nullopt});
  return id;
}

ValueId GraphBuilder::input(const std::string& name, TensorType type, bool is_parameter,
                            std::optional<std::vector<Expr>> strides) {
  const int position = static_cast<int>(graph_.inputs.size());
  const ValueId value = add(Input{position, is_parameter}, {}, std::move(type), name.empty() ? "in" : name);
  graph_.values[value.index].strides = std::move(strides);
  graph_.inputs.push_back({value, {}});
  return value;
}

void GraphBuilder::size_input(Expr size) { graph_.inputs.push_back({std::nullopt, std::move(size)}); }

ValueId GraphBuilder::add(Op op, std::vector<ValueId> operands, TensorType type, const std::string& name) {
  const NodeId node{static_cast<uint32_t>(graph_.nodes.size())};
  const ValueId value = add_value(name.empty() ? default_name(op) : name, std::move(type), node);
  graph_.nodes.push_back({std::move(op), std::move(operands), {value}, source_, origin_});
  return value;
}

std::vector<ValueId> GraphBuilder::add_call(Call call, std::vector<ValueId> operands,
                                            std::vector<TensorType> types,
                                            const std::vector<std::string>& names) {
  const NodeId node{static_cast<uint32_t>(graph_.nodes.size())};
  const std::string fallback = default_name(Op(call));
  std::vector<ValueId> results;
  for (size_t i = 0; i < types.size(); ++i) {
    const bool is_named = i < names.size() && !names[i].empty();
    results.push_back(add_value(is_named ? names[i] : fallback, std::move(types[i]), node));
  }
  graph_.nodes.push_back({std::move(call), std::move(operands), results, source_, origin_});
  return results;
}

ValueId GraphBuilder::constant(Scalar value, TensorType type) {
  const Constant op{as_literal(value, type.dtype)};
  return add(op, {}, std::move(type));
}

ValueId GraphBuilder::iota(std::vector<Expr> shape, int dim, Expr start, Expr step) {
  return add(Iota{dim, std::move(start), std::move(step)}, {}, {DType::I64, std::move(shape)});
}

ValueId GraphBuilder::map(MapFn fn, std::vector<ValueId> operands, const std::string& name) {
  TILEFUSE_CHECK(static_cast<int>(operands.size()) == info(fn).arity,
                 std::string(info(fn).name) + " takes " + std::to_string(info(fn).arity) + " operands, got " +
                     std::to_string(operands.size()));
  TensorType type{map_result_dtype(graph_, fn, operands), graph_[operands[0]].type.shape};
  return add(Map{fn}, std::move(operands), std::move(type), name);
}

ValueId GraphBuilder::cast(ValueId value, DType dtype) {
  const TensorType& type = graph_[value].type;
  if (type.dtype == dtype) return value;
  return add(Map{MapFn::Cast}, {value}, {dtype, type.shape});
}

ValueId GraphBuilder::reduce(ReduceKind kind, ValueId value, std::vector<int> dims, const std::string& name) {
  const TensorType& type = graph_[value].type;
  if (dims.empty() && !info(kind).is_index) return value;
  std::sort(dims.begin(), dims.end());
  TensorType result{info(kind).is_index ? DType::I64 : type.dtype, {}};
  for (size_t dim = 0; dim < type.shape.size(); ++dim) {
    if (!std::binary_search(dims.begin(), dims.end(), static_cast<int>(dim))) {
      result.shape.push_back(type.shape[dim]);
    }
  }
  if (dims.empty()) return constant(int64_t{0}, std::move(result));  // the only position there is
  return add(Reduce{kind, std::move(dims)}, {value}, std::move(result), name);
}

ValueId GraphBuilder::view(ValueId value, IndexMap map, const std::string& name) {
  const TensorType& type = graph_[value].type;
  if (is_identity(map, type.shape)) return value;
  TensorType result{type.dtype, map.extents};
  map.fill = as_literal(map.fill, type.dtype);
  return add(View{std::move(map)}, {value}, std::move(result), name);
}

ValueId GraphBuilder::expand(ValueId value, const std::vector<Expr>& shape) {
  const std::vector<Expr> from = graph_[value].type.shape;
  if (from == shape) return value;
  return view(value, expand_map(from, shape));
}

void GraphBuilder::output(GraphOutput output) { graph_.outputs.push_back(std::move(output)); }

void GraphBuilder::mutation(int input_position, ValueId value) {
  graph_.mutations.emplace_back(input_position, value);
}

void GraphBuilder::set_source(std::string source, std::string origin) {
  source_ = std::move(source);
  origin_ = std::move(origin);
}

void GraphBuilder::set_constant(ValueId value) { graph_.values[value.index].is_constant = true; }

void GraphBuilder::set_elsewhere(ValueId value, std::string device) {
  if (device == graph_.device) device.clear();
  graph_.values[value.index].elsewhere = std::move(device);
}

void GraphBuilder::set_strides(ValueId value, std::vector<Expr> strides) {
  graph_.values[value.index].strides = std::move(strides);
}

void GraphBuilder::rename(ValueId value, const std::string& name) {
  std::string& current = graph_.values[value.index].name;
  if (current == sanitized(name)) return;
  names_.erase(current);
  current = unique_name(name);
}

Graph GraphBuilder::finish() {
  verify(graph_, "GraphBuilder::finish");
  return std::move(graph_);
}

std::vector<std::vector<NodeId>> users_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> users(graph.values.size());
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId operand : graph.nodes[i].operands) {
      auto& of_operand = users[operand.index];
      if (of_operand.empty() || of_operand.back() != NodeId{i}) of_operand.push_back(NodeId{i});
    }
  }
  return users;
}

}  // namespace tilefuse
