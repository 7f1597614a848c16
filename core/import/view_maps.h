// Index maps that several families of operators use, beyond those of core/index_map.h.
#pragma once
#include "core/import/captured_op.h"

namespace tilefuse::aten {

// Places in a dimension of `size` as slice and select take them: negative ones count from the end. Declines
// where the sign of a symbolic place is unknown.
Expr wrapped_place(const Expr& place, const Expr& size);
// The start of a slice, between 0 and the size.
Expr slice_start(CapturedOp& op, const Expr& size);

// The inverse of slice_map: `part` at start, start + step, ... along `dim` of a tensor of `shape`, fill
// elsewhere.
IndexMap embed_map(const Shape& shape, const Shape& part, int dim, const Expr& start, const Expr& step,
                   const Scalar& fill);
// One slice at `place` of the new dimension `dim` of `shape`, fill elsewhere.
IndexMap embed_select_map(const Shape& shape, int dim, const Expr& place, const Scalar& fill);
// Keeps the elements for which condition >= 0, fill elsewhere.
IndexMap masked_identity(const Shape& shape, const Expr& condition);

}  // namespace tilefuse::aten
