// Which declarations of the runtime header come along with a kernel.
#include "codegen/select_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilefuse {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kHeader = R"(#define TILE_INLINE inline
namespace tile {

TILE_INLINE float one() { return 1; }

TILE_INLINE float two() {
  return one() + one();
}

TILE_INLINE float three() {
  return 3;
}

#if defined(A) && \
    (LANES == 8 || \
     LANES == 16)
TILE_INLINE float four(float x) { return x; }
#else
TILE_INLINE float four(double x) { return 4; }
#endif

TILE_INLINE float five() { return 5; }

}  // namespace tile
)";

TEST(SelectRuntime, TakesWhatIsNamedAndWhatThatNames) {
  const std::string text = RuntimeText(kHeader).select("float f() { return two(); }");
  EXPECT_THAT(text, HasSubstr("float one()"));
  EXPECT_THAT(text, HasSubstr("return one() + one();\n}"));
  EXPECT_THAT(text, Not(HasSubstr("three")));
}

TEST(SelectRuntime, TakesWhatHasNoName) {
  const std::string text = RuntimeText(kHeader).select("");
  EXPECT_THAT(text, HasSubstr("#define TILE_INLINE inline\nnamespace tile {"));
  EXPECT_THAT(text, HasSubstr("}  // namespace tile"));
  EXPECT_THAT(text, Not(HasSubstr("one")));
}

TEST(SelectRuntime, KeepsAConditionOfSeveralLinesWhole) {
  const std::string with = RuntimeText(kHeader).select("float f() { return four(1); }");
  EXPECT_THAT(
      with,
      HasSubstr(
          "#if defined(A) && \\\n    (LANES == 8 || \\\n     LANES == 16)\nTILE_INLINE float four(float x)"));
  EXPECT_THAT(with, HasSubstr("#else\nTILE_INLINE float four(double x) { return 4; }\n#endif\n"));
  EXPECT_THAT(with, Not(HasSubstr("five")));
  const std::string without = RuntimeText(kHeader).select("float f() { return five(); }");
  EXPECT_THAT(without, Not(HasSubstr("#if")));
  EXPECT_THAT(without, Not(HasSubstr("LANES")));
  EXPECT_THAT(without, Not(HasSubstr("#endif")));
}

constexpr std::string_view kMacros = R"(#define TILE_INLINE inline
#define TILE_FUNCTION(name, T, expression)       \
  TILE_INLINE T name(T x) { return expression; } \
  TILE_INLINE T twice_##name(T x) {              \
    return 2 * name(x);                          \
  }
#define TILE_EACH(define, ...) define(__VA_ARGS__, x + helper(x)) define(minus_##x, float, other(x, 1))
#define TILE_OPERATOR(op) TILE_INLINE Vec operator op(Vec a, Vec b) { return each(a, b); }
#define TILE_PAIR(T) struct PairOf<T> { T a, b; };
float helper(float x);
float other(float x, int i);
Vec each(Vec a, Vec b);
TILE_FUNCTION(half, float, quotient(x, (2, 2)))
TILE_EACH(TILE_FUNCTION, plus,
          float)
TILE_OPERATOR(+)
TILE_PAIR(int)
float last(float x);
)";

TEST(SelectRuntime, TakesWhatMacrosDeclare) {
  const RuntimeText runtime(kMacros);
  const std::string nothing = runtime.select("");
  EXPECT_THAT(nothing, HasSubstr("TILE_OPERATOR(+)\n"));  // written as no name
  EXPECT_THAT(nothing, HasSubstr("Vec each(Vec a, Vec b);\n"));
  EXPECT_THAT(nothing, Not(HasSubstr("TILE_FUNCTION(half")));
  EXPECT_THAT(nothing, Not(HasSubstr("TILE_EACH(TILE")));
  EXPECT_THAT(nothing, Not(HasSubstr("float helper")));
  EXPECT_THAT(nothing, Not(HasSubstr("TILE_PAIR(int)")));
  EXPECT_THAT(nothing, Not(HasSubstr("last")));

  EXPECT_THAT(runtime.select("half"), HasSubstr("TILE_FUNCTION(half, float, quotient(x, (2, 2)))\n"));
  EXPECT_THAT(runtime.select("twice_half"), HasSubstr("TILE_FUNCTION(half"));
  EXPECT_THAT(runtime.select("PairOf"), HasSubstr("TILE_PAIR(int)\n"));
  const std::string plus = runtime.select("twice_plus");
  EXPECT_THAT(plus, HasSubstr("TILE_EACH(TILE_FUNCTION, plus,\n          float)\n"));
  EXPECT_THAT(plus, HasSubstr("float helper"));
  EXPECT_THAT(plus, HasSubstr("float other"));
  EXPECT_THAT(plus, Not(HasSubstr("TILE_FUNCTION(half")));
}

}  // namespace
}  // namespace tilefuse
