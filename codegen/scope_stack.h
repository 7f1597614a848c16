// The blocks of a kernel under construction, innermost last, and what is known in each of them.
//
// A value may be defined in any open block: it stands before the loop that is being built inside. What is
// remembered in a block is forgotten when it closes.
#pragma once
#include <map>
#include <string>

#include "codegen/kernel_ir.h"

namespace tilefuse {

// A code that is available in every block at `depth` or deeper.
struct Computed {
  Code code;
  int depth = 0;
  bool is_vector = false;
};

class ScopeStack {
 public:
  explicit ScopeStack(Kernel& kernel);

  int depth() const { return static_cast<int>(scopes_.size()) - 1; }  // 0: the function's block
  void open();
  Block close();  // without blank lines at its end

  SymbolId symbol(std::string wanted_name, CodeType type);
  // Defines a constant at that depth; names and literals are handed back as they are.
  Code let(int depth, const std::string& name, CodeType type, Code value, const std::string& note = "");
  Code var(const std::string& name, CodeType type, Code initial);  // in the innermost block
  void add_at(int depth, Stmt stmt);
  void add(Stmt stmt);  // to the innermost block
  void blank();

  const Computed* find(const std::string& key) const;  // from the innermost block outwards
  const Computed& remember(const std::string& key, Computed computed);

 private:
  struct Scope {
    Block block;
    std::map<std::string, Computed> known;
  };
  Kernel& kernel_;
  std::vector<Scope> scopes_;
};

}  // namespace tilefuse
