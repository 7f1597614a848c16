#include <algorithm>
#include <map>

#include "core/expr_reader.h"
#include "core/graph.h"
#include "core/graph_parse_op.h"
#include "core/graph_symbols.h"
#include "core/result.h"
#include "core/text_cursor.h"

namespace tilefuse {
namespace {

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : cursor_(text), builder_(""), exprs_(cursor_, ranges_) {
    read_symbols(text);
  }
  GraphParser(const GraphParser&) = delete;  // exprs_ refers to its siblings
  GraphParser& operator=(const GraphParser&) = delete;
  Graph parse();

 private:
  struct NodeText {  // what stands before the type
    std::vector<std::string> results;
    std::vector<ValueId> operands;
    std::vector<std::string> operand_names;
  };
  struct Typed {
    TensorType type;
    std::optional<std::vector<Expr>> strides;
    std::string elsewhere;
  };

  void read_symbols(std::string_view text);
  void read_input();
  void read_statement();
  void read_return();
  void read_mutation();
  void read_node();
  void add_node(Op op, NodeText text);

  std::string new_name();
  ValueId known_value(std::string* name = nullptr);
  Typed typed();

  TextCursor cursor_;
  GraphBuilder builder_;
  SymbolRanges ranges_;
  ExprReader exprs_;
  std::map<std::string, ValueId> values_;
};

// Symbols are declared inside the braces but used in the header, so they are read first.
void GraphParser::read_symbols(std::string_view text) {
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    TextCursor cursor(text.substr(0, end), start);
    start = end + 1;
    if (!cursor.accept("symbol")) continue;
    read_symbol(cursor, ranges_);
  }
}

Graph GraphParser::parse() {
  cursor_.expect("graph");
  builder_ = GraphBuilder(cursor_.identifier());
  if (cursor_.accept("on")) builder_.set_device(cursor_.string_literal());
  cursor_.list("(", ")", [&] { read_input(); });
  cursor_.expect("{");
  while (!cursor_.accept("}")) read_statement();
  if (!cursor_.at_end()) cursor_.fail("expected nothing after the graph's closing brace");
  try {
    return builder_.finish();
  } catch (const InternalError& error) {
    throw UserError(error.what());
  }
}

std::string GraphParser::new_name() {
  std::string name;
  cursor_.located([&] {
    cursor_.expect("%");
    name = cursor_.identifier();
    if (values_.count(name) != 0) throw UserError("%" + name + " is defined twice");
    if (name.find('.') != std::string::npos) throw UserError("%" + name + ": a name has no dot");
  });
  return name;
}

ValueId GraphParser::known_value(std::string* name) {
  ValueId value;
  cursor_.located([&] {
    cursor_.expect("%");
    const std::string text = cursor_.identifier();
    const auto found = values_.find(text);
    if (found == values_.end()) throw UserError("%" + text + " is not defined");
    if (name != nullptr) *name = text;
    value = found->second;
  });
  return value;
}

GraphParser::Typed GraphParser::typed() {
  Typed result;
  cursor_.located([&] {
    const std::string name = cursor_.identifier();
    const std::optional<DType> dtype = parse_dtype(name);
    if (!dtype) throw UserError("'" + name + "' is no dtype");
    result.type.dtype = *dtype;
  });
  result.type.shape = exprs_.list();
  if (cursor_.accept("strides")) result.strides = exprs_.list();
  if (cursor_.accept("on")) result.elsewhere = cursor_.string_literal();
  return result;
}

void GraphParser::read_input() {
  if (cursor_.accept("size")) return builder_.size_input(exprs_.until(",)"));
  const std::string name = new_name();
  cursor_.expect(":");
  Typed input = typed();
  const bool is_parameter = cursor_.accept("param");
  values_[name] = builder_.input(name, std::move(input.type), is_parameter, std::move(input.strides));
  if (!input.elsewhere.empty()) builder_.set_elsewhere(values_[name], std::move(input.elsewhere));
  if (cursor_.accept("const")) builder_.set_constant(values_[name]);
}

void GraphParser::read_statement() {
  if (cursor_.accept("symbol")) {
    cursor_.until("\n");  // read before
  } else if (cursor_.accept("return")) {
    read_return();
  } else if (cursor_.accept("mutate")) {
    read_mutation();
  } else {
    read_node();
  }
}

void GraphParser::read_return() {
  if (cursor_.looking_at("}")) return;
  do {
    if (cursor_.accept("none")) {
      builder_.output(NoneArgument{});
    } else if (cursor_.looking_at("%")) {
      builder_.output(known_value());
    } else {
      builder_.output(exprs_.until(",\n}"));
    }
  } while (cursor_.accept(","));
}

void GraphParser::read_mutation() {
  const auto position = small_integer(cursor_);
  cursor_.expect("<-");
  builder_.mutation(position, known_value());
}

void GraphParser::read_node() {
  NodeText node;
  if (cursor_.looking_at("%")) {
    do {
      node.results.push_back(new_name());
    } while (cursor_.accept(","));
    cursor_.expect("=");
  }
  std::string name;
  cursor_.located([&] {
    name = cursor_.identifier();
    check_operator_name(name);
  });
  if (cursor_.looking_at("(")) {
    cursor_.list("(", ")", [&] { node.operands.push_back(known_value(&node.operand_names.emplace_back())); });
  }
  Op op = parse_op(exprs_, name, node.operand_names);
  add_node(std::move(op), std::move(node));
}

void GraphParser::add_node(Op op, NodeText node) {
  std::vector<Typed> types;
  if (!node.results.empty()) {
    cursor_.expect(":");
    do {
      types.push_back(typed());
    } while (cursor_.accept(","));
  }
  if (types.size() != node.results.size()) {
    cursor_.fail(std::to_string(node.results.size()) + " results have " + std::to_string(types.size()) +
                 " types");
  }
  const std::string comment = cursor_.comment();
  const size_t origin = comment.ends_with('>') ? comment.rfind('<') : std::string::npos;
  if (origin == std::string::npos) {
    builder_.set_source(comment, "");
  } else {
    const std::string source = comment.substr(0, origin);
    builder_.set_source(source.substr(0, source.find_last_not_of(' ') + 1),
                        comment.substr(origin + 1, comment.size() - origin - 2));
  }
  std::vector<ValueId> results;
  if (auto* call = std::get_if<Call>(&op)) {
    std::vector<TensorType> plain;
    plain.reserve(types.size());
    for (const Typed& t : types) plain.push_back(t.type);
    results = builder_.add_call(std::move(*call), std::move(node.operands), std::move(plain), node.results);
  } else {
    if (types.size() != 1) cursor_.fail("only a call has other than one result");
    const DType dtype = types[0].type.dtype;
    if (auto* constant = std::get_if<Constant>(&op)) constant->value = as_literal(constant->value, dtype);
    if (auto* view = std::get_if<View>(&op)) view->map.fill = as_literal(view->map.fill, dtype);
    results = {builder_.add(std::move(op), std::move(node.operands), types[0].type, node.results[0])};
  }
  for (size_t i = 0; i < results.size(); ++i) {
    values_[node.results[i]] = results[i];
    if (types[i].strides) builder_.set_strides(results[i], *types[i].strides);
    if (!types[i].elsewhere.empty()) builder_.set_elsewhere(results[i], std::move(types[i].elsewhere));
  }
}

}  // namespace

Graph parse_graph(std::string_view text) { return GraphParser(text).parse(); }

}  // namespace tilefuse
