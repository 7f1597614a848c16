#include "core/structural_hash.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <map>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/graph_symbols.h"
#include "core/match.h"

namespace tilefuse {
namespace {

// Spells nodes as bytes without names. Every list carries its length, so that no two spellings run together.
class Speller {
 public:
  explicit Speller(const Graph& graph) : graph_(graph) {}

  void number(int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view text) {
    number(static_cast<int64_t>(text.size()));
    bytes_ += text;
  }
  void expr(const Expr& e);
  void exprs(const std::vector<Expr>& list) {
    number(static_cast<int64_t>(list.size()));
    for (const Expr& e : list) expr(e);
  }
  void ints(const std::vector<int>& list) {
    number(static_cast<int64_t>(list.size()));
    for (const int i : list) number(i);
  }
  void scalar(const Scalar& value);
  void type(const Value& value);
  void use(ValueId id);
  void define(ValueId id);
  void node(const Node& node);
  const std::string& bytes() const { return bytes_; }

 private:
  void attributes(const Op& op);
  void argument(const CallArgument& argument);

  const Graph& graph_;
  std::string bytes_;
  std::map<ValueId, int64_t> numbers_;                // of values, by first appearance
  std::map<std::string, Expr, std::less<>> symbols_;  // renumbered, by first use
};

void Speller::expr(const Expr& e) {
  if (const auto value = e.constant()) {
    number(0);
    return number(*value);
  }
  SymbolRanges used;
  add_symbol_ranges(e, used);
  number(1);
  for (const auto& [name, range] : used) {
    if (symbols_.count(name) != 0) continue;
    symbols_.emplace(name, Expr::symbol("s" + std::to_string(symbols_.size()), range));
    number(range.low);
    number(range.high);
    number(range.multiple_of);
  }
  const auto renumbered = [&](const std::string& name) -> std::optional<Expr> { return symbols_.at(name); };
  text(to_text(used.empty() ? e : substitute_symbols(e, renumbered)));
}

void Speller::scalar(const Scalar& value) {
  number(static_cast<int64_t>(value.index()));
  number(match(
      value, [](bool b) { return int64_t{b}; }, [](int64_t i) { return i; },
      [](double d) {
        int64_t bits = 0;
        std::memcpy(&bits, &d, sizeof bits);
        return bits;
      }));
}

void Speller::type(const Value& value) {
  number(static_cast<int64_t>(value.type.dtype));
  exprs(value.type.shape);
  const bool is_plain = !value.strides || *value.strides == contiguous_strides(value.type.shape);
  number((is_plain ? 0 : 1) + (value.is_constant ? 2 : 0));
  if (!is_plain) exprs(*value.strides);
}

void Speller::use(ValueId id) {
  const auto [entry, is_new] = numbers_.try_emplace(id, static_cast<int64_t>(numbers_.size()));
  number(entry->second);
  if (is_new) type(graph_[id]);  // from outside
}

void Speller::define(ValueId id) {
  numbers_.emplace(id, static_cast<int64_t>(numbers_.size()));
  type(graph_[id]);
}

void Speller::argument(const CallArgument& argument) {
  text(argument.name);
  number(static_cast<int64_t>(argument.value.index()));
  match(
      argument.value, [](NoneArgument) {}, [&](OperandArgument a) { number(a.operand); },
      [&](bool b) { number(b ? 1 : 0); }, [&](const Expr& e) { expr(e); }, [&](double d) { scalar(d); },
      [&](const std::string& s) { text(s); },
      [&](const EnumArgument& e) {
        text(e.kind);
        text(e.value);
      },
      [&](const ListArgument& list) {
        number(static_cast<int64_t>(list.items.size()));
        for (const CallArgument& item : list.items) this->argument(item);
      });
}

void Speller::attributes(const Op& op) {
  match(
      op,
      [&](const Input& in) {
        number(in.position);
        number(in.is_parameter ? 1 : 0);
      },
      [&](const Constant& c) { scalar(c.value); },
      [&](const Iota& iota) {
        number(iota.dim);
        expr(iota.start);
        expr(iota.step);
      },
      [&](const Map& map) { text(info(map.fn).name); },
      [&](const Reduce& reduce) {
        text(info(reduce.kind).name);
        ints(reduce.dims);
      },
      [&](const Scan& scan) {
        text(info(scan.kind).name);
        number(scan.dim);
      },
      [&](const View& view) {
        exprs(view.map.extents);
        exprs(view.map.coordinates);
        exprs(view.map.conditions);
        if (!view.map.conditions.empty()) scalar(view.map.fill);
      },
      [&](const Concat& concat) { number(concat.dim); },
      [&](const Gather& gather) {
        exprs(gather.coordinates);
        ints(gather.from_index);
        number(gather.wrap ? 1 : 0);
      },
      [&](const Scatter& scatter) {
        text(info(scatter.mode).name);
        exprs(scatter.coordinates);
        ints(scatter.from_index);
        number(scatter.wrap ? 1 : 0);
      },
      [&](const Call& call) {
        text(call.op);
        text(call.overload);
        number(static_cast<int64_t>(call.arguments.size()));
        for (const CallArgument& a : call.arguments) argument(a);
      });
}

void Speller::node(const Node& node) {
  number(static_cast<int64_t>(node.op.index()));
  attributes(node.op);
  number(static_cast<int64_t>(node.operands.size()));
  for (const ValueId operand : node.operands) use(operand);
  number(static_cast<int64_t>(node.results.size()));
  for (const ValueId result : node.results) define(result);
}

}  // namespace

Hash128 hash_bytes(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

Hash128 structural_hash(const Graph& graph, std::span<const NodeId> nodes, std::span<const ValueId> outputs) {
  Speller speller(graph);
  for (const NodeId id : nodes) speller.node(graph[id]);
  speller.number(static_cast<int64_t>(outputs.size()));
  for (const ValueId output : outputs) speller.use(output);
  return hash_bytes(speller.bytes());
}

Hash128 structural_hash(const Graph& graph) {
  Speller speller(graph);
  for (const GraphInput& input : graph.inputs) {
    speller.number(input.tensor ? 1 : 0);
    if (!input.tensor) speller.expr(input.size);
  }
  for (const Node& node : graph.nodes) speller.node(node);
  for (const GraphOutput& output : graph.outputs) {
    speller.number(static_cast<int64_t>(output.index()));
    match(
        output, [&](ValueId id) { speller.use(id); }, [&](const Expr& e) { speller.expr(e); },
        [](NoneArgument) {});
  }
  for (const auto& [position, value] : graph.mutations) {
    speller.number(position);
    speller.use(value);
  }
  return hash_bytes(speller.bytes());
}

std::string to_text(const Hash128& hash) {
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return digits.data();
}

}  // namespace tilefuse
