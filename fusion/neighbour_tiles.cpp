#include "fusion/neighbour_tiles.h"

namespace tilefuse {

std::optional<Expr> offset_of_even(const Expr& offset, AxisId axis) {
  const int number = static_cast<int>(axis.index);
  const Expr half = Expr::index(number);
  const Expr even = simplify(substitute_index(offset, number, half * 2));
  const Expr odd = simplify(substitute_index(offset, number, half * 2 + 1));
  const auto affine = affine_in(even, number);
  const auto slope = affine ? affine->coefficient.constant() : std::nullopt;
  if (!slope || *slope % 2 != 0 || !simplify(odd - even).is_constant(1)) return std::nullopt;
  return affine->rest + half * (*slope / 2);
}

std::optional<AxisId> neighbour_axis(const TileGraph& graph, const Expr& offset) {
  for (const int index : indices_of(offset)) {
    const AxisId axis{static_cast<uint32_t>(index)};
    if (axis.index >= graph.axes.size() || affine_in(offset, index)) continue;
    if (offset_of_even(offset, axis)) return axis;
  }
  return std::nullopt;
}

}  // namespace tilefuse
