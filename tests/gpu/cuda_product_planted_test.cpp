// Bugs planted in generated kernels of products, which the model of a GPU or the results have to tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gpu/cuda_product_fixture.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/product_regions.h"
#include "tests/kernel_fixture.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// A ragged product with a bias, and what a kernel of it gives: what the kernel says itself is planted, not
// the functions that it calls.
class PlantedProduct {
 public:
  PlantedProduct(const std::string& target, const std::string& pins, const std::string& size = "40",
                 int blocks = 0)
      : PlantedProduct({.name = "product",
                        .m = size,
                        .n = "40",
                        .k = size,
                        .buffers = "%bias: bf16[40] in, ",
                        .epilogue = std::string(kBias) + "  %y = cast(%b) : bf16[i, j]\n"},
                       target, pins, blocks) {}
  PlantedProduct(const ProductRegion& region, const std::string& target, const std::string& pins, int blocks)
      : graph_(parse_tile_graph(text_of(region))),
        target_(load_gpu_target(target)),
        kernel_(compile_cuda(*nvrtc(), nest(pins, blocks), target_)),
        inputs_(whole_numbers(graph_, 3, {})) {}

  GpuNest nest(const std::string& pins, int blocks) const {
    GpuNest nest = plan_gpu(graph_, target_, pins_of(pins))->nests.at(0);
    std::get<GpuProductSchedule>(nest.schedule).blocks = blocks;
    return nest;
  }

  // Of an instruction that is left out wherever it stands.
  void expect_fault_without(const std::string& instruction, const std::string& report) const {
    std::string ptx = kernel_.binary.ptx;
    ASSERT_NE(ptx.find(instruction), std::string::npos);
    for (size_t at = ptx.find(instruction); at != std::string::npos; at = ptx.find(instruction))
      ptx.erase(at, instruction.size());
    try {
      run_cuda(kernel_.program.launch, ptx, graph_, inputs_, {});
      ADD_FAILURE() << "no fault without " << instruction;
    } catch (const GpuFault& fault) {
      EXPECT_THAT(fault.what(), HasSubstr(report));
    }
  }

  // The same of what stands in the PTX, wherever it does.
  void expect_found_in_ptx(const Planted& planted) const {
    std::string ptx = kernel_.binary.ptx;
    const std::string right = planted.right, wrong = planted.wrong;
    ASSERT_NE(ptx.find(right), std::string::npos) << ptx;
    for (size_t at = ptx.find(right); at != std::string::npos; at = ptx.find(right, at + wrong.size()))
      ptx.replace(at, right.size(), wrong);
    try {
      const Tensor found = run_cuda(kernel_.program.launch, ptx, graph_, inputs_, {}).outputs.at(0);
      EXPECT_NE(first_difference(found, expected(), 0), "");
      EXPECT_STREQ(planted.report, "");
    } catch (const GpuFault& fault) {
      EXPECT_STRNE(planted.report, "") << fault.what();
      EXPECT_THAT(fault.what(), HasSubstr(planted.report));
    }
  }

  void expect_found(const Planted& planted) const {
    const Tensor expected = this->expected();
    EXPECT_EQ(first_difference(run(kernel_.source), expected, 0), "");
    const std::string right = planted.right;
    std::string source = kernel_.source;
    const size_t at = source.find(right);
    ASSERT_NE(at, std::string::npos) << source;
    source.replace(at, right.size(), planted.wrong);
    try {
      EXPECT_NE(first_difference(run(source), expected, 0), "") << source;
      EXPECT_STREQ(planted.report, "") << source;
    } catch (const GpuFault& fault) {
      EXPECT_STRNE(planted.report, "") << fault.what();
      EXPECT_THAT(fault.what(), HasSubstr(planted.report));
    }
  }

 private:
  Tensor expected() const { return evaluate(graph_, inputs_, {{}, {.rounds_floats = false}}).at(0); }
  Tensor run(const std::string& source) const {
    const Result<GpuBinary> binary = nvrtc()->compile(source, target_.architecture);
    EXPECT_TRUE(binary) << (binary ? "" : binary.unsupported().reason);
    return run_cuda(kernel_.program.launch, binary->ptx, graph_, inputs_, {}).outputs.at(0);
  }

  TileGraph graph_;
  GpuTarget target_;
  CudaKernel kernel_;
  std::vector<Tensor> inputs_;
};

class CudaPlantedInProduct : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInProduct, is_found) {
  PlantedProduct("cuda-sm80", "block_m=32,block_n=32,step=32,warps_m=2,warps_n=2,stages=2")
      .expect_found(GetParam());
}

