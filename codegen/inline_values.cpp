#include "codegen/inline_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/match.h"

namespace tilefuse {
namespace {

constexpr int kMostNodes = 24;       // of an expression that has taken in others
constexpr int kMostLeftBehind = 16;  // values that an expression has no room for: half of the registers

void count_references(const Block& block, std::map<SymbolId, int>& uses) {
  for (const Stmt& stmt : block) {
    for_each_code(
        stmt, [&](const Code& code) { for_each_reference(code, [&](SymbolId symbol) { ++uses[symbol]; }); });
    if (const Block* body = body_of(stmt)) count_references(*body, uses);
  }
}

int size_of(const Code& code) {
  int nodes = 1;
  for_each_child(code, [&](const Code& child) { nodes += size_of(child); });
  return nodes;
}

// A pointer handed to a function is read through, and so is a subscript.
bool reads_memory(const Code& code, const Kernel& kernel) {
  bool reads = std::holds_alternative<Subscript>(code.kind);
  if (const auto* called = std::get_if<FunctionCall>(&code.kind)) {
    for (const Code& argument : called->arguments) {
      for_each_reference(argument, [&](SymbolId symbol) {
        const CodeShape shape = kernel[symbol].type.shape;
        reads |= shape == CodeShape::Pointer || shape == CodeShape::ConstPointer;
      });
    }
  }
  for_each_child(code, [&](const Code& child) { reads |= reads_memory(child, kernel); });
  return reads;
}

bool has_call(const Code& code) {
  bool has = std::holds_alternative<FunctionCall>(code.kind);
  for_each_child(code, [&](const Code& child) { has |= has_call(child); });
  return has;
}

struct Write {
  bool memory = false;
  std::set<SymbolId> variables;
};
void collect_writes(const Stmt& stmt, Write& write) {
  if (std::holds_alternative<Effect>(stmt.kind)) write.memory = true;
  if (const auto* assign = std::get_if<Assign>(&stmt.kind)) {
    for_each_reference(assign->target, [&](SymbolId symbol) { write.variables.insert(symbol); });
    write.memory |= std::holds_alternative<Subscript>(assign->target.kind);
  }
  if (const Block* body = body_of(stmt)) {
    for (const Stmt& inner : *body) collect_writes(inner, write);
  }
}
bool are_in_one_group(const Stmt& a, const Stmt& b) {
  const auto *first = std::get_if<Effect>(&a.kind), *second = std::get_if<Effect>(&b.kind);
  return first != nullptr && second != nullptr && first->group && first->group == second->group;
}
// Functions that change a variable handed to them by reference.
void collect_updates(const Stmt& stmt, Write& write) {
  if (const auto* effect = std::get_if<Effect>(&stmt.kind)) {
    for_each_reference(effect->call, [&](SymbolId symbol) { write.variables.insert(symbol); });
  }
  if (const Block* body = body_of(stmt)) {
    for (const Stmt& inner : *body) collect_updates(inner, write);
  }
}

class Inliner {
 public:
  explicit Inliner(const Kernel& kernel) : kernel_(kernel) { count_references(kernel.body, uses_); }

  Block run(Block block) {
    for (Stmt& stmt : block) {
      if (Block* body = body_of(stmt)) *body = run(std::move(*body));
    }
    std::map<SymbolId, size_t> used_at;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!takes_values(block[i])) continue;
      for_each_code(block[i], [&](const Code& code) {
        for_each_reference(code, [&](SymbolId symbol) { used_at[symbol] = i; });
      });
    }
    const std::vector<std::optional<size_t>> targets = choose_targets(block, used_at);
    return substitute(std::move(block), targets);
  }

 private:
  static bool takes_values(const Stmt& stmt) {
    return !std::holds_alternative<For>(stmt.kind) && !std::holds_alternative<Function>(stmt.kind) &&
           !std::holds_alternative<Blank>(stmt.kind);
  }

  bool is_used_once(SymbolId symbol) const {
    const auto uses = uses_.find(symbol);
    return uses != uses_.end() && uses->second == 1;
  }

  struct Choice {
    std::vector<std::optional<size_t>> targets;  // for every statement, the one that its value moves to
    std::vector<int> left_behind;  // of what moved to the statement: operands that were too large to follow
  };

