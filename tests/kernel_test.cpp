// Kernels: compiled, run, and compared with the interpreter of tile graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codegen/emit.h"
#include "core/result.h"
#include "core/rounding.h"
#include "fusion/check_schedule.h"
#include "fusion/structure.h"
#include "fusion/whole_graph_region.h"
#include "tests/random_graph.h"
#include "tests/random_schedule.h"
#include "tests/run_kernel.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

#ifdef TILEFUSE_LAW_EFFORT
constexpr uint64_t kLawEffort = TILEFUSE_LAW_EFFORT;
#else
constexpr uint64_t kLawEffort = 1;
#endif

// Relative to the larger of 1 and the value: f32 arithmetic in another order, 16-bit floats rounded at the end.
double tolerance_of(DType dtype) {
  if (dtype == DType::BF16) return 1.0 / 128;
  if (dtype == DType::F16) return 1.0 / 1024;
  return dtype == DType::F64 ? 1e-6 : 1e-4;
}

// Casts to 16-bit floats in between round, which the interpreter leaves out.
double tolerance_of(const TileGraph& graph) {
  double tolerance = 0;
  for (const TileValue& value : graph.values) {
    const bool is_narrow = value.dtype == DType::BF16 || value.dtype == DType::F16;
    if (is_narrow) tolerance = std::max(tolerance, 4 * tolerance_of(value.dtype));
  }
  return tolerance;
}

std::string first_difference(const Tensor& found, const Tensor& expected, double least_tolerance) {
  const double tolerance = std::max(least_tolerance, tolerance_of(expected.dtype()));
  for (int64_t i = 0; i < expected.count(); ++i) {
    if (!is_float(expected.dtype())) {
      if (found.int_at(i) != expected.int_at(i)) {
        return std::to_string(i) + ": " + std::to_string(found.int_at(i)) + " instead of " +
               std::to_string(expected.int_at(i));
      }
      continue;
    }
    const double a = found.float_at(i), b = expected.float_at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double scale = std::max({1.0, std::abs(a), std::abs(b)});
    if (!(std::abs(a - b) <= tolerance * scale)) {
      return std::to_string(i) + ": " + std::to_string(a) + " instead of " + std::to_string(b);
    }
  }
  return "";
}

std::vector<Tensor> random_buffers(const TileGraph& graph, uint64_t seed, const SymbolValues& symbols) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> tensors;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role != Buffer::Role::Input) continue;
    std::vector<int64_t> shape;
    for (const Expr& e : buffer.shape) {
      shape.push_back(evaluate(e, {}, [&](const std::string& name) { return symbols.at(name); }));
    }
    Tensor& tensor = tensors.emplace_back(buffer.dtype, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (is_float(buffer.dtype)) {
        tensor.set_float(i, round_to(buffer.dtype, std::uniform_real_distribution<>(-2, 2)(random)));
      } else {
        tensor.set_int(i, buffer.dtype == DType::Bool ? int64_t(random() % 2) : int64_t(random() % 4));
      }
    }
  }
  return tensors;
}

class KernelTest : public testing::Test {
 protected:
  void expect_same(const TileGraph& graph, const Schedule& schedule, const std::vector<Tensor>& inputs,
                   const SymbolValues& symbols) {
    ASSERT_THAT(check_schedule(graph, schedule), testing::IsEmpty()) << to_text(schedule, graph);
    const std::vector<Tensor> outputs = runner_.run(graph, schedule, inputs, symbols);
    const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
    const double tolerance = tolerance_of(graph);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(first_difference(outputs[i], expected[i], tolerance), "") << "output " << i;
    }
    if (HasFailure()) ADD_FAILURE() << to_text(graph) << to_text(schedule, graph) << runner_.source();
  }

  // Graph and schedule in their text forms, one behind the other.
  void expect_same(const std::string& graph_text, const std::string& decisions, const SymbolValues& symbols,
                   uint64_t seed = 1) {
    const TileGraph graph = parse_tile_graph(graph_text);
    const Schedule schedule =
        parse_schedule("schedule " + graph.name + " for x86-zen4 {\n" + decisions + "\n}\n", graph);
    expect_same(graph, schedule, random_buffers(graph, seed, symbols), symbols);
  }

  KernelRunner runner_;
};

struct LawCounts {
  int schedules = 0;
};

void expect_law(KernelRunner& runner, uint64_t seed, bool has_symbols, LawCounts& counts) {
  const Graph graph = random_graph(
      seed, {.step_count = 1 + static_cast<int>(seed % 6), .has_symbols = has_symbols, .has_steps = false});
  const Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
  if (!tiles || !analyze_structure(*tiles)) return;
  const SymbolValues symbols = random_symbol_values(graph);
  const std::vector<Tensor> inputs = random_inputs(graph, seed, symbols);
  const std::vector<Tensor> expected = evaluate(*tiles, inputs, {symbols, {.rounds_floats = false}});
  const double tolerance = tolerance_of(*tiles);
  for (const Schedule& schedule : random_schedules(*tiles, seed, 2)) {
    ++counts.schedules;
    const std::vector<Tensor> outputs = runner.run(*tiles, schedule, inputs, symbols);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(first_difference(outputs[i], expected[i], tolerance), "") << "output " << i;
    }
    EXPECT_FALSE(runner.found_index_error());
    if (testing::Test::HasFailure()) {
      FAIL() << to_text(*tiles) << to_text(schedule, *tiles) << runner.source();
    }
  }
}

uint64_t law_seeds(uint64_t usual) { return usual * kLawEffort; }

TEST_F(KernelTest, computes_random_graphs_under_random_schedules) {
  LawCounts counts;
  for (uint64_t seed = 0; seed < law_seeds(120) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_law(runner_, seed, false, counts);
  }
  EXPECT_GT(counts.schedules, 40);
}

TEST_F(KernelTest, computes_random_graphs_with_symbolic_sizes) {
  LawCounts counts;
  for (uint64_t seed = 5000; seed < 5000 + law_seeds(80) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_law(runner_, seed, true, counts);
  }
  EXPECT_GT(counts.schedules, 25);
}

const char* const kSoftmax = R"(tile_graph softmax_0 {
  axes row: s0, col: s1
  buffers %x: f32[s0, s1] in, %y: f32[s0, s1] out
  %0 = load %x[row*s1 + col]             : f32[row, col]
  %m = reduce.max(%0) over col           : f32[row]
  %1 = sub(%0, %m)                       : f32[row, col]
  %e = exp(%1)                           : f32[row, col]
  %s = reduce.sum(%e) over col           : f32[row]
  %2 = div(%e, %s)                       : f32[row, col]
  store %2 -> %y[row*s1 + col]
}
)";

TEST_F(KernelTest, walks_a_row_as_often_as_it_has_levels) {
  for (const char* decisions :
       {"lanes col = 16, unroll 2\n grid row = 1\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached",
        "lanes col = 8\n grid row = 3\n walk multi_pass; keep %e\n rows 1\n split 1\n stage none\n stores cached",
        "lanes row = 16\n grid row = 32\n walk multi_pass; keep %0, %e\n rows 1\n split 1\n stage none\n stores cached",
        "lanes 1\n grid row = all\n walk multi_pass\n rows 1\n split 1\n stage none\n stores cached"}) {
    SCOPED_TRACE(decisions);
    expect_same(kSoftmax, decisions, {{"s0", 37}, {"s1", 83}});
    expect_same(kSoftmax, decisions, {{"s0", 2}, {"s1", 5}});
  }
}

}  // namespace
}  // namespace tilefuse
