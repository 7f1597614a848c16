// Cascades of reductions in parts: the graphs one after the other give what the whole one gives, also for
// rows that hold what floats hold, and for parts that are ragged.
#include "fusion/gpu_cascade.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "fusion/structure.h"
#include "tests/filled_text.h"
#include "tests/row_cascades.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr const char* kSoftmax = R"(tile_graph softmax {
  axes i: ROWS, j: COLS
  buffers %x: f32[ROWS, COLS] in, %y: f32[ROWS, COLS] out
  %x = load %x[i*COLS + j]     : f32[i, j]
  %m = reduce.max(%x) over j   : f32[i]
  %d = sub(%x, %m)             : f32[i, j]
  %e = exp(%d)                 : f32[i, j]
  %s = reduce.sum(%e) over j   : f32[i]
  %y = div(%e, %s)             : f32[i, j]
  store %y -> %y[i*COLS + j]
}
)";

// One reduction, and what walks the rows again.
constexpr const char* kShares = R"(tile_graph shares {
  axes i: ROWS, j: COLS
  buffers %x: f32[ROWS, COLS] in, %y: f32[ROWS, COLS] out
  %x = load %x[i*COLS + j]     : f32[i, j]
  %s = reduce.sum(%x) over j   : f32[i]
  %y = div(%x, %s)             : f32[i, j]
  store %y -> %y[i*COLS + j]
}
)";

// The second reduction is no sum of products of what varies and what moves: it waits for the first.
constexpr const char* kDeviation = R"(tile_graph deviation {
  axes i: ROWS, j: COLS
  buffers %x: f32[ROWS, COLS] in, %y: f32[ROWS, COLS] out
  %x = load %x[i*COLS + j]     : f32[i, j]
  %t = reduce.sum(%x) over j   : f32[i]
  %n = constant COLS           : f32[]
  %u = div(%t, %n)             : f32[i]
  %d = sub(%x, %u)             : f32[i, j]
  %a = abs(%d)                 : f32[i, j]
  %s = reduce.sum(%a) over j   : f32[i]
  %y = div(%d, %s)             : f32[i, j]
  store %y -> %y[i*COLS + j]
}
)";

// Results that are declared narrow, and stored so.
constexpr const char* kNarrow = R"(tile_graph narrow {
  axes i: ROWS, j: COLS
  buffers %x: bf16[ROWS, COLS] in, %y: bf16[ROWS, COLS] out, %m: bf16[ROWS] out
  %x = load %x[i*COLS + j]     : bf16[i, j]
  %m = reduce.max(%x) over j   : bf16[i]
  %d = sub(%x, %m)             : bf16[i, j]
  %y = cast(%d)                : bf16[i, j]
  store %y -> %y[i*COLS + j]
  store %m -> %m[i]
}
)";

struct Case {
  std::string name;
  const char* graph;
  int columns, parts;
  size_t nests;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

std::vector<Case> cases() {
  return {{"softmax", kSoftmax, 128, 8, 3},
          {"ragged_softmax", kSoftmax, 131, 8, 3},
          {"softmax_of_an_end", kSoftmax, 65, 8, 3},  // of which the last part has one element
          {"logsumexp", kLogSumExp, 96, 2, 2},
          {"ragged_logsumexp", kLogSumExp, 101, 3, 2},
          {"norm", kNorm, 128, 4, 3},
          {"ragged_norm", kNorm, 121, 8, 3},
          {"shares", kShares, 70, 4, 3},
          {"deviation", kDeviation, 93, 4, 5},
          {"narrow", kNarrow, 77, 4, 3}};
}

TileGraph graph_of(const Case& test) {
  return parse_tile_graph(
      filled(test.graph, {{"ROWS", "9"}, {"COLS", std::to_string(test.columns)}, {"DTYPE", "f32"}}));
}

// Rows of random numbers far from 0, then one each with -inf in front, with only -inf, with NaN, with inf.
std::vector<Tensor> inputs_of(const TileGraph& graph, bool has_oddities) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(300.0F, 2.0F);
  std::vector<Tensor> inputs;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role != Buffer::Role::Input) continue;
    std::vector<int64_t> shape;
    for (const Expr& extent : buffer.shape) shape.push_back(*extent.constant());
    Tensor tensor(buffer.dtype, shape);
    const int64_t columns = shape.back();
    for (int64_t i = 0; i < tensor.count(); ++i) {
      double x = normal(random);
      const int64_t row = i / columns, column = i % columns;
      if (has_oddities && row == 5 && column < columns / 2) x = -kInfinity;
      if (has_oddities && row == 6) x = -kInfinity;
      if (has_oddities && row == 7 && column == columns - 1) x = kNan;
      if (has_oddities && row == 8 && column == 1) x = kInfinity;
      tensor.set_float(i, x);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// Outputs of the whole graph, from graphs that hand each other buffers of one name.
std::map<std::string, Tensor> run_in_turn(const std::vector<TileGraph>& nests, const TileGraph& whole,
                                          const std::vector<Tensor>& inputs) {
  std::map<std::string, Tensor> known;
  for (size_t i = 0; i < inputs.size(); ++i) known.emplace(whole.buffers[i].name, inputs[i]);
  for (const TileGraph& nest : nests) {
    std::vector<Tensor> given;
    std::vector<std::string> made;
    for (const Buffer& buffer : nest.buffers) {
      if (buffer.role == Buffer::Role::Input) given.push_back(known.at(buffer.name));
      if (buffer.role == Buffer::Role::Output) made.push_back(buffer.name);
    }
    const std::vector<Tensor> results = evaluate(nest, given, {});
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_TRUE(known.emplace(made[i], results[i]).second) << made[i] << " is written twice";
    }
  }
  return known;
}

