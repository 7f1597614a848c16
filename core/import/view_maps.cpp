#include "core/import/view_maps.h"

#include "core/import/refusal.h"

namespace tilefuse::aten {

Expr wrapped_place(const Expr& place, const Expr& size) {
  if (proves_nonnegative(place)) return place;
  if (proves_nonnegative(-place - 1)) return place + size;
  decline("the sign of the place " + to_text(place) + " is unknown");
}

Expr slice_start(CapturedOp& op, const Expr& size) {
  const Expr start = wrapped_place(op.size("start", Expr(0)), size);
  const Expr not_negative = proves_nonnegative(start) ? start : max(start, Expr(0));
  return proves_nonnegative(size - not_negative) ? not_negative : min(not_negative, size);
}

IndexMap embed_map(const Shape& shape, const Shape& part, int dim, const Expr& start, const Expr& step,
                   const Scalar& fill) {
  IndexMap map = identity_map(shape);
  const Expr offset = Expr::index(dim) - start;
  const Expr place = step.is_constant(1) ? offset : floordiv(offset, step);
  map.coordinates[static_cast<size_t>(dim)] = place;
  map.conditions = {offset, part[static_cast<size_t>(dim)] - 1 - place};
  if (!step.is_constant(1)) map.conditions.push_back(-mod(offset, step));
  map.fill = fill;
  return simplify(map);
}

IndexMap embed_select_map(const Shape& shape, int dim, const Expr& place, const Scalar& fill) {
  IndexMap map = identity_map(shape);
  map.coordinates.erase(map.coordinates.begin() + dim);
  map.conditions = {Expr::index(dim) - place, place - Expr::index(dim)};
  map.fill = fill;
  return simplify(map);
}

IndexMap masked_identity(const Shape& shape, const Expr& condition) {
  IndexMap map = identity_map(shape);
  map.conditions = {condition};
  return simplify(map);
}

}  // namespace tilefuse::aten
