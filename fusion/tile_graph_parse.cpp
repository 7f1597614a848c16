#include <algorithm>
#include <map>
#include <utility>

#include "core/expr_reader.h"
#include "core/index_map.h"
#include "core/result.h"
#include "core/text_cursor.h"
#include "fusion/tile_graph.h"

namespace tilefuse {
namespace {

class TileGraphParser {
 public:
  explicit TileGraphParser(std::string_view text) : cursor_(text) {}

  TileGraph parse() {
    cursor_.expect("tile_graph");
    graph_.name = cursor_.identifier();
    cursor_.expect("{");
    while (cursor_.accept("symbol")) read_symbol(cursor_, ranges_);
    if (cursor_.accept("axes")) {
      do {
        read_axis();
      } while (cursor_.accept(","));
    }
    cursor_.expect("buffers");
    do {
      read_buffer();
    } while (cursor_.accept(","));
    while (!cursor_.accept("}")) {
      if (cursor_.accept("store")) {
        read_store();
      } else if (cursor_.looking_at("scatter")) {
        read_scatter();
      } else {
        read_value();
      }
    }
    if (!cursor_.at_end()) cursor_.fail("expected nothing after the tile graph's closing brace");
    return std::move(graph_);
  }

 private:
  void read_axis() {
    Axis axis;
    axis.name = cursor_.identifier();
    if (axes_.count(axis.name) != 0) cursor_.fail("two axes are called " + axis.name);
    cursor_.expect(":");
    axis.extent = expr_until(",\n", false);
    axes_.emplace(axis.name, AxisId{static_cast<uint32_t>(graph_.axes.size())});
    names_.push_back(axis.name);
    graph_.axes.push_back(std::move(axis));
  }

  void read_buffer() {
    Buffer buffer;
    cursor_.expect("%");
    buffer.name = cursor_.identifier();
    cursor_.expect(":");
    buffer.dtype = dtype();
    cursor_.list("[", "]", [&] { buffer.shape.push_back(expr_until(",]", false)); });
    buffer.strides = contiguous_strides(buffer.shape);
    if (cursor_.accept("strides")) {
      buffer.strides.clear();
      cursor_.list("[", "]", [&] { buffer.strides.push_back(expr_until(",]", false)); });
    }
    if (cursor_.accept("out")) {
      buffer.role = Buffer::Role::Output;
    } else if (cursor_.accept("const")) {
      buffer.is_constant = true;
    } else {
      cursor_.expect("in");
    }
    auto& buffers = buffer.role == Buffer::Role::Input ? inputs_ : outputs_;
    buffers[buffer.name] = {static_cast<uint32_t>(graph_.buffers.size())};
    graph_.buffers.push_back(std::move(buffer));
  }

  TileStore& read_store() {
    TileStore store;
    store.value = known_value();
    cursor_.expect("->");
    store.buffer = known_buffer(outputs_, "output");
    cursor_.expect("[");
    store.offset = expr_until("]", true);
    cursor_.expect("]");
    return graph_.stores.emplace_back(std::move(store));
  }

  void read_scatter() {
    const std::string name = cursor_.identifier();
    const auto mode = parse_scatter_mode(name.substr(std::min(name.size(), name.find('.') + 1)));
    if (!mode) cursor_.fail("there is no " + name);
    TileStore& store = read_store();
    store.scatter = TileScatter{*mode, index_terms(), {}};
    if (cursor_.accept("over")) store.scatter->over = axes_in_line();
  }

  void read_value() {
    TileValue value;
    cursor_.expect("%");
    value.name = cursor_.identifier();
    if (values_.count(value.name) != 0) cursor_.fail("%" + value.name + " is defined twice");
    cursor_.expect("=");
    std::string literal;  // of a constant, a fill or a carry; its type comes last
    const std::string op = cursor_.identifier();
    value.op = read_op(op, value, literal);
    cursor_.expect(":");
    value.dtype = dtype();
    value.axes = axis_list("[", "]");
    if (!literal.empty()) set_literal(value, literal);
    values_.emplace(value.name, TileValueId{static_cast<uint32_t>(graph_.values.size())});
    graph_.values.push_back(std::move(value));
  }

  TileOp read_op(const std::string& op, TileValue& value, std::string& literal) {
    if (op == "load") return read_load(literal);
    if (op == "constant") {
      literal = cursor_.until(":\n");
      return TileConstant{};
    }
    if (op == "carry") {
      literal = cursor_.until(":\n");
      return TileCarry{};
    }
    if (op == "index") return TileIndex{expr_until(":", true)};
    if (op == "inside") return TilePredicate{expr_list()};
    cursor_.list("(", ")", [&] { value.operands.push_back(known_value()); });
    const size_t dot = op.find('.');
    if (dot == std::string::npos) {
      const auto fn = parse_map_fn(op);
      if (!fn) cursor_.fail("there is no operator " + op);
      return TileMap{*fn};
    }
    const auto kind = parse_reduce_kind(op.substr(dot + 1));
    const std::string family = op.substr(0, dot);
    if (!kind || (family != "reduce" && family != "scan")) cursor_.fail("there is no operator " + op);
    std::vector<AxisId> axes;
    if (cursor_.accept("over")) axes = axes_in_line();
    if (family == "reduce") return TileReduce{*kind, std::move(axes)};
    if (axes.size() != 1) cursor_.fail("a scan has one axis");
    return TileScan{*kind, axes[0]};
  }

