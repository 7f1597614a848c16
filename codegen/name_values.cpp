#include "codegen/name_values.h"

#include <array>
#include <cctype>
#include <map>
#include <set>

#include "core/contains.h"
#include "core/match.h"

namespace tilefuse {
namespace {

// Keywords of C++, types and constants of the runtime header, C's names that g++ warns about.
constexpr std::array kReserved = {
    "alignas",  "alignof",   "and",       "asm",       "auto",      "bf16",     "bitand",    "bitor",
    "bool",     "break",     "case",      "catch",     "char",      "class",    "compl",     "concept",
    "const",    "consteval", "constexpr", "constinit", "continue",  "co_await", "co_return", "co_yield",
    "decltype", "default",   "delete",    "do",        "double",    "else",     "enum",      "explicit",
    "export",   "extern",    "f16",       "false",     "float",     "for",      "friend",    "goto",
    "if",       "inline",    "int",       "int64_t",   "kInfinity", "kLanes",   "long",      "main",
    "mutable",  "namespace", "new",       "noexcept",  "not",       "nullptr",  "operator",  "or",
    "private",  "protected", "public",    "register",  "requires",  "return",   "short",     "signed",
    "sizeof",   "static",    "std",       "struct",    "switch",    "template", "this",      "thread_local",
    "throw",    "true",      "try",       "typedef",   "typeid",    "typename", "union",     "unsigned",
    "using",    "virtual",   "void",      "volatile",  "wchar_t",   "while",    "xor",       "Vec",
    "Mask",     "f8e4m3fn",  "f8e5m2",
};

// Functions of the C library: those that kernels call, and some more that operators are named like. A kernel
// of the same name would take their calls.
constexpr std::array kLibrary = {
    "abs",   "acos",      "asin", "atan",  "atan2", "ceil", "copysign", "cos",    "cosh",    "div",
    "erf",   "erfc",      "exp",  "exp2",  "expm1", "fabs", "floor",    "fma",    "fmod",    "free",
    "isinf", "isnan",     "log",  "log10", "log1p", "log2", "malloc",   "memcpy", "memmove", "memset",
    "pow",   "remainder", "rint", "round", "sin",   "sinh", "sqrt",     "tan",    "tanh",    "trunc",
};

void collect_functions(const Code& code, std::set<std::string>& functions) {
  if (const auto* call = std::get_if<FunctionCall>(&code.kind)) functions.insert(call->function);
  for_each_child(code, [&](const Code& child) { collect_functions(child, functions); });
}
void collect_functions(const Block& block, std::set<std::string>& functions) {
  for (const Stmt& stmt : block) {
    for_each_code(stmt, [&](const Code& code) { collect_functions(code, functions); });
    if (const Block* body = body_of(stmt)) collect_functions(*body, functions);
  }
}

class Namer {
 public:
  explicit Namer(Kernel& kernel) : kernel_(kernel) {
    reserved_.insert(kReserved.begin(), kReserved.end());
    collect_functions(kernel.body, reserved_);
    reserved_.insert(kernel.name);
    for (uint32_t i = 0; i <= kScratch.index; ++i) visible_.insert(kernel.symbols[i].name);
    for (const SymbolId argument : kernel.arguments) choose(argument);
  }

  void name(Block& block) {
    std::vector<std::string> here;
    for (Stmt& stmt : block) {
      if (auto* loop = std::get_if<For>(&stmt.kind)) {
        const std::string index = choose(loop->index);
        name(loop->body);
        visible_.erase(index);
        continue;
      }
      if (auto* function = std::get_if<Function>(&stmt.kind)) {
        here.push_back(choose(function->symbol));
        std::vector<std::string> parameters;
        parameters.reserve(function->parameters.size());
        for (const SymbolId parameter : function->parameters) parameters.push_back(choose(parameter));
        name(function->body);
        for (const std::string& parameter : parameters) visible_.erase(parameter);
        continue;
      }
      if (Block* body = body_of(stmt)) name(*body);
      for (const SymbolId symbol : defined_by(stmt)) here.push_back(choose(symbol));
    }
    for (const std::string& name : here) visible_.erase(name);
  }

 private:
  static std::vector<SymbolId> defined_by(const Stmt& stmt) {
    if (const auto* let = std::get_if<Let>(&stmt.kind)) return {let->symbol};
    if (const auto* pair = std::get_if<LetPair>(&stmt.kind)) return {pair->first, pair->second};
    if (const auto* var = std::get_if<Var>(&stmt.kind)) return {var->symbol};
    return {};
  }

  std::string choose(SymbolId symbol) {
    std::string& name = kernel_.symbols[symbol.index].name;
    std::string wanted = to_identifier(name);
    if (reserved_.contains(wanted)) wanted += "_value";
    std::string candidate = wanted;
    for (int suffix = 1; visible_.contains(candidate) || reserved_.contains(candidate); ++suffix) {
      candidate = wanted + "_" + std::to_string(suffix);
    }
    visible_.insert(candidate);
    return name = candidate;
  }

  Kernel& kernel_;
  std::set<std::string> reserved_, visible_;
};

}  // namespace

std::string to_identifier(std::string_view text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  while (!name.empty() && name.starts_with('_')) name.erase(name.begin());
  for (size_t at = name.find("__"); at != std::string::npos; at = name.find("__")) name.erase(at, 1);
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0)
    name.insert(name.begin(), 'v');
  return name;
}

std::string to_function_name(std::string_view text) {
  std::string name = to_identifier(text);
  return contains(kReserved, name) || contains(kLibrary, name) ? name + "_kernel" : name;
}

Kernel name_values(Kernel kernel) {
  Block body = std::move(kernel.body);
  kernel.body = body;
  Namer(kernel).name(body);
  kernel.body = std::move(body);
  return kernel;
}

}  // namespace tilefuse