class CudaPlantedInGroups : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInGroups, is_found) {
  PlantedProduct("cuda-sm90a", "multiply=wgmma,block_m=128,block_n=32,warps_m=4,stages=3,copies=async")
      .expect_found(GetParam());
}

class CudaPlantedInBulk : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInBulk, is_found) {
  PlantedProduct("cuda-sm90a",
                 "multiply=wgmma,block_m=128,block_n=64,warps_m=8,stages=3,copies=bulk,results=held")
      .expect_found(GetParam());
}

class CudaPlantedInGathered : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInGathered, is_found) {
  PlantedProduct("cuda-sm90a",
                 "multiply=wgmma,block_m=128,block_n=64,warps_m=8,stages=3,copies=bulk,results=gathered")
      .expect_found(GetParam());
}

const Planted kPlanted[] = {
    {"row_beyond_the_result", "if (i < 40)", "if (i < 48)", "outside buffer"},
    {"column_beyond_the_result", "if (j < 40)", "if (j < 42)", "outside buffer"},
    {"rows_of_the_factor", "40 - first_i", "64 - first_i", "outside buffer"},
    {"depth_beyond_the_factor", ", 40);", ", 64);", "outside buffer"},
    {"depth_too_short", ", 40);", ", 32);", ""},
    {"tile_of_another_block", "first_j * 40", "first_i * 40", "outside buffer"},
    {"lines_of_another_length", "40, 40 - first_i", "39, 40 - first_i", "not aligned"},
    {"sums_of_other_columns", "+ column_place) * 4", "+ 1 - column_place) * 4", ""},
    {"rows_of_another_warp", "row_of_sums<16, 2>", "row_of_sums<8, 2>", "written already"},
    {"block_too_few", "block_number<int>()", "block_number<int>() / 2", "written already"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInProduct, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

// A group of 128 rows: two instructions.
const Planted kPlantedInGroups[] = {
    {"column_beyond_the_result", "if (j < 40)", "if (j < 42)", "outside buffer"},
    {"sums_of_the_other_instruction", "(row_place / 2 *", "((1 - row_place / 2) *", ""},
    {"rows_of_the_other_instruction", "row_place / 2 * 64", "row_place / 2 * 16", "written already"},
    {"rows_of_another_warp", "row_of_group_sums<128>", "row_of_sums<32, 1>", "nobody writes"},
    {"pieces_of_mma", "multiply_tiles_in_groups<bf16, 128, 32, 64, 128, 3>",
     "multiply_tiles<bf16, 128, 32, 64, 32, 32, 2>", ""},
    {"columns_of_another_warp", "column_of_sums<32, 1>", "column_of_sums<16, 2>", "nobody writes"},
    {"depth_beyond_the_factor", ", 40);", ", 64);", "outside buffer"},
    {"depth_too_short", ", 40);", ", 32);", ""},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInGroups, testing::ValuesIn(kPlantedInGroups),
                         [](const auto& info) { return std::string(info.param.name); });

const Planted kPlantedInBulk[] = {
    {"column_beyond_the_result", "if (j < 40)", "if (j < 42)", "outside buffer"},
    {"factors_exchanged", "bulk_along_k(x_map", "bulk_along_k(w_map", "8192 bytes are missing"},
    {"rows_of_another_tile", "bulk_along_k(x_map, 0)", "bulk_along_k(x_map, 1)", ""},
    {"boxes_of_other_lines", "bulk_along_k(x_map", "bulk_along_rows(x_map",
     "race: a box comes where a copy is under way to"},
    {"a_stage_more_than_there_is_memory_for", "64, 64, 64, 3>(", "64, 64, 64, 4>(",
     "outside the shared memory"},
    {"products_of_no_depth", ", 40, 0);", ", 0, 0);", "a block ends while a box is under way"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInBulk, testing::ValuesIn(kPlantedInBulk),
                         [](const auto& info) { return std::string(info.param.name); });

class CudaPlantedInTurns : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInTurns, is_found) {
  PlantedProduct("cuda-sm90a", "multiply=wgmma,block_m=64,block_n=64,stages=3,copies=bulk,groups=turns",
                 "264", 1)
      .expect_found(GetParam());
}

// Of five tiles, by one block. A group that does not wait takes pieces of the other one's tiles, or waits for
// a piece that has come and gone.
const Planted kPlantedInTurns[] = {
    {"turns_that_nobody_waits_for", "multiply_in_turn<", "multiply_in_bulk<",
     "reads shared memory that nobody wrote"},
    {"turns_that_are_not_begun", "64, 64, 64, 64, 3, 1>", "64, 64, 64, 64, 3, 0>", "there is no barrier"},
    {"tiles_of_the_other_group", "+ group_number()", "+ (1 - group_number())",
     "reads shared memory that nobody wrote"},
    {"tiles_of_both_groups", "+ group_number()", "", "no warp can go on"},
    {"rows_of_another_tile", "row_of_gathered_sums<0>", "row_of_gathered_sums<64>", "written already"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInTurns, testing::ValuesIn(kPlantedInTurns),
                         [](const auto& info) { return std::string(info.param.name); });

// Floats of eight bits, of two kinds, in two steps.
PlantedProduct product_of_bytes(const std::string& copies) {
  ProductRegion region{.name = "bytes", .dtype = "f32", .m = "72", .n = "40", .k = "208"};
  region.first_dtype = "f8e4m3fn", region.second_dtype = "f8e5m2";
  region.epilogue = "  %y = copy(%s) : f32[RESULT]\n";
  return {region, "cuda-sm90a",
          "numbers=float8,multiply=wgmma,block_m=64,block_n=64,stages=3,parts=1,copies=" + copies, 0};
}

class CudaPlantedInBytes : public CudaProducts, public testing::WithParamInterface<Planted> {};

TEST_P(CudaPlantedInBytes, is_found) { product_of_bytes("bulk,results=held").expect_found(GetParam()); }

const Planted kPlantedInBytes[] = {
    {"column_beyond_the_result", "if (j < 40)", "if (j < 42)", "written already"},
    {"numbers_of_another_kind", "bulk_along_k<f8e5m2>(w_map, 0), 208, 0);\n\n",
     "bulk_along_k<f8e4m3fn>(w_map, 0), 208, 0);\n\n", ""},
    {"a_stage_more_than_is_copied_to", "multiply_in_bulk<f8e4m3fn, 64, 64, 128, 64, 3>",
     "multiply_in_bulk<f8e4m3fn, 64, 64, 128, 64, 4>", "there is no barrier"},
    {"depth_too_short", "208, 0);\n\n", "128, 0);\n\n", "a block ends while a box is under way"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInBytes, testing::ValuesIn(kPlantedInBytes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(CudaProducts, of_bytes_forget_fence_and_wait) {
  for (const char* copies : {"async", "bulk"}) {
    const PlantedProduct product = product_of_bytes(copies);
    product.expect_found_in_ptx({"sums_that_are_not_forgotten", ", 0, 1, 1;", ", 1, 1, 1;", ""});
    product.expect_found_in_ptx({"all_sums_forgotten", ", 1, 1, 1;", ", 0, 1, 1;", ""});
    product.expect_found_in_ptx({"no_fence", "wgmma.fence.sync.aligned;", "", "without wgmma.fence"});
    product.expect_found_in_ptx({"no_wait", "wgmma.wait_group.sync.aligned 0;", "",
                                 "a register of a product that is under way is touched"});
  }
}

TEST_F(CudaProducts, lanes_that_gather_meet_in_between) {
  PlantedProduct("cuda-sm90a",
                 "multiply=wgmma,block_m=128,block_n=128,warps_m=8,stages=3,copies=bulk,results=gathered")
      .expect_fault_without("bar.warp.sync \t-1;", "race: a thread reads what thread");
}

const Planted kPlantedInGathered[] = {
    {"column_beyond_the_result", "if (own_j < 40)", "if (own_j < 48)", "outside buffer"},
    {"row_beyond_the_result", "if (i < 40)", "if (i < 44)", "outside buffer"},
    {"rows_of_another_group", "row_of_gathered_sums<64>", "row_of_gathered_sums<32>", "written already"},
    {"rows_of_another_place", "row_place * 4, 0)", "row_place * 4 ^ 4, 0)", ""},
    {"sums_of_two_places", "row_place * 4, 0)", "row_place * 3, 0)", ""},
    {"sums_that_nobody_gathers", "gather_sums<64>(gathered, s_sums, piece);", "", "that nobody wrote"},
    {"memory_of_another_warp", "gather_sums<64>(gathered,", "gather_sums<64>(gathered + 1024,",
     "that nobody wrote"},
    {"memory_behind_all", "= gathered_memory<128, 64, 64, 64, 3>", "= gathered_memory<128, 64, 64, 64, 5>",
     "outside the shared memory"},
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaPlantedInGathered, testing::ValuesIn(kPlantedInGathered),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilefuse
