// Integer expressions as code, where what an atom is may be a number.
#include "codegen/expr_code.h"

#include <gtest/gtest.h>

namespace tilefuse {
namespace {

constexpr SymbolId kCoordinate{7};

// Coordinate 0 is the number, the others are a variable.
Code with_first(int64_t number, const Expr& e) {
  return expr_code(e, [&](const Expr::Atom& atom) -> Code {
    if (atom.kind == Expr::AtomKind::Index) return atom.index == 0 ? integer(number) : reference(kCoordinate);
    const Code first = with_first(number, atom.args[0]), second = with_first(number, atom.args[1]);
    if (const auto known = known_atom(atom, first, second)) return *known;
    return call("floor_div", {first, second});
  });
}

CodeOperator operator_of(const Code& code) { return std::get<Operation>(code.kind).op; }

TEST(ExprCode, is_a_number_where_all_atoms_are) {
  const Expr i = Expr::index(0);
  EXPECT_EQ(constant_of(with_first(0, -i)), 0);
  EXPECT_EQ(constant_of(with_first(3, -2 * i + 1)), -5);
  EXPECT_EQ(constant_of(with_first(3, i * i - 9)), 0);
  EXPECT_EQ(constant_of(with_first(3, floordiv(-i, 2) + 1)), -1);
  EXPECT_EQ(constant_of(with_first(3, min(i, 5) + max(i, 5) + mod(-i, 4))), 9);
}

TEST(ExprCode, leaves_out_what_is_zero) {
  const Expr i = Expr::index(0), j = Expr::index(1);
  EXPECT_TRUE(std::holds_alternative<Reference>(with_first(0, 56 * i + j).kind));
  EXPECT_TRUE(std::holds_alternative<Reference>(with_first(0, i * j + j).kind));
  EXPECT_TRUE(std::holds_alternative<Reference>(with_first(2, j - i + 2).kind));
}

TEST(ExprCode, begins_with_what_is_added) {
  const Expr i = Expr::index(0), j = Expr::index(1);
  EXPECT_EQ(operator_of(with_first(3, i - j)), CodeOperator::Sub);
  EXPECT_EQ(operator_of(with_first(3, j - i)), CodeOperator::Sub);
  EXPECT_EQ(operator_of(with_first(-3, j - i)), CodeOperator::Add);
  EXPECT_EQ(operator_of(with_first(0, i - j)), CodeOperator::Negate);
}

TEST(ExprCode, does_not_divide_by_zero) {
  const Code quotient = with_first(0, floordiv(4, Expr::index(0)));
  EXPECT_FALSE(constant_of(quotient));
}

}  // namespace
}  // namespace tilefuse
