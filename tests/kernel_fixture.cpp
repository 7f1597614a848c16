#include "tests/kernel_fixture.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "core/rounding.h"
#include "fusion/check_schedule.h"

namespace tilefuse {
namespace {

// Relative to the larger of 1 and the value: f32 arithmetic in another order, 16-bit floats rounded at the
// end.
double tolerance_of(DType dtype) {
  if (dtype == DType::BF16) return 1.0 / 128;
  if (dtype == DType::F8E4M3FN) return 1.0 / 16;
  if (dtype == DType::F8E5M2) return 1.0 / 8;
  if (dtype == DType::F16) return 1.0 / 1024;
  return dtype == DType::F64 ? 1e-6 : 1e-4;
}

}  // namespace

// Casts to 16-bit floats in between round, which the interpreter leaves out.
double tolerance_of(const TileGraph& graph) {
  double tolerance = 0;
  for (const TileValue& value : graph.values) {
    const bool is_narrow = is_narrow_float(value.dtype);
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
    Tensor& tensor = tensors.emplace_back(buffer.dtype, sizes_of(buffer, symbols));
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

TileValueId value_named(const TileGraph& graph, const std::string& name) {
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].name == name) return {v};
  }
  throw std::runtime_error("no value " + name);
}

void KernelTest::expect_same(const TileGraph& graph, const Schedule& schedule,
                             const std::vector<Tensor>& inputs, const SymbolValues& symbols) {
  ASSERT_THAT(check_schedule(graph, schedule), testing::IsEmpty()) << to_text(schedule, graph);
  if (!runner_.draws(graph, schedule)) return;
  const std::vector<Tensor> outputs = runner_.run(graph, schedule, inputs, symbols);
  const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
  const double tolerance = tolerance_of(graph);
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(first_difference(outputs[i], expected[i], tolerance), "") << "output " << i;
  }
  if (HasFailure()) ADD_FAILURE() << to_text(graph) << to_text(schedule, graph) << runner_.source();
}

void KernelTest::expect_same(const std::string& graph_text, const std::string& decisions,
                             const SymbolValues& symbols, uint64_t seed) {
  const TileGraph graph = parse_tile_graph(graph_text);
  const Schedule schedule =
      parse_schedule("schedule " + graph.name + " for x86-zen4 {\n" + decisions + "\n}\n", graph);
  expect_same(graph, schedule, random_buffers(graph, seed, symbols), symbols);
}

}  // namespace tilefuse
