// Regions of real models compute what the interpreter of tile graphs does, under schedules that the solver
// would time, under any of its whole space, and under random ones. Random graphs rarely have together what
// these have: windows, stacks, results of several shapes, loads of bf16 that are turned.
#include <random>

#include "benchmarks/solver/regions.h"
#include "benchmarks/solver/sweep.h"
#include "fusion/launches.h"
#include "fusion/region_facts.h"
#include "fusion/solve.h"
#include "tests/kernel_fixture.h"
#include "tests/random_schedule.h"

namespace tilefuse {
namespace {

constexpr int kSlices = 8;                           // of the set: tests that run side by side
constexpr double kMostElements = 1 << 24;            // of all values of a region: the interpreter walks each
constexpr int kRandom = 1, kSwept = 3, kListed = 1;  // schedules of a region
constexpr int kDrawn = 40;

double elements_of(const TileGraph& graph) {
  double sum = 0;
  for (const TileValue& value : graph.values) {
    std::vector<AxisId> walked = value.axes;
    if (const auto* reduce = std::get_if<TileReduce>(&value.op)) {
      walked.insert(walked.end(), reduce->axes.begin(), reduce->axes.end());
    }
    double elements = 1;
    for (const AxisId axis : walked) elements *= double(graph[axis].extent.constant().value_or(1));
    sum += elements;
  }
  return sum;
}

// Positions are 0 or 1: the shortest table has two rows.
std::vector<Tensor> inputs_of(const TileGraph& graph, uint64_t seed) {
  std::vector<Tensor> inputs = random_buffers(graph, seed, {});
  for (Tensor& tensor : inputs) {
    if (is_float(tensor.dtype())) continue;
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_int(i, tensor.int_at(i) % 2);
  }
  return inputs;
}

// Decisions that each change how loops are written: where several meet is where they get into each other's
// way.
int unusual_decisions(const Schedule& schedule) {
  return int(!schedule.staged.empty()) + int(schedule.columns > 1) + int(schedule.rows > 1) +
         int(schedule.split > 1) + int(schedule.walk == Walk::Online) + int(schedule.accumulate_in_scratch) +
         int(!schedule.keep.empty()) + int(schedule.dots != DotKind::None);
}

// Of those drawn from the whole space.
std::vector<Schedule> most_unusual(const TileGraph& graph, const Target& target) {
  std::vector<Schedule> drawn = sweep(graph, target, 1, kDrawn);
  std::ranges::stable_sort(drawn, std::ranges::greater(), unusual_decisions);
  if (drawn.size() > kSwept) drawn.resize(kSwept);
  return drawn;
}

class RegionKernel : public KernelTest, public testing::WithParamInterface<std::tuple<std::string, int>> {
 protected:
  std::vector<Schedule> schedules_of(const TileGraph& graph, uint64_t seed) {
    std::vector<Schedule> schedules = random_schedules(graph, seed, kRandom);
    const std::vector<Schedule> swept = most_unusual(graph, target_);
    schedules.insert(schedules.end(), swept.begin(), swept.end());
    const Result<Solution> solution = solve(graph, target_, {}, {.candidates = 24});
    if (!solution) return schedules;
    std::mt19937_64 random(seed);
    for (int i = 0; i < kListed; ++i) {
      schedules.push_back(solution->ranked[random() % solution->ranked.size()]);
    }
    return schedules;
  }

  const Target target_ = load_target("x86-zen4");
};

TEST_P(RegionKernel, computes_what_the_interpreter_does) {
  const auto [set, slice] = GetParam();
  const std::vector<BenchmarkRegion> regions =
      read_regions(std::string(TILEFUSE_SOURCE_DIR) + "/benchmarks/solver/" + set + ".txt");
  int kernels = 0;
  for (size_t i = size_t(slice); i < regions.size(); i += kSlices) {
    const TileGraph& graph = regions[i].graph;
    if (takes_launches(graph) || elements_of(graph) > kMostElements) continue;
    const std::vector<Tensor> inputs = inputs_of(graph, i);
    const std::vector<Tensor> expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}});
    for (const Schedule& schedule : schedules_of(graph, i)) {
      ++kernels;
      SCOPED_TRACE(to_text(graph) + to_text(schedule, graph));
      const std::vector<Tensor> outputs = runner_.run(graph, schedule, inputs, {});
      ASSERT_EQ(outputs.size(), expected.size());
      for (size_t k = 0; k < outputs.size(); ++k) {
        EXPECT_EQ(first_difference(outputs[k], expected[k], tolerance_of(graph)), "") << "output " << k;
      }
      EXPECT_FALSE(runner_.found_index_error());
    }
  }
  EXPECT_GE(kernels, 4);
}

INSTANTIATE_TEST_SUITE_P(sets, RegionKernel,
                         testing::Combine(testing::Values<std::string>("held_out", "contractions"),
                                          testing::Range(0, kSlices)));

}  // namespace
}  // namespace tilefuse