class GpuCascade : public testing::TestWithParam<Case> {
 protected:
  void expect_same(bool has_oddities) {
    const TileGraph graph = graph_of(GetParam());
    const auto nests = split_cascade(graph, GetParam().parts);
    ASSERT_TRUE(nests);
    EXPECT_EQ(nests->size(), GetParam().nests);
    const std::vector<Tensor> inputs = inputs_of(graph, has_oddities);
    const std::vector<Tensor> want = evaluate(graph, inputs, {});
    const std::map<std::string, Tensor> got = run_in_turn(*nests, graph, inputs);
    size_t number = 0;
    for (const Buffer& buffer : graph.buffers) {
      if (buffer.role != Buffer::Role::Output) continue;
      const Tensor &expected = want[number++], &have = got.at(buffer.name);
      double scale = 0;  // the mean of a row is as exact as its largest elements are
      for (int64_t i = 0; i < expected.count(); ++i) {
        if (std::isfinite(expected.float_at(i))) scale = std::max(scale, std::abs(expected.float_at(i)));
      }
      for (int64_t i = 0; i < expected.count(); ++i) {
        const double w = expected.float_at(i), h = have.float_at(i);
        if (std::isfinite(w)) {
          EXPECT_NEAR(h, w, 1e-6 + 1e-4 * scale) << buffer.name << " " << i;
        } else {
          EXPECT_TRUE(std::isnan(w) ? std::isnan(h) : h == w) << buffer.name << " " << i << ": " << h;
        }
      }
    }
  }
};

TEST_P(GpuCascade, gives_what_the_whole_gives) { expect_same(false); }
TEST_P(GpuCascade, gives_it_for_rows_with_infinities_and_nan) { expect_same(true); }

// Reductions over different parts have nothing behind them but a last walk; each graph has one walk.
TEST_P(GpuCascade, reads_the_elements_once_for_all_that_joins) {
  const auto nests = split_cascade(graph_of(GetParam()), GetParam().parts);
  ASSERT_TRUE(nests);
  for (const TileGraph& nest : *nests) {
    const Result<Structure> structure = analyze_structure(nest);
    ASSERT_TRUE(structure) << structure.unsupported().reason;
    EXPECT_LE(structure->reduced.size(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuCascade, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(GpuCascadeRefused, is_what_has_one_pass_or_unknown_sizes) {
  const Case softmax{"", kSoftmax, 64, 8, 3};
  EXPECT_FALSE(split_cascade(graph_of({"", kSoftmax, 8, 8, 3}), 8));  // one part
  EXPECT_TRUE(split_cascade(graph_of(softmax), 8));
  const std::string of_any_length = filled(to_text(graph_of(softmax)), {{"64", "s0"}});
  EXPECT_FALSE(split_cascade(parse_tile_graph(of_any_length), 8));
}

}  // namespace
}  // namespace tilefuse
