// Products by clusters of two blocks, which share a factor: each copies half of it to both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gpu/cuda_product_fixture.h"
#include "tests/gpu/planted_product.h"
#include "tests/gpu/product_regions.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

constexpr const char* kTiles = "multiply=wgmma,copies=bulk,block_m=64,block_n=64,warps_m=4,parts=1,";

std::vector<ProductCase> cases() {
  return {
      {{.name = "whole_tiles", .m = "256", .n = "128", .k = "128"}},
      {{.name = "one_tile", .m = "40", .n = "40", .k = "40"}},  // the other block has none
      {{.name = "three_tiles_down", .m = "136", .n = "40", .k = "72"}},
      {{.name = "three_tiles_across", .m = "40", .n = "136", .k = "72"}},
      {{.name = "first_along_rows", .m = "72", .n = "136", .k = "136", .first_along_k = false}},
      {{.name = "second_along_rows", .m = "136", .n = "72", .k = "136", .second_along_k = false}},
      {{.name = "both_along_rows",
        .m = "200",
        .n = "136",
        .k = "136",
        .first_along_k = false,
        .second_along_k = false}},
      {{.name = "batch", .m = "136", .n = "72", .k = "64", .batch = 3}},
      {{.name = "batch_of_one_second",
        .m = "72",
        .n = "136",
        .k = "64",
        .second_along_k = false,
        .batch = 2,
        .shares_second = true}},
      {{.name = "residual",
        .m = "136",
        .n = "136",
        .k = "64",
        .buffers = "%r: bf16[136, 136] in, ",
        .epilogue = "  %r = load %r[i*136 + j] : bf16[i, j]\n  %t = add(%s, %r) : f32[i, j]\n  %y = cast(%t) "
                    ": bf16[i, j]\n"}},
      {{.name = "run_time_rows", .m = "s0", .n = "128", .k = "64"}, "", {{"s0", 200}}},
      {{.name = "run_time_sizes", .m = "s0", .n = "s1", .k = "128"}, "", {{"s0", 72}, {"s1", 200}}},
  };
}

class CudaClusters : public CudaProducts, public testing::WithParamInterface<ProductCase> {};

TEST_P(CudaClusters, compute_what_the_tile_graph_says) {
  const TileGraph graph = parse_tile_graph(text_of(GetParam().region));
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  using enum ProductGroups;
  struct Way {
    const char* pins;
    int together, blocks;
  };
  for (const Way& way :
       {Way{"pair=down,results=held,stages=3", 1, 0}, Way{"pair=across,results=gathered,stages=4", 2, 4},
        Way{"pair=across,results=held,stages=5,groups=turns", 2, 2},
        Way{"pair=down,results=gathered,stages=3,groups=turns", 1, 4}}) {
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(std::string(kTiles) + way.pins));
    ASSERT_TRUE(plan) << plan.unsupported().reason;
    GpuNest nest = plan->nests.at(0);
    auto& schedule = std::get<GpuProductSchedule>(nest.schedule);
    schedule.tiles_together = way.together;
    schedule.blocks = way.blocks;
    ASSERT_THAT(check_gpu_product_schedule(*analyze_gpu_product(graph), schedule, target),
                testing::IsEmpty());
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(nest, kernel, 7, GetParam().sizes);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaClusters, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.region.name; });

// Half of what both multiply is asked for by each, and the other half comes without asking.
TEST_F(CudaProducts, a_cluster_asks_once_for_what_it_shares) {
  const TileGraph graph = parse_tile_graph(text_of({.name = "shared", .m = "256", .n = "256", .k = "256"}));
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const auto boxes = [&](const std::string& cluster) {
    const Result<GpuPlan> plan = plan_gpu(
        graph, target, pins_of("multiply=wgmma,copies=bulk,block_m=128,block_n=256,parts=1,pair=" + cluster));
    EXPECT_TRUE(plan) << plan.unsupported().reason;
    const CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target);
    const CudaRun found =
        run_cuda(kernel.program.launch, kernel.binary.ptx, graph, whole_numbers(graph, 3, {}), {});
    return std::pair(found.run.boxes, found.run.buffers.at(1).sectors);
  };
  const auto alone = boxes("alone"), down = boxes("down");
  EXPECT_EQ(alone.first, down.first);        // as many, half of them of half the size
  EXPECT_EQ(alone.second, 2 * down.second);  // of the second factor
}

// What is left out of a kernel, or stands there wrong. Of five tiles down and two across.
PlantedProduct planted_cluster(const std::string& cluster) {
  return {"cuda-sm90a", std::string(kTiles) + "stages=3,results=held,pair=" + cluster, "264", 2};
}

class CudaPlantedInSharedFactor : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInSharedFactor, is_found) { planted_cluster("down").expect_found(GetParam()); }

const Planted kPlantedInCluster[] = {
    {"row_beyond_the_result", "if (i < 264)", "if (i < 265)", "outside buffer"},
    {"tiles_of_the_other_block", "rank_in_cluster() * 64", "(1 - rank_in_cluster()) * 64", ""},
    {"no_last_meeting", "end_stages<1>();", "", "has ended"},
    {"the_other_factor_is_shared", "copy_in_bulk<64, 64, 64, 64, 3, 1>", "copy_in_bulk<64, 64, 64, 64, 3, 2>",
     "race: a box comes where a copy is under way to"},
    {"nothing_is_shared", "copy_in_bulk<64, 64, 64, 64, 3, 1>", "copy_in_bulk<64, 64, 64, 64, 3, 0>",
     "4096 bytes are missing"},
    {"only_own_warps_are_counted", "begin_stages<64, 64, 64, 64, 3, 0, 1>",
     "begin_stages<64, 64, 64, 64, 3, 0, 0>", "before its cluster has met"},
    {"only_own_warps_are_told", "multiply_in_bulk<bf16, 64, 64, 64, 64, 3, 1>",
     "multiply_in_bulk<bf16, 64, 64, 64, 64, 3, 0>", "no warp can go on"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInSharedFactor, testing::ValuesIn(kPlantedInCluster),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse
