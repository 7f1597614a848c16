// Bugs planted in generated kernels of products, which the model of a GPU or the results have to tell.
#include <gtest/gtest.h>

#include "tests/gpu/cuda_product_fixture.h"
#include "tests/gpu/planted_product.h"

namespace tilefuse {
namespace {

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
