// What every kernel of a region bound by memory must do on the model of a GPU.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/reference.h"
#include "core/tensor.h"
#include "fusion/tile_graph.h"
#include "tests/gpu/tested_targets.h"

namespace tilefuse {

struct CheckedPlan {
  std::string pins = {};  // as pins_of has them
  size_t kernels = 1;     // that it must have
  SymbolValues sizes = {};
  std::vector<std::string> targets = tested_targets();
};
// A tile graph whose text has ROWS, COLS, DTYPE and KIND (of a reduction or a scan) to be filled in.
struct RowCase {
  std::string name;
  const char* graph;
  std::string rows, columns, dtype, kind;
  CheckedPlan plan = {};
};
void PrintTo(const RowCase& test, std::ostream* out);
std::string text_of(const RowCase& test);

// Expects, for every target: the results of `evaluate`, no spills, no bank conflicts.
void expect_evaluated_on_gpu(const TileGraph& graph, const CheckedPlan& wanted,
                             const std::vector<Tensor>& inputs);

}  // namespace tilefuse
