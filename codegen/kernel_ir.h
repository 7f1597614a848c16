// The kernel IR: C-shaped statements over typed symbols, one Kernel per launch. Nothing is left to decide:
// loops have bounds and steps, accesses have addresses, calls name functions of the runtime header.
//
//   kernel softmax_0, 16 lanes {
//     let x: pointer to const f32 = buffers[0]
//     for tile in [first_tile, last_tile) {
//       let x_row: pointer to const f32 = x + tile * 1024
//       var max_lanes: vector f32 = splat(-kInfinity)
//       for col in [0, 1024) step 16, axis col {
//         max_lanes = max_nan(max_lanes, load(x_row + col))
//       }
//       ...
//
// Symbols are numbered; their names are wishes until name_values has made them unique. A `let` is defined
// once and never changes, a `var` may be assigned to. Buffers, sizes, the range of tiles and scratch are
// symbols every kernel has. Statements own their children; passes take a Kernel by value and return one.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/dtype.h"
#include "core/id.h"

namespace tilefuse {

using SymbolId = Id<struct SymbolTag>;

// Four: .r[0] to .r[3]; TensorMap: an argument of a kernel for GPUs.
enum class CodeShape : uint8_t { Scalar, Vector, Pointer, ConstPointer, Four, TensorMap };
struct CodeType {
  DType dtype = DType::I64;  // a Vector of Bool is a mask
  CodeShape shape = CodeShape::Scalar;
  bool operator==(const CodeType&) const = default;
};

struct Symbol {
  std::string name;
  CodeType type;
};

// ---------------------------------------------------------------- expressions
enum class CodeOperator : uint8_t {
  // clang-format off
  Add, Sub, Mul, Div, Mod, ShiftLeft, ShiftRight,
  Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual,
  BitAnd, BitXor, BitOr, And, Or,
  Negate, Not, BitNot,
  Choose,  // condition ? first : second
  // clang-format on
};

struct Code;
struct Reference {
  SymbolId symbol;
};
struct Literal {
  Scalar value;
  std::optional<DType> dtype;  // absent: a plain integer, as in addresses and loop bounds
};
struct FunctionCall {  // function<types, numbers>(arguments), of the runtime header
  std::string function;
  std::vector<DType> types;
  std::vector<Code> arguments;
  std::vector<int64_t> numbers;
};
struct Operation {
  CodeOperator op;
  std::vector<Code> operands;
};
struct Subscript {  // base[index]
  std::vector<Code> base_and_index;
};
struct Member {  // base.name, of a struct that a runtime function returns
  std::vector<Code> base;
  std::string name;
};
struct PointerCast {  // the address of `base`, plus bytes, as a pointer to dtype
  CodeType type;
  std::vector<Code> base_and_bytes;
};
struct Code {
  std::variant<Reference, Literal, FunctionCall, Operation, Subscript, Member, PointerCast> kind;
};

Code reference(SymbolId symbol);
Code integer(int64_t value);
Code literal(Scalar value, DType dtype);
Code call(std::string function, std::vector<Code> arguments, std::vector<DType> types = {},
          std::vector<int64_t> numbers = {});
Code operate(CodeOperator op, std::vector<Code> operands);
Code add(Code a, Code b);  // leaves out a zero
Code subscript(Code base, Code index);
std::optional<int64_t> constant_of(const Code& code);  // a plain integer literal

// ---------------------------------------------------------------- statements
struct Stmt;
using Block = std::vector<Stmt>;

struct Let {
  SymbolId symbol;
  Code value;
  bool is_of_all = false;  // threads compute it together, so that no condition may stand in front of it
};
struct LetPair {  // const auto [first, second] = value
  SymbolId first, second;
  Code value;
};
struct Var {
  SymbolId symbol;
  std::optional<Code> initial;  // absent: uninitialised (arrays)
  int count = 1;                // > 1: an array
  bool is_shared = false;       // by the threads of a block; uninitialised
};
struct Assign {
  Code target;                     // a Reference or a Subscript
  std::optional<CodeOperator> op;  // target op= value
  Code value;
};
struct Effect {  // a call for what it does: stores
  Code call;
  // Effects of one group write elements that no other effect of the group reads: loads may move across them.
  std::optional<int> group = std::nullopt;
};
struct For {
  SymbolId index;
  Code first, last;  // last: not included; a literal or a symbol that the body does not change
  int64_t step = 1;
  std::string axis;  // whose coordinate the index is; printed as a comment
  Block body;
  int unroll = 1;  // a promise that the body is small: unroll so many times
};
struct If {
  Code condition;
  Block body;
};
struct Function {  // of the kernel: const auto symbol = [&](parameters) { body }, which ends with a Return
  SymbolId symbol;
  std::vector<SymbolId> parameters;
  Block body;
};
struct Return {
  Code value;
};
struct Blank {};

struct Stmt {
  std::variant<Let, LetPair, Var, Assign, Effect, For, If, Function, Return, Blank> kind;
  std::string note;  // printed behind the line: the value of the graph it computes
};

// ---------------------------------------------------------------- kernels
struct Kernel {
  std::string name;                 // a C identifier, unique in its source
  std::vector<std::string> header;  // lines of the comment above it
  int lanes = 1;
  int threads = 0;  // of a block, of a kernel for GPUs
  int cluster = 1;  // blocks of a cluster there; the launch has a multiple of them
  std::vector<Symbol> symbols;
  std::vector<SymbolId> arguments;  // of a kernel for GPUs, which takes them one by one
  Block body;

  const Symbol& operator[](SymbolId id) const { return symbols[id.index]; }
};
Kernel new_kernel(std::string name, int lanes);  // with the five symbols below

constexpr SymbolId kBuffers{0}, kSizes{1}, kFirstTile{2}, kLastTile{3}, kScratch{4};

// Calls fn on every child of a code, or returns the code with every child replaced.
void for_each_child(const Code& code, const std::function<void(const Code&)>& fn);
Code map_children(Code code, const std::function<Code(Code)>& fn);
// The codes that a statement itself evaluates (those of nested blocks not among them).
void for_each_code(const Stmt& stmt, const std::function<void(const Code&)>& fn);
void map_codes(Stmt& stmt, const std::function<Code(Code)>& fn);
Block* body_of(Stmt& stmt);  // of a For, an If or a Function; null otherwise
const Block* body_of(const Stmt& stmt);
void for_each_reference(const Code& code, const std::function<void(SymbolId)>& fn);

std::string to_text(const Kernel& kernel);
// Symbols are defined before they are used, once, and only variables are assigned to. Throws InternalError.
void verify(const Kernel& kernel, std::string_view after_stage);

}  // namespace tilefuse
