#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "codegen/emit.h"
#include "codegen/fill_in.h"
#include "core/enum_order.h"
#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

struct OperatorSpelling {
  CodeOperator op;
  const char* text;
  int precedence;  // higher binds tighter, as in C
};
constexpr int kChoosePrecedence = 1, kUnaryPrecedence = 14, kPostfixPrecedence = 15;

constexpr std::array kOperators = {
    OperatorSpelling{CodeOperator::Add, "+", 12},
    OperatorSpelling{CodeOperator::Sub, "-", 12},
    OperatorSpelling{CodeOperator::Mul, "*", 13},
    OperatorSpelling{CodeOperator::Div, "/", 13},
    OperatorSpelling{CodeOperator::Mod, "%", 13},
    OperatorSpelling{CodeOperator::ShiftLeft, "<<", 11},
    OperatorSpelling{CodeOperator::ShiftRight, ">>", 11},
    OperatorSpelling{CodeOperator::Less, "<", 9},
    OperatorSpelling{CodeOperator::LessEqual, "<=", 9},
    OperatorSpelling{CodeOperator::Greater, ">", 9},
    OperatorSpelling{CodeOperator::GreaterEqual, ">=", 9},
    OperatorSpelling{CodeOperator::Equal, "==", 8},
    OperatorSpelling{CodeOperator::NotEqual, "!=", 8},
    OperatorSpelling{CodeOperator::BitAnd, "&", 7},
    OperatorSpelling{CodeOperator::BitXor, "^", 6},
    OperatorSpelling{CodeOperator::BitOr, "|", 5},
    OperatorSpelling{CodeOperator::And, "&&", 4},
    OperatorSpelling{CodeOperator::Or, "||", 3},
    OperatorSpelling{CodeOperator::Negate, "-", kUnaryPrecedence},
    OperatorSpelling{CodeOperator::Not, "!", kUnaryPrecedence},
    OperatorSpelling{CodeOperator::BitNot, "~", kUnaryPrecedence},
    OperatorSpelling{CodeOperator::Choose, "?", kChoosePrecedence},
};

static_assert(is_in_enum_order(kOperators, &OperatorSpelling::op, CodeOperator::Choose),
              "kOperators: one row per CodeOperator, in the order of the enum");

template <class T>
std::string shortest(T value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string spell_float(double value, DType dtype) {
  const bool is_double = dtype == DType::F64;
  if (std::isnan(value)) return is_double ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  const bool overflows = !is_double && std::fabs(value) > std::numeric_limits<float>::max();
  if (std::isinf(value) || overflows) {
    const std::string infinity = is_double ? "double(kInfinity)" : "kInfinity";
    return value < 0 ? "-" + infinity : infinity;
  }
  return is_double ? shortest(value) : shortest(static_cast<float>(value)) + "f";
}

std::string spell_integer(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807 - 1)";
  return std::to_string(value);
}

std::string spell_literal(const Literal& literal, const Dialect& dialect) {
  if (!literal.dtype) return spell_integer(to_int(literal.value));
  const DType dtype = *literal.dtype;
  if (dtype == DType::Bool) return to_bool(literal.value) ? "true" : "false";
  if (is_float(dtype)) return spell_float(to_double(literal.value), dtype);
  if (dtype == DType::I32) return spell_integer(to_int(literal.value));
  return fill_in("($)$", {spell({dtype, CodeShape::Scalar}, dialect), spell_integer(to_int(literal.value))});
}

class Speller {
 public:
  Speller(const Kernel& kernel, const Dialect& dialect) : kernel_(kernel), dialect_(dialect) {}

  // In a place that needs at least this precedence.
  std::string spell_in(const Code& code, int least) const {
    int own = kPostfixPrecedence;
    if (const auto* operation = std::get_if<Operation>(&code.kind)) {
      own = kOperators[static_cast<size_t>(operation->op)].precedence;
    } else if (std::holds_alternative<PointerCast>(code.kind)) {
      own = kUnaryPrecedence;
    }
    std::string text = spell_bare(code);
    if (std::holds_alternative<Literal>(code.kind) && text.starts_with('-')) own = kUnaryPrecedence;
    return own < least ? "(" + text + ")" : text;
  }

 private:
  std::string spell_bare(const Code& code) const {
    return match(
        code.kind, [&](const Reference& node) { return kernel_[node.symbol].name; },
        [&](const Literal& node) { return spell_literal(node, dialect_); },
        [&](const FunctionCall& node) { return spell_call(node); },
        [&](const Operation& node) { return spell_operation(node); },
        [&](const Subscript& node) {
          return fill_in("$[$]", {spell_in(node.base_and_index[0], kPostfixPrecedence),
                                  spell_in(node.base_and_index[1], 0)});
        },
        [&](const Member& node) {
          return fill_in("$.$", {spell_in(node.base[0], kPostfixPrecedence), node.name});
        },
        [&](const PointerCast& node) { return spell_cast(node); });
  }

  std::string spell_call(const FunctionCall& node) const {
    std::string text = node.function, constants;
    const auto add = [&](const std::string& constant) {
      constants += (constants.empty() ? "<" : ", ") + constant;
    };
    for (const DType type : node.types) add(spell({type, CodeShape::Scalar}, dialect_));
    for (const int64_t number : node.numbers) add(std::to_string(number));
    text += constants + (constants.empty() ? "(" : ">(");
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      text += (i == 0 ? "" : ", ") + spell_in(node.arguments[i], 0);
    }
    return text + ")";
  }

  std::string spell_operation(const Operation& node) const {
    const OperatorSpelling& row = kOperators[static_cast<size_t>(node.op)];
    if (node.op == CodeOperator::Choose) {
      return fill_in("$ ? $ : $", {spell_in(node.operands[0], kChoosePrecedence + 1),
                                   spell_in(node.operands[1], kChoosePrecedence),
                                   spell_in(node.operands[2], kChoosePrecedence)});
    }
    if (node.operands.size() == 1) {
      const std::string operand = spell_in(node.operands[0], kUnaryPrecedence);
      return row.text + (operand.starts_with('-') ? "(" + operand + ")" : operand);
    }
    // && inside ||, shifts beside sums and bits beside comparisons get parentheses that compilers ask for.
    const bool shy = row.precedence < 12 && row.precedence != 4;
    const int least = shy && row.precedence != 9 && row.precedence != 8 ? 13 : row.precedence;
    return fill_in("$ $ $", {spell_in(node.operands[0], least), row.text,
                             spell_in(node.operands[1], std::max(least, row.precedence + 1))});
  }

  std::string spell_cast(const PointerCast& node) const {
    const std::string type = spell(node.type, dialect_);
    const std::string base = spell_in(node.base_and_bytes[0], kUnaryPrecedence);
    if (constant_of(node.base_and_bytes[1]) == 0) return fill_in("($)$", {type, base});
    return fill_in("($)((char*)$ + $)", {type, base, spell_in(node.base_and_bytes[1], 13)});
  }

  const Kernel& kernel_;
  const Dialect& dialect_;
};

}  // namespace

std::string spell(const Code& code, const Kernel& kernel, const Dialect& dialect) {
  return Speller(kernel, dialect).spell_in(code, 0);
}

std::string spell(CodeType type, const Dialect& dialect) {
  std::string scalar = dialect.scalar_types.at(static_cast<size_t>(type.dtype));
  switch (type.shape) {
    case CodeShape::Vector:
      return type.dtype == DType::Bool ? dialect.mask_type : fill_in(dialect.vector_type, {scalar});
    case CodeShape::Four:
      return fill_in(dialect.four_type, {scalar});
    case CodeShape::Pointer:
      return scalar + "*";
    case CodeShape::ConstPointer:
      return "const " + scalar + "*";
    case CodeShape::TensorMap:
      return dialect.tensor_map;
    case CodeShape::Scalar:
      break;
  }
  return scalar;
}

}  // namespace tilefuse
