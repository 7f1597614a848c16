// Reads a view as a renaming: which pieces ("digits") of its output's dimensions make up each input
// dimension.
//
// A digit is (index // divisor) % extent. Reshapes, permutes, expands, squeezes and repeats are made of
// nothing else; a dimension read through a slice, a flip or a window has no digits.
//
//   reshape f32[2, 768] -> [2, 12, 64]   (i0, i1, i2) -> (i0, i1*64 + i2)   input dim 1 = i1, i2
//   reshape f32[4, 8] -> [32]            (i0) -> (i0 // 8, i0 % 8)          output dim 0 = i0 // 8, i0 % 8
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "core/index_map.h"

namespace tilefuse {

struct ViewDigits {
  // Extents of the pieces every output dimension falls into, outermost first; a single one if it stays whole.
  std::vector<std::vector<Expr>> output;
  // Of every input dimension, outermost first: (output dimension, piece). nullopt: not made of digits.
  std::vector<std::optional<std::vector<std::pair<int, int>>>> input;
};

ViewDigits digits_of(const IndexMap& map, const std::vector<Expr>& input_shape);

}  // namespace tilefuse
