#include "codegen/kernel_ir.h"

#include "core/match.h"

namespace tilefuse {

Code reference(SymbolId symbol) { return {Reference{symbol}}; }
Code integer(int64_t value) { return {Literal{value, std::nullopt}}; }
Code literal(Scalar value, DType dtype) { return {Literal{value, dtype}}; }
Code call(std::string function, std::vector<Code> arguments, std::vector<DType> types,
          std::vector<int64_t> numbers) {
  return {FunctionCall{std::move(function), std::move(types), std::move(arguments), std::move(numbers)}};
}
Code operate(CodeOperator op, std::vector<Code> operands) { return {Operation{op, std::move(operands)}}; }
Code subscript(Code base, Code index) { return {Subscript{{std::move(base), std::move(index)}}}; }

std::optional<int64_t> constant_of(const Code& code) {
  const auto* literal = std::get_if<Literal>(&code.kind);
  if (literal == nullptr || literal->dtype) return std::nullopt;
  return to_int(literal->value);
}

Code add(Code a, Code b) {
  if (constant_of(a) == 0) return b;
  if (constant_of(b) == 0) return a;
  // a + (b + c) is written a + b + c.
  if (auto* sum = std::get_if<Operation>(&b.kind)) {
    const bool is_sum = sum->op == CodeOperator::Add || sum->op == CodeOperator::Sub;
    if (is_sum) return operate(sum->op, {add(std::move(a), sum->operands[0]), sum->operands[1]});
  }
  return operate(CodeOperator::Add, {std::move(a), std::move(b)});
}

Kernel new_kernel(std::string name, int lanes) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.lanes = lanes;
  kernel.symbols = {{"buffers", {DType::I64, CodeShape::ConstPointer}},
                    {"sizes", {DType::I64, CodeShape::ConstPointer}},
                    {"first_tile", {}},
                    {"last_tile", {}},
                    {"scratch", {DType::I64, CodeShape::Pointer}}};
  return kernel;
}

namespace {

// The children of a code, in order; empty for leaves. One list for const and mutable.
template <class AnyCode>
auto* children_of(AnyCode& code) {
  using Children = std::conditional_t<std::is_const_v<AnyCode>, const std::vector<Code>, std::vector<Code>>;
  return std::visit(Overloaded{
      [](auto& node) -> Children*
        requires requires { node.arguments; }
                 { return &node.arguments; },
                 [](auto& node) -> Children*
                   requires requires { node.operands; }
                            { return &node.operands; },
                            [](auto& node) -> Children*
                              requires requires { node.base_and_index; }
                                       { return &node.base_and_index; },
                                       [](auto& node) -> Children*
                                         requires requires { node.base; }
                                                  { return &node.base; },
                                                  [](auto& node) -> Children*
                                                    requires requires { node.base_and_bytes; }
                                                             { return &node.base_and_bytes; },
                                                             [](auto& node) -> Children*
                                                               requires requires { node.symbol; }
                                                                        { return nullptr; },
                                                                        [](auto& node) -> Children*
                                                                          requires requires { node.value; }
      { return nullptr; },
      },
      code.kind);
}

// The codes a statement evaluates itself.
template <class AnyStmt, class Fn>
void visit_codes(AnyStmt& stmt, Fn fn) {
  std::visit(Overloaded{
      [&](auto& node)
        requires requires { node.target; }
                 {
                   fn(node.target);
                   fn(node.value);
                 },
                 [&](auto& node)
                   requires(
                               requires { node.value; } && !requires { node.target; })
                           { fn(node.value); },
                           [&](auto& node)
                             requires requires { node.initial; }
                                      {
                                        if (node.initial) fn(*node.initial);
                                      },
                                      [&](auto& node)
                                        requires requires { node.call; }
                                                 { fn(node.call); },
                                                 [&](auto& node)
                                                   requires requires {
                                                     node.first;
                                                     node.last;
                                                   }
                                                            {
                                                              fn(node.first);
                                                              fn(node.last);
                                                            },
                                                            [&](auto& node)
                                                              requires requires { node.condition; }
      { fn(node.condition); },
      [](const Function&) {},
      [](const Blank&) {},
  },
             stmt.kind);
}

}  // namespace

void for_each_child(const Code& code, const std::function<void(const Code&)>& fn) {
  if (const auto* children = children_of(code)) {
    for (const Code& child : *children) fn(child);
  }
}

Code map_children(Code code, const std::function<Code(Code)>& fn) {
  if (auto* children = children_of(code)) {
    for (Code& child : *children) child = fn(std::move(child));
  }
  return code;
}

void for_each_code(const Stmt& stmt, const std::function<void(const Code&)>& fn) { visit_codes(stmt, fn); }
void map_codes(Stmt& stmt, const std::function<Code(Code)>& fn) {
  visit_codes(stmt, [&](Code& code) { code = fn(std::move(code)); });
}

Block* body_of(Stmt& stmt) {
  if (auto* loop = std::get_if<For>(&stmt.kind)) return &loop->body;
  if (auto* branch = std::get_if<If>(&stmt.kind)) return &branch->body;
  if (auto* function = std::get_if<Function>(&stmt.kind)) return &function->body;
  return nullptr;
}
const Block* body_of(const Stmt& stmt) {
  if (const auto* loop = std::get_if<For>(&stmt.kind)) return &loop->body;
  if (const auto* branch = std::get_if<If>(&stmt.kind)) return &branch->body;
  if (const auto* function = std::get_if<Function>(&stmt.kind)) return &function->body;
  return nullptr;
}

void for_each_reference(const Code& code, const std::function<void(SymbolId)>& fn) {
  if (const auto* ref = std::get_if<Reference>(&code.kind)) fn(ref->symbol);
  for_each_child(code, [&](const Code& child) { for_each_reference(child, fn); });
}

}  // namespace tilefuse
