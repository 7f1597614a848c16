// Index maps: the meaning of every data movement that is a function of coordinates.
//
// A map takes the coordinates of its output (index 0 .. rank-1 of the Exprs, each in [0, extents[i])) to the
// coordinates of its input. Where a condition is not met the output holds `fill` and the input is not read.
//
//   permute [1, 0] of f32[4, 8]     (i0, i1) -> (i1, i0)                 extents [8, 4]
//   slice 2: of f32[10]             (i0) -> (i0 + 2)                     extents [8]
//   pad 1, 1 of f32[4]              (i0) -> (i0 - 1) if i0 - 1 >= 0, 4 - i0 >= 0 else 0     extents [6]
//   expand of f32[1, 8]             (i0, i1) -> (0, i1)                  extents [n, 8]
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/expr.h"

namespace tilefuse {

struct IndexMap {
  std::vector<Expr> extents;      // of the output
  std::vector<Expr> coordinates;  // one per input dimension, over the output's indices
  std::vector<Expr> conditions;   // in bounds where every one is >= 0; empty: always
  Scalar fill = 0.0;              // meaningful only with conditions

  bool operator==(const IndexMap&) const = default;
};

IndexMap identity_map(std::vector<Expr> extents);
IndexMap permute_map(const std::vector<Expr>& input_shape, const std::vector<int>& order);
// Row-major reinterpretation; symbolic extents allowed.
IndexMap reshape_map(const std::vector<Expr>& input_shape, const std::vector<Expr>& output_shape);
// Numpy broadcasting, also to more dimensions.
IndexMap expand_map(const std::vector<Expr>& input_shape, const std::vector<Expr>& output_shape);
IndexMap slice_map(const std::vector<Expr>& input_shape, int dim, const Expr& start, const Expr& length,
                   const Expr& step);
IndexMap select_map(const std::vector<Expr>& input_shape, int dim, const Expr& position);
IndexMap flip_map(const std::vector<Expr>& input_shape, const std::vector<int>& dims);
IndexMap pad_map(const std::vector<Expr>& input_shape, const std::vector<Expr>& before,
                 const std::vector<Expr>& after, Scalar fill);
IndexMap insert_dim_map(const std::vector<Expr>& input_shape, int dim);  // unsqueeze
IndexMap remove_dim_map(const std::vector<Expr>& input_shape, int dim);  // squeeze of an extent-1 dim

// (outer after inner): output of `outer` -> input of `inner`. Simplified. Two different fills do not compose:
// nullopt then (the caller keeps two views).
std::optional<IndexMap> compose(const IndexMap& outer, const IndexMap& inner);
IndexMap simplify(const IndexMap& map);

bool is_identity(const IndexMap& map, const std::vector<Expr>& input_shape);
// The strided form, if the map is one: the output is an alias of an input with these strides and offset (both
// in elements). nullopt: conditions, div/mod, or data that strides cannot express.
struct StridedView {
  std::vector<Expr> strides;
  Expr offset;
};
std::optional<StridedView> as_strided(const IndexMap& map, const std::vector<Expr>& input_strides,
                                      const Expr& input_offset = 0);
std::vector<Expr> contiguous_strides(const std::vector<Expr>& shape);

std::string to_text(const IndexMap& map);  // "(i0, i1) -> (i1, i0) : [8, 4]", "... if i0 - 1, 4 - i0 else 0"
IndexMap parse_index_map(const std::string& text);

}  // namespace tilefuse
