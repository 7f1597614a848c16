// Windows that slide over the last dims of a tensor: what convolutions and pools look at.
//
//   x [n, c, s], a window of 3 with padding 1   is   view(x)[n, c, o, r] = x[n, c, o + r - 1]
//   where 0 <= o + r - 1 < s, a fill elsewhere
#pragma once
#include <string_view>
#include <vector>

#include "core/import/captured_op.h"

namespace tilefuse::aten {

struct Window {  // along one dim
  Expr size;
  Expr stride = 1, padding = 0, dilation = 1;
};

// One number for all dims, or one for each; `fallback` where the argument is absent or an empty list.
std::vector<Expr> per_dim(CapturedOp& op, std::string_view name, size_t dims,
                          const std::vector<Expr>& fallback);

// The place in the tensor that `tap` of the window at `position` looks at.
Expr place_of(const Window& window, const Expr& position, const Expr& tap);

// Makes `map`, whose last coordinates are the places of `windows` in the last dims of a tensor of `shape`,
// fill where a place is outside.
void keep_inside(IndexMap& map, const std::vector<Window>& windows, const Shape& shape);

}  // namespace tilefuse::aten
