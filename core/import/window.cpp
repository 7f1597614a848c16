#include "core/import/window.h"

#include "core/import/refusal.h"

namespace tilefuse::aten {

std::vector<Expr> per_dim(CapturedOp& op, std::string_view name, size_t dims,
                          const std::vector<Expr>& fallback) {
  std::vector<Expr> given;
  if (op.has(name)) given = op.sizes(name);
  if (given.empty()) given = fallback;
  if (given.size() == 1) given.resize(dims, given[0]);
  if (given.size() != dims) decline("windows over another number of dims");
  return given;
}

Expr place_of(const Window& window, const Expr& position, const Expr& tap) {
  return position * window.stride + tap * window.dilation - window.padding;
}

void keep_inside(IndexMap& map, const std::vector<Window>& windows, const Shape& shape) {
  for (size_t w = 0; w < windows.size(); ++w) {
    const Expr& place = map.coordinates[map.coordinates.size() - windows.size() + w];
    const Expr& size = shape[shape.size() - windows.size() + w];
    for (const Expr& condition : {place, size - 1 - place}) {
      if (!proves_nonnegative(condition, map.extents)) map.conditions.push_back(condition);
    }
  }
}

}  // namespace tilefuse::aten
