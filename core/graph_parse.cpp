#include <algorithm>
#include <charconv>
#include <map>

#include "core/graph.h"
#include "core/graph_symbols.h"
#include "core/nearest_name.h"
#include "core/result.h"
#include "core/text_cursor.h"

namespace tilefuse {
namespace {

template <class Number>
std::optional<Number> whole_number(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end) return std::nullopt;
  return value;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names = {"constant", "iota", "view", "concat", "gather", "call"};
  for (int fn = 0; fn <= static_cast<int>(MapFn::Fma); ++fn) names.emplace_back(info(MapFn(fn)).name);
  for (int number = 0; number <= static_cast<int>(ReduceKind::ArgMin); ++number) {
    const std::string kind = info(ReduceKind(number)).name;
    names.push_back("reduce." + kind);
    names.push_back("scan." + kind);
  }
  return names;
}

void check_operator(const std::string& name) {
  if (parse_map_fn(name)) return;
  const std::vector<std::string> names = operator_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const auto nearest = nearest_name(name, std::vector<std::string_view>(names.begin(), names.end()));
  throw UserError("there is no operator '" + name + "'" +
                  (nearest ? "; did you mean '" + *nearest + "'?" : std::string()));
}

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : cursor_(text), builder_("") { read_symbols(text); }
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
  Expr expr(const std::string& text, size_t rank);
  Expr expr_until(std::string_view stops, size_t rank = 0);
  std::vector<Expr> expr_list(size_t rank = 0);
  std::vector<int> int_list();
  Typed typed();
  Scalar scalar();

  Op read_op(const std::string& name, const NodeText& node);
  Op read_iota();
  Op read_view();
  Op read_gather();
  Op read_call(const NodeText& node);
  CallArgument read_argument(const NodeText& node);
  CallArgument read_argument_value(const NodeText& node);
  OperandArgument read_operand_argument(const NodeText& node);
  template <class Value>
  void attribute(const char* name, Value read);

  TextCursor cursor_;
  GraphBuilder builder_;
  SymbolRanges ranges_;
  std::map<std::string, ValueId> values_;
};

// Symbols are declared inside the braces but used in the header, so they are read first.
void GraphParser::read_symbols(std::string_view text) {
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    TextCursor cursor(text.substr(0, end), start);
    start = end + 1;
    if (!cursor.accept("symbol")) continue;
    SymbolRange range;
    const std::string name = cursor.identifier();
    cursor.expect("in");
    cursor.expect("[");
    range.low = cursor.integer();
    cursor.expect(",");
    if (!cursor.accept("inf")) range.high = cursor.integer();
    cursor.expect("]");
    if (cursor.accept("multiple_of")) range.multiple_of = cursor.integer();
    ranges_.emplace(name, range);
  }
}

Graph GraphParser::parse() {
  cursor_.expect("graph");
  builder_ = GraphBuilder(cursor_.identifier());
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

Expr GraphParser::expr(const std::string& text, size_t rank) {
  std::vector<std::string> indices;
  for (size_t i = 0; i < rank; ++i) indices.push_back("i" + std::to_string(i));
  return parse_expr(text, indices, [&](const std::string& name) -> std::optional<SymbolRange> {
    const auto found = ranges_.find(name);
    return found == ranges_.end() ? SymbolRange{} : found->second;
  });
}

Expr GraphParser::expr_until(std::string_view stops, size_t rank) {
  Expr result;
  cursor_.located([&] { result = expr(cursor_.until(stops), rank); });
  return result;
}

std::vector<Expr> GraphParser::expr_list(size_t rank) {
  std::vector<Expr> exprs;
  cursor_.list("[", "]", [&] { exprs.push_back(expr_until(",]", rank)); });
  return exprs;
}

std::vector<int> GraphParser::int_list() {
  std::vector<int> items;
  cursor_.list("[", "]", [&] { items.push_back(static_cast<int>(cursor_.integer())); });
  return items;
}

GraphParser::Typed GraphParser::typed() {
  Typed result;
  cursor_.located([&] {
    const std::string name = cursor_.identifier();
    const std::optional<DType> dtype = parse_dtype(name);
    if (!dtype) throw UserError("'" + name + "' is no dtype");
    result.type.dtype = *dtype;
  });
  result.type.shape = expr_list();
  if (cursor_.accept("strides")) result.strides = expr_list();
  return result;
}

void GraphParser::read_input() {
  if (cursor_.accept("size")) return builder_.size_input(expr_until(",)"));
  const std::string name = new_name();
  cursor_.expect(":");
  Typed input = typed();
  const bool is_parameter = cursor_.accept("param");
  values_[name] = builder_.input(name, std::move(input.type), is_parameter, std::move(input.strides));
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
      builder_.output(expr_until(",\n}"));
    }
  } while (cursor_.accept(","));
}

void GraphParser::read_mutation() {
  const auto position = static_cast<int>(cursor_.integer());
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
    check_operator(name);
  });
  if (cursor_.looking_at("(")) {
    cursor_.list("(", ")", [&] { node.operands.push_back(known_value(&node.operand_names.emplace_back())); });
  }
  Op op = read_op(name, node);
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
  }
}

// ---------------------------------------------------------------- operators
template <class Value>
void GraphParser::attribute(const char* name, Value read) {
  if (!cursor_.accept(",")) cursor_.expect("{");
  cursor_.expect(name);
  cursor_.expect("=");
  read();
}

