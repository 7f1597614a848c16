#include "fusion/tile_graph_text.h"

#include <algorithm>

#include "core/graph_symbols.h"
#include "core/index_map.h"
#include "core/match.h"

namespace tilefuse {
namespace {

constexpr size_t kMaxOpColumn = 72;
constexpr size_t kMaxColumn = 110;

template <class Items, class Spell>
std::string joined(const Items& items, Spell spell) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += spell(item);
  }
  return text;
}

std::string expr_list(const std::vector<Expr>& exprs, const std::vector<std::string>& names = {}) {
  std::string text = "[";
  text += joined(exprs, [&](const Expr& e) { return to_text(e, names); });
  return text + "]";
}

template <class Items, class Key>
std::string name_of(const Items& items, Key id, const std::string& sigil) {
  if (id.index >= items.size()) return sigil + "?" + std::to_string(id.index);
  return sigil + items[id.index].name;
}

class Printer {
 public:
  explicit Printer(const TileGraph& graph) : graph_(graph), names_(axis_names(graph)) {}

  std::vector<TileGraphLine> lines() {
    add({"tile_graph " + graph_.name + " {"});
    add_symbols();
    if (!graph_.axes.empty()) {
      add({"  axes " + joined(graph_.axes, [](const Axis& a) { return a.name + ": " + to_text(a.extent); })});
    }
    add_buffers();
    add_values();
    for (size_t i = 0; i < graph_.stores.size(); ++i) {
      const TileStore& store = graph_.stores[i];
      add({.text = store_text(store), .store = i});
    }
    add({"}"});
    return std::move(lines_);
  }

 private:
  void add(TileGraphLine line) { lines_.push_back(std::move(line)); }

  void add_symbols() {
    SymbolRanges ranges;
    for (const Axis& axis : graph_.axes) add_symbol_ranges(axis.extent, ranges);
    for (const Buffer& buffer : graph_.buffers) {
      for (const Expr& e : buffer.shape) add_symbol_ranges(e, ranges);
      for (const Expr& e : buffer.strides) add_symbol_ranges(e, ranges);
    }
    for (const auto& [name, range] : ranges) {
      if (range == SymbolRange{}) continue;
      const bool is_unbounded = range.high == SymbolRange{}.high;
      std::string text = "  symbol " + name + " in [" + std::to_string(range.low) + ", " +
                         (is_unbounded ? "inf" : std::to_string(range.high)) + "]";
      if (range.multiple_of != 1) text += " multiple_of " + std::to_string(range.multiple_of);
      add({std::move(text)});
    }
  }

  static std::string buffer_text(const Buffer& buffer) {
    std::string text = "%" + buffer.name + ": " + info(buffer.dtype).name + expr_list(buffer.shape);
    if (buffer.strides != contiguous_strides(buffer.shape)) text += " strides " + expr_list(buffer.strides);
    if (buffer.role == Buffer::Role::Scratch) return text + " scratch";
    if (buffer.role == Buffer::Role::Workspace) return text + " workspace";
    if (buffer.is_constant) return text + " const";
    return text + (buffer.role == Buffer::Role::Input ? " in" : " out");
  }

  void add_buffers() {
    const std::string one_line = "  buffers " + joined(graph_.buffers, buffer_text);
    if (one_line.size() <= kMaxColumn) {
      add({one_line});
      return;
    }
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const bool is_last = i + 1 == graph_.buffers.size();
      add({(i == 0 ? "  buffers " : "          ") + buffer_text(graph_.buffers[i]) + (is_last ? "" : ",")});
    }
  }

  void add_values() {
    size_t name_column = 0, op_column = 0;
    for (const TileValue& made : graph_.values) {
      name_column = std::max(name_column, made.name.size() + 1);
      const size_t op = op_text(made).size();
      if (op <= kMaxOpColumn) op_column = std::max(op_column, op);
    }
    for (uint32_t i = 0; i < graph_.values.size(); ++i) {
      const TileValue& made = graph_.values[i];
      std::string text = "  %" + made.name;
      text.append(name_column - made.name.size() - 1, ' ');
      text += " = " + op_text(made);
      text.append(std::max(text.size(), 5 + name_column + op_column) - text.size(), ' ');
      text += " : " + std::string(info(made.dtype).name) + axes(made.axes, "[", "]");
      add({.text = std::move(text), .value = TileValueId{i}});
    }
  }

  std::string op_text(const TileValue& made) const {
    const std::string operands = joined(made.operands, [&](TileValueId id) { return value(id); });
    return match(
        made.op, [&](const TileLoad& load) { return load_text(load); },
        [](const TileConstant& constant) { return "constant " + to_text(constant.value); },
        [&](const TileIndex& index) { return "index " + to_text(index.expr, names_); },
        [&](const TilePredicate& predicate) { return "inside " + expr_list(predicate.guard, names_); },
        [&](const TileMap& map) { return std::string(info(map.fn).name) + "(" + operands + ")"; },
        [&](const TileReduce& reduce) {
          return "reduce." + std::string(info(reduce.kind).name) + "(" + operands + ")" +
                 axes(reduce.axes, " over ", "");
        },
        [&](const TileScan& scan) {
          return "scan." + std::string(info(scan.kind).name) + "(" + operands + ")" +
                 axes({scan.axis}, " over ", "");
        },
        [](const TileCarry& carry) { return "carry " + to_text(carry.initial); });
  }

  std::string load_text(const TileLoad& load) const {
    std::string text = "load " + access(load.buffer, load.offset) + terms_text(load.gathered);
    if (!load.guard.empty()) text += " if " + expr_list(load.guard, names_) + " else " + to_text(load.fill);
    return text;
  }

  std::string terms_text(const std::vector<IndexTerm>& terms) const {
    std::string text;
    for (const IndexTerm& term : terms) {
      text += std::string(" + ") + (term.wrap ? "wrap(" : "at(") + value(term.value) + ", extent " +
              to_text(term.extent) + ", stride " + to_text(term.stride) + ")";
    }
    return text;
  }

  std::string store_text(const TileStore& store) const {
    const std::string written = value(store.value) + " -> " + access(store.buffer, store.offset);
    if (!store.scatter) return "  store " + written;
    const TileScatter& scatter = *store.scatter;
    return "  scatter." + std::string(info(scatter.mode).name) + " " + written + terms_text(scatter.at) +
           (scatter.over.empty() ? "" : axes(scatter.over, " over ", ""));
  }

  std::string access(BufferId buffer, const Expr& offset) const {
    return name_of(graph_.buffers, buffer, "%") + "[" + to_text(offset, names_) + "]";
  }
  std::string value(TileValueId id) const { return name_of(graph_.values, id, "%"); }
  std::string axes(const std::vector<AxisId>& list, const char* open, const char* close) const {
    return open + joined(list, [&](AxisId id) { return name_of(graph_.axes, id, ""); }) + close;
  }

  const TileGraph& graph_;
  std::vector<std::string> names_;
  std::vector<TileGraphLine> lines_;
};

}  // namespace

std::vector<TileGraphLine> text_lines(const TileGraph& graph) { return Printer(graph).lines(); }

std::string to_text(const TileGraph& graph) {
  std::string text;
  for (const TileGraphLine& line : text_lines(graph)) text += line.text + "\n";
  return text;
}

}  // namespace tilefuse
