// Conditions on coordinates: what is folded into them, what they usually are, what is left where they are
// known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/fold_coordinates.h"
#include "fusion/usual_conditions.h"

namespace tilefuse {
namespace {

TileGraph graph_of(const std::string& values) {
  return parse_tile_graph(
      "tile_graph g {\n  axes q: 23, k: 31\n"
      "  buffers %S: f32[23, 31] in, %y: f32[23, 31] out\n"
      "  %s = load %S[q*31 + k] : f32[q, k]\n  %low = constant -inf : f32[]\n" +
      values + "\n  store %t -> %y[q*31 + k]\n}\n");
}

std::string folded(const std::string& values) { return to_text(fold_coordinates(graph_of(values))); }

const std::string kPlaces = "%q = index q : i64[q]\n  %k = index k : i64[k]\n  ";
const std::string kChoice = "\n  %t = where(%c, %s, %low) : f32[q, k]";

TEST(FoldCoordinates, makes_an_expression_of_every_comparison) {
  const std::pair<const char*, const char*> cases[] = {{"ge", "inside [q - k]"},
                                                       {"gt", "inside [q - k - 1]"},
                                                       {"le", "inside [k - q]"},
                                                       {"lt", "inside [k - q - 1]"}};
  for (const auto& [comparison, expected] : cases) {
    EXPECT_THAT(folded(kPlaces + "%c = " + comparison + "(%q, %k) : bool[q, k]" + kChoice),
                testing::HasSubstr(expected));
  }
}

TEST(FoldCoordinates, follows_sums_and_leaves_out_what_is_not_needed) {
  const std::string text = folded(kPlaces +
                                  "%d = sub(%k, %q) : i64[q, k]\n  %w = constant -8 : i64[]\n"
                                  "  %c = gt(%d, %w) : bool[q, k]" +
                                  kChoice);
  EXPECT_THAT(text, testing::HasSubstr("inside [k - q + 7]"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("sub(")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("index")));
}

TEST(FoldCoordinates, leaves_sums_alone_that_may_wrap) {
  const std::string text = folded(
      "%q = index q : i32[q]\n  %k = index k : i32[k]\n  %d = sub(%k, %q) : i32[q, k]\n"
      "  %w = constant -8 : i32[]\n  %c = gt(%d, %w) : bool[q, k]" +
      kChoice);
  EXPECT_THAT(text, testing::HasSubstr("gt("));
}

TEST(FoldCoordinates, leaves_alone_what_would_lose_an_axis) {
  const std::string text = folded(
      "%q = index q : i64[q]\n  %d = index q + k : i64[q, k]\n  %e = sub(%d, %q) : i64[q, k]\n"
      "  %w = constant 8 : i64[]\n  %c = gt(%e, %w) : bool[q, k]" +
      kChoice);
  EXPECT_THAT(text, testing::HasSubstr("sub("));
}

TileValueId named(const TileGraph& graph, const std::string& name) {
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].name == name) return {v};
  }
  throw std::runtime_error("no %" + name);
}

struct Expected {
  const char* values;
  bool holds;
};
class UsualConditions : public testing::TestWithParam<Expected> {};

TEST_P(UsualConditions, are_those_that_let_values_through) {
  const TileGraph graph = graph_of(GetParam().values);
  const TileValueId condition = named(graph, "i");
  const auto usual = usual_conditions(graph);
  ASSERT_TRUE(usual.contains(condition));
  EXPECT_EQ(usual.at(condition), GetParam().holds);
  const TileValueId result = named(graph, "t");
  EXPECT_FALSE(literal_where(graph, result, {{condition, GetParam().holds}}));
  const auto other = literal_where(graph, result, {{condition, !GetParam().holds}});
  ASSERT_TRUE(other);
  EXPECT_EQ(to_double(*other), -std::numeric_limits<double>::infinity());
}

INSTANTIATE_TEST_SUITE_P(
    Masks, UsualConditions,
    testing::Values(
        Expected{"%i = inside [q - k] : bool[q, k]\n  %t = where(%i, %s, %low) : f32[q, k]", true},
        Expected{"%i = inside [q - k] : bool[q, k]\n  %t = where(%i, %low, %s) : f32[q, k]", false},
        Expected{"%i = inside [q - k] : bool[q, k]\n  %n = not(%i) : bool[q, k]\n"
                 "  %t = where(%n, %low, %s) : f32[q, k]",
                 true},
        Expected{"%i = inside [q - k] : bool[q, k]\n  %j = inside [k - q + 5] : bool[q, k]\n"
                 "  %a = and(%i, %j) : bool[q, k]\n  %t = where(%a, %s, %low) : f32[q, k]",
                 true},
        Expected{"%i = inside [q - k - 9] : bool[q, k]\n  %j = inside [k - q - 1] : bool[q, k]\n"
                 "  %a = or(%i, %j) : bool[q, k]\n  %t = where(%a, %low, %s) : f32[q, k]",
                 false},
        Expected{"%i = inside [q - k, k - q + 5] : bool[q, k]\n  %t = where(%i, %s, %low) : f32[q, k]",
                 true}));

TEST(UsualConditions, say_nothing_of_a_choice_between_two_values) {
  EXPECT_TRUE(usual_conditions(graph_of("%i = inside [q - k] : bool[q, k]\n  %n = neg(%s) : f32[q, k]\n"
                                        "  %t = where(%i, %s, %n) : f32[q, k]"))
                  .empty());
}

}  // namespace
}  // namespace tilefuse