  // Sums of many are first written as one expression. Where what they add up then stands in front of it, all
  // of it in registers, they are cut into expressions of readable size instead, each next to its operands.
  std::vector<std::optional<size_t>> choose_targets(const Block& block,
                                                    const std::map<SymbolId, size_t>& used_at) const {
    Choice choice = choose(block, used_at, std::vector<bool>(block.size(), false));
    std::vector<bool> is_cut;
    is_cut.reserve(block.size());
    for (const int left : choice.left_behind) is_cut.push_back(left > kMostLeftBehind);
    const bool has_cut = std::find(is_cut.begin(), is_cut.end(), true) != is_cut.end();
    return has_cut ? choose(block, used_at, std::move(is_cut)).targets : std::move(choice.targets);
  }

  // `is_cut`: statements that take in nothing beyond the readable size; what they leave behind is cut, too.
  Choice choose(const Block& block, const std::map<SymbolId, size_t>& used_at,
                std::vector<bool> is_cut) const {
    Choice choice{std::vector<std::optional<size_t>>(block.size()), std::vector<int>(block.size(), 0)};
    std::vector<int> sizes(block.size(), 0);
    for (size_t i = 0; i < block.size(); ++i) {
      for_each_code(block[i], [&](const Code& code) { sizes[i] += size_of(code); });
    }
    for (size_t i = block.size(); i-- > 0;) {
      const auto* let = std::get_if<Let>(&block[i].kind);
      if (let == nullptr || let->is_of_all || !is_used_once(let->symbol)) continue;
      const auto found = used_at.find(let->symbol);
      if (found == used_at.end()) continue;
      const size_t place = choice.targets[found->second].value_or(found->second);
      const bool is_short = size_of(let->value) <= 3 && !is_cut[place];
      if (!is_short && sizes[place] + sizes[i] > kMostNodes) {
        is_cut[i] = is_cut[place];
        if (place != found->second) ++choice.left_behind[place];
        continue;
      }
      if (crosses_a_write(block, i, place, let->value)) continue;
      choice.targets[i] = place;
      sizes[place] += sizes[i];
    }
    return choice;
  }

  bool crosses_a_write(const Block& block, size_t from, size_t to, const Code& value) const {
    Write write;
    for (size_t i = from + 1; i < to; ++i) {
      if (are_in_one_group(block[i], block[to])) continue;
      collect_writes(block[i], write);
      collect_updates(block[i], write);
    }
    if (write.memory && reads_memory(value, kernel_)) return true;
    bool reads_variable = false;
    for_each_reference(value, [&](SymbolId symbol) { reads_variable |= write.variables.contains(symbol); });
    return reads_variable;
  }

  // Blank lines at the start of a block, or behind another, are left by values that went away.
  static void add_without_double_blanks(Block& block, Stmt stmt) {
    const bool is_blank = std::holds_alternative<Blank>(stmt.kind);
    if (is_blank && (block.empty() || std::holds_alternative<Blank>(block.back().kind))) return;
    block.push_back(std::move(stmt));
  }

  // Coordinates have names before anybody asks for them.
  bool is_unused_number(const Stmt& stmt) const {
    const auto* let = std::get_if<Let>(&stmt.kind);
    return let != nullptr && !uses_.contains(let->symbol) && !has_call(let->value);
  }

  Block substitute(Block block, const std::vector<std::optional<size_t>>& targets) const {
    std::map<SymbolId, Code> moved;
    const std::function<Code(Code)> replace = [&](Code code) -> Code {
      if (const auto* ref = std::get_if<Reference>(&code.kind)) {
        const auto found = moved.find(ref->symbol);
        return found == moved.end() ? code : found->second;
      }
      return map_children(std::move(code), replace);
    };
    Block result;
    for (size_t i = 0; i < block.size(); ++i) {
      if (takes_values(block[i])) map_codes(block[i], replace);
      if (is_unused_number(block[i])) continue;
      if (targets[i]) {
        Let& let = std::get<Let>(block[i].kind);
        moved.emplace(let.symbol, std::move(let.value));
      } else {
        add_without_double_blanks(result, std::move(block[i]));
      }
    }
    return result;
  }

  const Kernel& kernel_;
  std::map<SymbolId, int> uses_;
};

}  // namespace

Kernel inline_values(Kernel kernel) {
  Block body = Inliner(kernel).run(kernel.body);
  kernel.body = std::move(body);
  return kernel;
}

}  // namespace tilefuse
