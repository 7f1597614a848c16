// Sizes that are only known at run time, evaluated once per call: expressions become registers of a small
// straight-line program. A program without symbols is a table of constants and costs a call nothing.
//
//   SizeProgram program({"s0"});               register 0 holds s0
//   int bytes = program.add(s0 * 64 + 4);
//   std::vector<int64_t> registers = program.constants();
//   registers[0] = 7;                          program.run(registers): registers[bytes] == 452
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/expr.h"

namespace tilefuse {

class SizeProgram {
 public:
  explicit SizeProgram(std::vector<std::string> symbols);
  int add(const Expr& expr);                     // its register; equal expressions share one
  int add_list(const std::vector<Expr>& exprs);  // the first of consecutive registers
  bool is_constant() const { return steps_.empty() && symbols_.empty(); }
  const std::vector<std::string>& symbols() const { return symbols_; }
  const std::vector<int64_t>& constants() const { return constants_; }  // all registers, symbols as 0
  void run(std::span<int64_t> registers) const;

 private:
  enum class Operation : uint8_t { Copy, Add, Mul, FloorDiv, Mod, Min, Max };
  struct Step {
    Operation operation;
    int target, a, b;
  };
  int constant(int64_t value);
  int fresh(int64_t value = 0);
  int step(Operation operation, int a, int b);
  int add_atom(const Expr::Atom& atom);
  int add_term(const Expr::Term& term);

  std::vector<std::string> symbols_;
  std::vector<Step> steps_;
  std::vector<int64_t> constants_;
  std::map<Expr, int> known_;
};

// How the symbols of some tensors' sizes are read off the tensors: symbol == (size - offset) / factor.
struct SymbolBinding {
  std::string symbol;
  int position = 0;  // of the input
  int dim = 0;       // of the tensor; -1: the input is the size itself
  int64_t factor = 1, offset = 0;
  SymbolRange range;  // what the graph was compiled for
};
// A binding from `size`, if exactly one unknown symbol occurs in it, linearly.
std::optional<SymbolBinding> bind_symbol(const Expr& size, int position, int dim,
                                         const std::vector<SymbolBinding>& known);

}  // namespace tilefuse
