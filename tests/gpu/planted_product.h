// A product on tensor cores to plant bugs in, which the model of a GPU or the results have to tell.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/cuda_product_fixture.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/product_regions.h"
#include "tests/kernel_fixture.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {

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
      : PlantedProduct(parse_tile_graph(text_of(region)), target, pins, blocks) {}
  PlantedProduct(TileGraph graph, const std::string& target, const std::string& pins, int blocks = 0)
      : graph_(std::move(graph)),
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
      EXPECT_THAT(fault.what(), testing::HasSubstr(report));
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
      EXPECT_THAT(fault.what(), testing::HasSubstr(planted.report));
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
      EXPECT_THAT(fault.what(), testing::HasSubstr(planted.report));
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

}  // namespace tilefuse