  TileOp read_load(std::string& literal) {
    TileLoad load;
    load.buffer = known_buffer(inputs_, "input");
    cursor_.expect("[");
    load.offset = expr_until("]", true);
    cursor_.expect("]");
    load.gathered = index_terms();
    if (cursor_.accept("if")) {
      load.guard = expr_list();
      cursor_.expect("else");
      literal = cursor_.until(":\n");
    }
    return load;
  }

  std::vector<IndexTerm> index_terms() {
    std::vector<IndexTerm> terms;
    while (cursor_.accept("+")) {
      IndexTerm term;
      term.wrap = cursor_.accept("wrap");
      if (!term.wrap) cursor_.expect("at");
      cursor_.expect("(");
      term.value = known_value();
      cursor_.expect(",");
      cursor_.expect("extent");
      term.extent = expr_until(",", false);
      cursor_.expect(",");
      cursor_.expect("stride");
      term.stride = expr_until(")", false);
      cursor_.expect(")");
      terms.push_back(std::move(term));
    }
    return terms;
  }

  void set_literal(TileValue& value, const std::string& text) {
    const Scalar scalar = scalar_of(text, value.dtype);
    if (TileLoad* load = std::get_if<TileLoad>(&value.op)) {
      load->fill = scalar;
    } else if (TileCarry* carry = std::get_if<TileCarry>(&value.op)) {
      carry->initial = scalar;
    } else {
      std::get<TileConstant>(value.op).value = scalar;
    }
  }

  Scalar scalar_of(const std::string& text, DType dtype) {
    if (dtype == DType::Bool) {
      if (text != "true" && text != "false") cursor_.fail(text + " is not true or false");
      return text == "true";
    }
    TextCursor literal(text);
    if (is_float(dtype)) return literal.number();
    return literal.integer();
  }

  std::vector<Expr> expr_list() {
    std::vector<Expr> list;
    cursor_.list("[", "]", [&] { list.push_back(expr_until(",]", true)); });
    return list;
  }

  std::vector<AxisId> axis_list(std::string_view open, std::string_view close) {
    std::vector<AxisId> axes;
    cursor_.list(open, close, [&] { axes.push_back(known_axis()); });
    return axes;
  }

  std::vector<AxisId> axes_in_line() {
    std::vector<AxisId> axes;
    do {
      axes.push_back(known_axis());
    } while (cursor_.accept(","));
    return axes;
  }

  Expr expr_until(std::string_view stops, bool over_axes) {
    Expr result;
    cursor_.located([&] {
      const std::vector<std::string> none;
      result = parse_expr(cursor_.until(stops), over_axes ? names_ : none, [this](const std::string& name) {
        const auto found = ranges_.find(name);
        return std::optional(found == ranges_.end() ? SymbolRange{} : found->second);
      });
    });
    return result;
  }

  DType dtype() {
    const std::string name = cursor_.identifier();
    const auto found = parse_dtype(name);
    if (!found) cursor_.fail("there is no dtype " + name);
    return *found;
  }

  AxisId known_axis() {
    const std::string name = cursor_.identifier();
    const auto found = axes_.find(name);
    if (found == axes_.end()) cursor_.fail("there is no axis " + name);
    return found->second;
  }

  TileValueId known_value() {
    cursor_.expect("%");
    const std::string name = cursor_.identifier();
    const auto found = values_.find(name);
    if (found == values_.end()) cursor_.fail("%" + name + " is not defined");
    return found->second;
  }

  BufferId known_buffer(const std::map<std::string, BufferId>& buffers, const std::string& role) {
    cursor_.expect("%");
    const std::string name = cursor_.identifier();
    const auto found = buffers.find(name);
    if (found == buffers.end()) cursor_.fail("there is no " + role + " buffer %" + name);
    return found->second;
  }

  TextCursor cursor_;
  TileGraph graph_;
  SymbolRanges ranges_;
  std::vector<std::string> names_;  // of the axes
  std::map<std::string, AxisId> axes_;
  std::map<std::string, BufferId> inputs_, outputs_;
  std::map<std::string, TileValueId> values_;
};

}  // namespace

TileGraph parse_tile_graph(std::string_view text) {
  TileGraph graph = TileGraphParser(text).parse();
  try {
    verify(graph, "parse");
  } catch (const InternalError& error) {
    throw UserError(error.what());
  }
  return graph;
}

}  // namespace tilefuse
