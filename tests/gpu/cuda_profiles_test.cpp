// A sample of kernels of every family for every embedded profile: solved, compiled for its architecture,
// inspected, run on the model of a GPU, and compared with the interpreter of tile graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/gpu_plan.h"
#include "tests/gpu/chain_regions.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/product_regions.h"
#include "tests/kernel_fixture.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

constexpr const char* kSoftmax = R"(tile_graph softmax {
  axes row: 9, col: 300
  buffers %x: bf16[9, 300] in, %y: bf16[9, 300] out
  %x = load %x[row*300 + col]  : bf16[row, col]
  %c = cast(%x)                : f32[row, col]
  %m = reduce.max(%c) over col : f32[row]
  %d = sub(%c, %m)             : f32[row, col]
  %e = exp(%d)                 : f32[row, col]
  %s = reduce.sum(%e) over col : f32[row]
  %q = div(%e, %s)             : f32[row, col]
  %y = cast(%q)                : bf16[row, col]
  store %y -> %y[row*300 + col]
}
)";
constexpr const char* kColumns = R"(tile_graph columns {
  axes row: 2000, col: 72
  buffers %x: f32[2000, 72] in, %y: f32[72] out
  %x = load %x[row*72 + col]   : f32[row, col]
  %s = reduce.sum(%x) over row : f32[col]
  store %s -> %y[col]
}
)";
constexpr const char* kTurned = R"(tile_graph turned {
  axes row: 70, col: 90
  buffers %x: f32[90, 70] in, %y: f32[70, 90] out
  %x = load %x[col*70 + row] : f32[row, col]
  %t = tanh(%x)              : f32[row, col]
  store %t -> %y[row*90 + col]
}
)";
constexpr const char* kGelu =
    "  %bias = load %bias[j] : bf16[j]\n  %b = add(%s, %bias) : f32[i, j]\n"
    "  %h = constant 0.5 : f32[]\n  %one = constant 1 : f32[]\n  %c = constant 0.7071 : f32[]\n"
    "  %t = mul(%b, %c) : f32[i, j]\n  %e = erf(%t) : f32[i, j]\n  %f = add(%e, %one) : f32[i, j]\n"
    "  %g = mul(%b, %f) : f32[i, j]\n  %a = mul(%g, %h) : f32[i, j]\n  %y = cast(%a) : bf16[i, j]\n";

struct Sample {
  const char* name;
  std::string graph;
  std::string pins = {};
};
std::vector<Sample> samples() {
  const auto product = [](const char* m, const char* n, const char* k) {
    return text_of({.name = "linear",
                    .m = m,
                    .n = n,
                    .k = k,
                    .buffers = std::string("%bias: bf16[") + n + "] in, ",
                    .epilogue = kGelu});
  };
  const auto product_of = [](const char* factors, const char* products) {
    return text_of({.name = "linear",
                    .dtype = products,
                    .m = "136",
                    .n = "72",
                    .k = "136",
                    .second_along_k = false,
                    .declared = products,
                    .first_dtype = factors,
                    .second_dtype = factors,
                    .epilogue = "  %y = copy(%s) : DTYPE[RESULT]\n",
                    .result_dtype = products});
  };
  return {{"softmax", kSoftmax},
          {"column_sums", kColumns},
          {"column_sums_in_parts", kColumns, "parts=8"},
          {"transpose", kTurned},
          {"product", product("136", "264", "136"), "kernel=product,parts=1"},
          {"product_in_parts", product("72", "40", "512"), "kernel=product,parts=8"},
          {"product_of_floats", product_of("f32", "f32"), "numbers=tf32x3,parts=1"},
          {"product_of_bytes", product_of("i8", "i32"), "numbers=int8,parts=1"},
          {"chain", text_of(ChainRegion{.name = "attention", .q = "72", .k = "136"})}};
}

class CudaProfile : public testing::TestWithParam<std::string> {};

TEST_P(CudaProfile, has_a_kernel_of_every_family) {
  if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  const GpuTarget target = load_gpu_target(GetParam());
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const TileGraph graph = parse_tile_graph(sample.graph);
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(sample.pins));
    ASSERT_TRUE(plan) << plan.unsupported().reason;
    const std::vector<CudaKernel> kernels = compile_plan(*nvrtc(), *plan, target);
    for (size_t i = 0; i < kernels.size(); ++i) {
      ASSERT_EQ(kernels[i].binary.resources.size(), 1U) << kernels[i].binary.log;
      const GpuResources& resources = kernels[i].binary.resources[0];
      EXPECT_EQ(resources.spill_bytes + resources.stack_bytes, 0) << kernels[i].source;
      EXPECT_THAT(check_gpu_nest(plan->nests[i], target), testing::IsEmpty());
      EXPECT_FALSE(kernels[i].binary.cubin.empty());
    }
    const std::vector<Tensor> inputs = random_buffers(graph, 3, {});
    const std::vector<Tensor> expected = evaluate(graph, inputs, {{}, {.rounds_floats = false}});
    const CudaPlanRun found = run_plan(kernels, *plan, graph, inputs, {});
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(first_difference(found.outputs.at(i), expected[i], 2e-2), "") << kernels.front().source;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaProfile, testing::ValuesIn(gpu_target_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tilefuse
