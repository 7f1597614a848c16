#include "core/graph_parse_op.h"

#include <algorithm>
#include <charconv>

#include "core/nearest_name.h"
#include "core/result.h"

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
  for (int mode = 0; mode <= static_cast<int>(ScatterMode::Min); ++mode) {
    names.push_back(std::string("scatter.") + info(ScatterMode(mode)).name);
  }
  return names;
}

class OpParser {
 public:
  OpParser(ExprReader& exprs, const std::vector<std::string>& operand_names)
      : exprs_(exprs), operand_names_(operand_names) {}
  Op read_op(const std::string& name);

 private:
  TextCursor& cursor() { return exprs_.cursor(); }
  template <class Value>
  void attribute(const char* name, Value read);
  Scalar scalar();
  Op read_iota();
  Op read_view();
  template <class Placed>
  Placed read_places(Placed op);
  Op read_call();
  CallArgument read_argument();
  CallArgument read_argument_value(int depth = 0);
  OperandArgument read_operand_argument();

  ExprReader& exprs_;
  const std::vector<std::string>& operand_names_;
};

template <class Value>
void OpParser::attribute(const char* name, Value read) {
  if (!cursor().accept(",")) cursor().expect("{");
  cursor().expect(name);
  cursor().expect("=");
  read();
}

Scalar OpParser::scalar() {
  Scalar value;
  cursor().located([&] {
    const std::string text = cursor().until("}");
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

Op OpParser::read_iota() {
  Iota iota;
  attribute("dim", [&] { iota.dim = small_integer(cursor()); });
  attribute("start", [&] { iota.start = exprs_.until(",}"); });
  attribute("step", [&] { iota.step = exprs_.until(",}"); });
  return iota;
}

Op OpParser::read_view() {
  View view;
  attribute("map", [&] { cursor().located([&] { view.map = parse_index_map(cursor().until("}")); }); });
  for (auto* list : {&view.map.extents, &view.map.coordinates, &view.map.conditions}) {
    for (Expr& e : *list) e = exprs_.ranged(e);
  }
  return view;
}

// Of a Gather or a Scatter.
template <class Placed>
Placed OpParser::read_places(Placed op) {
  // The rank of the result stands behind the attributes; an index is any i<number> here.
  constexpr size_t kMaxRank = 16;
  attribute("coordinates", [&] { op.coordinates = exprs_.list(kMaxRank); });
  attribute("from_index", [&] { op.from_index = exprs_.int_list(); });
  attribute("wrap", [&] {
    op.wrap = cursor().accept("true");
    if (!op.wrap) cursor().expect("false");
  });
  return op;
}

Op OpParser::read_op(const std::string& name) {
  std::optional<Op> op;
  if (name == "constant") {
    attribute("value", [&] { op = Constant{scalar()}; });
  } else if (name == "iota") {
    op = read_iota();
  } else if (name == "view") {
    op = read_view();
  } else if (name == "concat") {
    attribute("dim", [&] { op = Concat{small_integer(cursor())}; });
  } else if (name == "gather") {
    op = read_places(Gather());
  } else if (name == "call") {
    op = read_call();
  } else if (const auto fn = parse_map_fn(name)) {
    return Map{*fn};
  } else if (name.starts_with("reduce.") && parse_reduce_kind(name.substr(7))) {
    attribute("dims", [&] { op = Reduce{*parse_reduce_kind(name.substr(7)), exprs_.int_list()}; });
  } else if (name.starts_with("scan.") && parse_reduce_kind(name.substr(5))) {
    attribute("dim", [&] { op = Scan{*parse_reduce_kind(name.substr(5)), small_integer(cursor())}; });
  } else if (name.starts_with("scatter.") && parse_scatter_mode(name.substr(8))) {
    op = read_places(
        Scatter{.mode = *parse_scatter_mode(name.substr(8)), .coordinates = {}, .from_index = {}});
  }
  TILEFUSE_CHECK(op.has_value(), "operator_names has " + name + ", which read_op does not read");
  cursor().expect("}");
  return *op;
}

Op OpParser::read_call() {
  Call call;
  attribute("op", [&] { call.op = cursor().string_literal(); });
  const size_t last = call.op.rfind('.');
  const size_t first = call.op.find('.');
  if (first == std::string::npos || first == last) cursor().fail("an op is \"namespace.name.overload\"");
  call.overload = call.op.substr(last + 1);
  if (call.overload == "default") call.overload.clear();
  call.op = call.op.substr(0, first) + "::" + call.op.substr(first + 1, last - first - 1);
  while (cursor().accept(",")) call.arguments.push_back(read_argument());
  return call;
}

CallArgument OpParser::read_argument() {
  std::string name = cursor().identifier();
  cursor().expect("=");
  CallArgument argument = read_argument_value();
  argument.name = std::move(name);
  return argument;
}

OperandArgument OpParser::read_operand_argument() {
  cursor().expect("%");
  const std::string name = cursor().identifier();
  for (size_t i = 0; i < operand_names_.size(); ++i) {
    if (operand_names_[i] == name) return {static_cast<int>(i)};
  }
  cursor().fail("%" + name + " is not among the operands of this call");
}

CallArgument OpParser::read_argument_value(int depth) {
  constexpr int kDeepest = 16;
  if (depth > kDeepest) cursor().fail("lists nest deeper than " + std::to_string(kDeepest));
  const char next = cursor().peek();
  if (next == '%') return {"", read_operand_argument()};
  if (next == '"') return {"", cursor().string_literal()};
  if (next == '[') {
    ListArgument list;
    cursor().list("[", "]", [&] { list.items.push_back(read_argument_value(depth + 1)); });
    return {"", std::move(list)};
  }
  CallArgument argument;
  cursor().located([&] {
    const std::string text = cursor().until(",]}");
    if (text == "none") return;
    if (text == "true" || text == "false") {
      argument.value = text == "true";
    } else if (const size_t quote = text.find("(\""); quote != std::string::npos) {
      argument.value =
          EnumArgument{text.substr(0, quote), TextCursor(text.substr(quote + 1)).string_literal()};
    } else if (const auto number = whole_number<double>(text); number && !whole_number<int64_t>(text)) {
      argument.value = *number;
    } else {
      argument.value = exprs_.parse(text);
    }
  });
  return argument;
}

}  // namespace

void check_operator_name(const std::string& name) {
  if (parse_map_fn(name)) return;
  const std::vector<std::string> names = operator_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const auto nearest = nearest_name(name, std::vector<std::string_view>(names.begin(), names.end()));
  throw UserError("there is no operator '" + name + "'" +
                  (nearest ? "; did you mean '" + *nearest + "'?" : std::string()));
}

Op parse_op(ExprReader& exprs, const std::string& name, const std::vector<std::string>& operand_names) {
  return OpParser(exprs, operand_names).read_op(name);
}

}  // namespace tilefuse
