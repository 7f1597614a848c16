#include "codegen/scope_stack.h"

#include "core/result.h"

namespace tilefuse {

ScopeStack::ScopeStack(Kernel& kernel) : kernel_(kernel) { open(); }

void ScopeStack::open() { scopes_.emplace_back(); }

Block ScopeStack::close() {
  TILEFUSE_CHECK(!scopes_.empty(), "a block is closed that was not opened");
  Block block = std::move(scopes_.back().block);
  scopes_.pop_back();
  while (!block.empty() && std::holds_alternative<Blank>(block.back().kind)) block.pop_back();
  return block;
}

SymbolId ScopeStack::symbol(std::string wanted_name, CodeType type) {
  kernel_.symbols.push_back({std::move(wanted_name), type});
  return {static_cast<uint32_t>(kernel_.symbols.size() - 1)};
}

Code ScopeStack::let(int depth, const std::string& name, CodeType type, Code value, const std::string& note) {
  if (std::holds_alternative<Reference>(value.kind) || std::holds_alternative<Literal>(value.kind)) {
    return value;
  }
  const SymbolId id = symbol(name, type);
  scopes_.at(static_cast<size_t>(depth)).block.push_back({Let{id, std::move(value)}, note});
  return reference(id);
}

Code ScopeStack::var(const std::string& name, CodeType type, Code initial) {
  const SymbolId id = symbol(name, type);
  add({Var{id, std::move(initial)}, ""});
  return reference(id);
}

void ScopeStack::add(Stmt stmt) { scopes_.back().block.push_back(std::move(stmt)); }
void ScopeStack::add_at(int depth, Stmt stmt) {
  scopes_.at(static_cast<size_t>(depth)).block.push_back(std::move(stmt));
}
void ScopeStack::blank() { add({Blank{}, ""}); }

const Computed* ScopeStack::find(const std::string& key) const {
  for (size_t i = scopes_.size(); i-- > 0;) {
    const auto found = scopes_[i].known.find(key);
    if (found != scopes_[i].known.end()) return &found->second;
  }
  return nullptr;
}

const Computed& ScopeStack::remember(const std::string& key, Computed computed) {
  auto& known = scopes_.at(static_cast<size_t>(computed.depth)).known;
  return known.insert_or_assign(key, std::move(computed)).first->second;
}

}  // namespace tilefuse