Scalar GraphParser::scalar() {
  Scalar value;
  cursor_.located([&] {
    const std::string text = cursor_.until("}");
    if (text == "true" || text == "false") {
      value = text == "true";
    } else if (const auto integer = whole_number<int64_t>(text)) {
      // "-0" is the one double that prints as an integer and is none.
      value = text == "-0" ? Scalar(-0.0) : Scalar(*integer);
    } else if (const auto number = whole_number<double>(text)) {
      value = *number;
    } else {
      throw UserError("'" + text + "' is no number, true or false");
    }
  });
  return value;
}

Op GraphParser::read_iota() {
  Iota iota;
  attribute("dim", [&] { iota.dim = static_cast<int>(cursor_.integer()); });
  attribute("start", [&] { iota.start = expr_until(",}"); });
  attribute("step", [&] { iota.step = expr_until(",}"); });
  return iota;
}

Op GraphParser::read_view() {
  View view;
  attribute("map", [&] { cursor_.located([&] { view.map = parse_index_map(cursor_.until("}")); }); });
  const auto ranged = [&](std::vector<Expr>& exprs) {
    for (Expr& e : exprs) {
      e = substitute_symbols(e, [&](const std::string& name) -> std::optional<Expr> {
        const auto found = ranges_.find(name);
        if (found == ranges_.end()) return std::nullopt;
        return Expr::symbol(name, found->second);
      });
    }
  };
  ranged(view.map.extents);
  ranged(view.map.coordinates);
  ranged(view.map.conditions);
  return view;
}

Op GraphParser::read_gather() {
  // The rank of the result stands behind the attributes; an index is any i<number> here.
  constexpr size_t kMaxRank = 16;
  Gather gather;
  attribute("coordinates", [&] { gather.coordinates = expr_list(kMaxRank); });
  attribute("from_index", [&] { gather.from_index = int_list(); });
  attribute("wrap", [&] {
    gather.wrap = cursor_.accept("true");
    if (!gather.wrap) cursor_.expect("false");
  });
  return gather;
}

Op GraphParser::read_op(const std::string& name, const NodeText& node) {
  std::optional<Op> op;
  if (name == "constant") {
    attribute("value", [&] { op = Constant{scalar()}; });
  } else if (name == "iota") {
    op = read_iota();
  } else if (name == "view") {
    op = read_view();
  } else if (name == "concat") {
    attribute("dim", [&] { op = Concat{static_cast<int>(cursor_.integer())}; });
  } else if (name == "gather") {
    op = read_gather();
  } else if (name == "call") {
    op = read_call(node);
  } else if (const auto fn = parse_map_fn(name)) {
    return Map{*fn};
  } else if (name.starts_with("reduce.") && parse_reduce_kind(name.substr(7))) {
    attribute("dims", [&] { op = Reduce{*parse_reduce_kind(name.substr(7)), int_list()}; });
  } else if (name.starts_with("scan.") && parse_reduce_kind(name.substr(5))) {
    attribute("dim",
              [&] { op = Scan{*parse_reduce_kind(name.substr(5)), static_cast<int>(cursor_.integer())}; });
  }
  TILEFUSE_CHECK(op.has_value(), "operator_names has " + name + ", which read_op does not read");
  cursor_.expect("}");
  return *op;
}

Op GraphParser::read_call(const NodeText& node) {
  Call call;
  attribute("op", [&] { call.op = cursor_.string_literal(); });
  const size_t last = call.op.rfind('.');
  const size_t first = call.op.find('.');
  if (first == std::string::npos || first == last) cursor_.fail("an op is \"namespace.name.overload\"");
  call.overload = call.op.substr(last + 1);
  if (call.overload == "default") call.overload.clear();
  call.op = call.op.substr(0, first) + "::" + call.op.substr(first + 1, last - first - 1);
  while (cursor_.accept(",")) call.arguments.push_back(read_argument(node));
  return call;
}

CallArgument GraphParser::read_argument(const NodeText& node) {
  std::string name = cursor_.identifier();
  cursor_.expect("=");
  CallArgument argument = read_argument_value(node);
  argument.name = std::move(name);
  return argument;
}

OperandArgument GraphParser::read_operand_argument(const NodeText& node) {
  std::string name;
  known_value(&name);
  for (size_t i = 0; i < node.operand_names.size(); ++i) {
    if (node.operand_names[i] == name) return {static_cast<int>(i)};
  }
  cursor_.fail("%" + name + " is not among the operands of this call");
}

CallArgument GraphParser::read_argument_value(const NodeText& node) {
  const char next = cursor_.peek();
  if (next == '%') return {"", read_operand_argument(node)};
  if (next == '"') return {"", cursor_.string_literal()};
  if (next == '[') {
    ListArgument list;
    cursor_.list("[", "]", [&] { list.items.push_back(read_argument_value(node)); });
    return {"", std::move(list)};
  }
  CallArgument argument;
  cursor_.located([&] {
    const std::string text = cursor_.until(",]}");
    if (text == "none") return;
    if (text == "true" || text == "false") {
      argument.value = text == "true";
    } else if (const size_t quote = text.find("(\""); quote != std::string::npos) {
      argument.value =
          EnumArgument{text.substr(0, quote), TextCursor(text.substr(quote + 1)).string_literal()};
    } else if (const auto number = whole_number<double>(text); number && !whole_number<int64_t>(text)) {
      argument.value = *number;
    } else {
      argument.value = expr(text, 0);
    }
  });
  return argument;
}

}  // namespace

Graph parse_graph(std::string_view text) { return GraphParser(text).parse(); }

}  // namespace tilefuse
