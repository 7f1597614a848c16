// What tests of kernels share: run under a schedule, and compared with the interpreter of tile graphs.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/run_kernel.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {

// Of results that sums in another order and casts in between leave: relative to the larger of 1 and the
// value.
double tolerance_of(const TileGraph& graph);

// "3: 1.5 instead of 1.25", or "" where all elements are close enough.
std::string first_difference(const Tensor& found, const Tensor& expected, double least_tolerance);

// Inputs between -2 and 2, and small positions.
std::vector<Tensor> random_buffers(const TileGraph& graph, uint64_t seed, const SymbolValues& symbols);

TileValueId value_named(const TileGraph& graph, const std::string& name);  // runtime_error: there is none

class KernelTest : public testing::Test {
 protected:
  void expect_same(const TileGraph& graph, const Schedule& schedule, const std::vector<Tensor>& inputs,
                   const SymbolValues& symbols);
  // Graph and schedule in their text forms, with random inputs.
  void expect_same(const std::string& graph_text, const std::string& decisions, const SymbolValues& symbols,
                   uint64_t seed = 1);

  KernelRunner runner_;
};

}  // namespace tilefuse
