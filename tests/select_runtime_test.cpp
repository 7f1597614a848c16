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

}  // namespace
}  // namespace tilefuse
