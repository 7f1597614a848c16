#include "tests/gpu/cuda_check.h"

#include <gtest/gtest.h>

#include "core/result.h"
#include "tests/filled_text.h"
#include "tests/gpu/cuda_run.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {

void PrintTo(const RowCase& test, std::ostream* out) { *out << test.name; }

std::string text_of(const RowCase& test) {
  return filled(test.graph,
                {{"ROWS", test.rows}, {"COLS", test.columns}, {"DTYPE", test.dtype}, {"KIND", test.kind}});
}

void expect_evaluated_on_gpu(const TileGraph& graph, const CheckedPlan& wanted,
                             const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> expected = evaluate(graph, inputs, {wanted.sizes, {.rounds_floats = false}});
  for (const std::string& name : wanted.targets) {
    const GpuTarget target = load_gpu_target(name);
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(wanted.pins));
    ASSERT_TRUE(plan) << plan.unsupported().reason;
    EXPECT_EQ(plan->nests.size(), wanted.kernels);
    const CudaPlanRun found =
        run_plan(compile_plan(*nvrtc(), *plan, target), *plan, graph, inputs, wanted.sizes);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(first_difference(found.outputs.at(i), expected[i], tolerance_of(graph)), "")
          << "output " << i << "\n"
          << found.kernels.front().source;
    }
    for (size_t k = 0; k < found.runs.size(); ++k) {
      EXPECT_EQ(found.kernels[k].binary.resources.at(0).spill_bytes, 0);
      EXPECT_EQ(found.runs[k].bank_conflicts, 0) << found.kernels[k].source;
    }
  }
}

}  // namespace tilefuse
