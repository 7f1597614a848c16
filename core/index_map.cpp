#include "core/index_map.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "core/expr_algebra.h"
#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {

namespace {

Expr index_of(size_t dim) { return Expr::index(static_cast<int>(dim)); }

size_t checked_dim(const std::vector<Expr>& shape, int dim, const char* operation) {
  TILEFUSE_CHECK(dim >= 0 && static_cast<size_t>(dim) < shape.size(),
                 std::string(operation) + ": dimension " + std::to_string(dim) + " of a tensor of rank " +
                     std::to_string(shape.size()));
  return static_cast<size_t>(dim);
}

// Bit for bit, so that NaN equals itself and -0.0 is not 0.0.
bool is_same(const Scalar& a, const Scalar& b) {
  const double* x = std::get_if<double>(&a);
  const double* y = std::get_if<double>(&b);
  if (x && y) return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
  return a == b;
}

// g*x + c >= 0  <=>  x + floor(c / g) >= 0
Expr tightened(const Expr& condition) {
  uint64_t divisor = 0;
  for (const Expr::Term& term : condition.terms()) {
    if (!term.factors.empty()) divisor = std::gcd(divisor, magnitude(term.coefficient));
  }
  const bool divides = divisor > 1 && divisor <= magnitude(std::numeric_limits<int64_t>::max());
  return divides ? divide_terms(condition, static_cast<int64_t>(divisor)).quotient : condition;
}

std::vector<Expr> simplified_conditions(const std::vector<Expr>& conditions,
                                        const std::vector<Expr>& extents) {
  std::vector<Expr> kept;
  for (const Expr& condition : conditions) {
    const Expr simple = tightened(simplify(condition, extents));
    if (bounds(simple, extents).high < 0) return {Expr(-1)};
    if (proves_nonnegative(simple, extents)) continue;
    const auto implies = [](const Expr& a, const Expr& b) { return (b - a).constant().value_or(-1) >= 0; };
    if (std::any_of(kept.begin(), kept.end(), [&](const Expr& other) { return implies(other, simple); }))
      continue;
    std::erase_if(kept, [&](const Expr& other) { return implies(simple, other); });
    kept.push_back(simple);
  }
  return kept;
}

Expr linearize(const std::vector<Expr>& coordinates, const std::vector<Expr>& strides) {
  Expr sum;
  for (size_t i = 0; i < coordinates.size(); ++i) sum = sum + coordinates[i] * strides[i];
  return sum;
}

// The stride of a dimension of extent 1 is free: it gets the one it has in a contiguous tensor.
void set_free_strides(std::vector<Expr>& strides, const std::vector<Expr>& extents) {
  for (size_t i = extents.size(); i-- > 0;) {
    if (!extents[i].is_constant(1)) continue;
    strides[i] = i + 1 == extents.size() ? Expr(1) : strides[i + 1] * extents[i + 1];
  }
}

// ---------------------------------------------------------------- reshape

// Dimensions with an extent other than 1, and the products of their extents so far.
struct Factored {
  std::vector<size_t> dims;
  std::vector<Expr> products;
};

Factored factor(const std::vector<Expr>& shape) {
  Factored factored;
  Expr product = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_constant(1)) continue;
    product = product * shape[i];
    factored.dims.push_back(i);
    factored.products.push_back(product);
  }
  return factored;
}

struct Group {
  size_t input_end, output_end;  // one past the last of each
};

// The shortest continuation after which as many elements lie on one side as on the other.
Group next_group(const Factored& input, const Factored& output, Group begin) {
  const size_t inputs = input.dims.size(), outputs = output.dims.size();
  for (size_t length = 2; length <= inputs - begin.input_end + outputs - begin.output_end; ++length) {
    for (size_t taken = 1; taken < length; ++taken) {
      const size_t i = begin.input_end + taken, j = begin.output_end + (length - taken);
      if (i > inputs || j > outputs) continue;
      if (input.products[i - 1] == output.products[j - 1]) return {i, j};
    }
  }
  return {inputs, outputs};
}

std::vector<Expr> pick(const std::vector<Expr>& shape, const std::vector<size_t>& dims, size_t begin,
                       size_t end) {
  std::vector<Expr> picked;
  for (size_t i = begin; i < end; ++i) picked.push_back(shape[dims[i]]);
  return picked;
}

}  // namespace

// ---------------------------------------------------------------- constructors

IndexMap identity_map(std::vector<Expr> extents) {
  IndexMap map{std::move(extents), {}, {}, 0.0};
  for (size_t i = 0; i < map.extents.size(); ++i) map.coordinates.push_back(index_of(i));
  return simplify(map);
}

IndexMap permute_map(const std::vector<Expr>& input_shape, const std::vector<int>& order) {
  TILEFUSE_CHECK(order.size() == input_shape.size(), "permute: the order names another number of dimensions");
  IndexMap map;
  map.coordinates.assign(input_shape.size(), Expr(-1));
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t dim = checked_dim(input_shape, order[i], "permute");
    TILEFUSE_CHECK(map.coordinates[dim].is_constant(-1), "permute: a dimension is named twice");
    map.extents.push_back(input_shape[dim]);
    map.coordinates[dim] = index_of(i);
  }
  return simplify(map);
}

IndexMap reshape_map(const std::vector<Expr>& input_shape, const std::vector<Expr>& output_shape) {
  IndexMap map{output_shape, std::vector<Expr>(input_shape.size(), Expr(0)), {}, 0.0};
  const auto is_zero = [](const Expr& extent) { return extent.is_constant(0); };
  if (std::any_of(output_shape.begin(), output_shape.end(), is_zero)) return map;  // no element at all
  const Factored input = factor(input_shape), output = factor(output_shape);
  for (Group begin{0, 0}; begin.input_end < input.dims.size() || begin.output_end < output.dims.size();) {
    const Group end = next_group(input, output, begin);
    std::vector<Expr> indices;
    for (size_t j = begin.output_end; j < end.output_end; ++j) indices.push_back(index_of(output.dims[j]));
    const Expr linear = linearize(
        indices, contiguous_strides(pick(output_shape, output.dims, begin.output_end, end.output_end)));
    const auto strides = contiguous_strides(pick(input_shape, input.dims, begin.input_end, end.input_end));
    for (size_t i = begin.input_end; i < end.input_end; ++i) {
      const Expr quotient = floordiv(linear, strides[i - begin.input_end]);
      const bool is_first = i == begin.input_end;
      map.coordinates[input.dims[i]] = is_first ? quotient : mod(quotient, input_shape[input.dims[i]]);
    }
    begin = end;
  }
  return simplify(map);
}

IndexMap expand_map(const std::vector<Expr>& input_shape, const std::vector<Expr>& output_shape) {
  TILEFUSE_CHECK(input_shape.size() <= output_shape.size(), "expand: to fewer dimensions");
  const size_t added = output_shape.size() - input_shape.size();
  IndexMap map{output_shape, {}, {}, 0.0};
  for (size_t i = 0; i < input_shape.size(); ++i) {
    const bool repeats = input_shape[i].is_constant(1);
    TILEFUSE_CHECK(repeats || input_shape[i] == output_shape[added + i],
                   "expand: " + to_text(input_shape[i]) + " to " + to_text(output_shape[added + i]));
    map.coordinates.push_back(repeats ? Expr(0) : index_of(added + i));
  }
  return simplify(map);
}

IndexMap slice_map(const std::vector<Expr>& input_shape, int dim, const Expr& start, const Expr& length,
                   const Expr& step) {
  const size_t sliced = checked_dim(input_shape, dim, "slice");
  IndexMap map = identity_map(input_shape);
  map.extents[sliced] = length;
  map.coordinates[sliced] = start + step * index_of(sliced);
  return simplify(map);
}

IndexMap select_map(const std::vector<Expr>& input_shape, int dim, const Expr& position) {
  const size_t selected = checked_dim(input_shape, dim, "select");
  IndexMap map;
  for (size_t i = 0; i < input_shape.size(); ++i) {
    if (i == selected) {
      map.coordinates.push_back(position);
    } else {
      map.coordinates.push_back(index_of(map.extents.size()));
      map.extents.push_back(input_shape[i]);
    }
  }
  return simplify(map);
}

IndexMap flip_map(const std::vector<Expr>& input_shape, const std::vector<int>& dims) {
  IndexMap map = identity_map(input_shape);
  for (int dim : dims) {
    const size_t flipped = checked_dim(input_shape, dim, "flip");
    map.coordinates[flipped] = input_shape[flipped] - 1 - map.coordinates[flipped];
  }
  return simplify(map);
}

IndexMap pad_map(const std::vector<Expr>& input_shape, const std::vector<Expr>& before,
                 const std::vector<Expr>& after, Scalar fill) {
  TILEFUSE_CHECK(before.size() == input_shape.size() && after.size() == input_shape.size(),
                 "pad: needs one amount per dimension and side");
  IndexMap map;
  map.fill = fill;
  for (size_t i = 0; i < input_shape.size(); ++i) {
    const Expr coordinate = index_of(i) - before[i];
    map.extents.push_back(before[i] + input_shape[i] + after[i]);
    map.coordinates.push_back(coordinate);
    map.conditions.push_back(coordinate);
    map.conditions.push_back(input_shape[i] - 1 - coordinate);
  }
  return simplify(map);
}

IndexMap insert_dim_map(const std::vector<Expr>& input_shape, int dim) {
  TILEFUSE_CHECK(dim >= 0 && static_cast<size_t>(dim) <= input_shape.size(), "insert: no such dimension");
  const size_t inserted = static_cast<size_t>(dim);
  IndexMap map{input_shape, {}, {}, 0.0};
  map.extents.insert(map.extents.begin() + dim, Expr(1));
  for (size_t i = 0; i < input_shape.size(); ++i)
    map.coordinates.push_back(index_of(i < inserted ? i : i + 1));
  return simplify(map);
}

IndexMap remove_dim_map(const std::vector<Expr>& input_shape, int dim) {
  const size_t removed = checked_dim(input_shape, dim, "remove");
  TILEFUSE_CHECK(input_shape[removed].is_constant(1), "remove: extent " + to_text(input_shape[removed]));
  return select_map(input_shape, dim, 0);
}

// ---------------------------------------------------------------- algebra

IndexMap simplify(const IndexMap& map) {
  IndexMap simple{map.extents, {}, simplified_conditions(map.conditions, map.extents), 0.0};
  simple.coordinates.reserve(map.coordinates.size());
  for (const Expr& coordinate : map.coordinates)
    simple.coordinates.push_back(simplify(coordinate, map.extents));
  if (!simple.conditions.empty()) simple.fill = map.fill;
  return simple;
}

std::optional<IndexMap> compose(const IndexMap& outer, const IndexMap& inner) {
  TILEFUSE_CHECK(outer.coordinates.size() == inner.extents.size(),
                 "compose: " + to_text(outer) + " after " + to_text(inner));
  IndexMap map{outer.extents, {}, outer.conditions, outer.conditions.empty() ? inner.fill : outer.fill};
  for (const Expr& coordinate : inner.coordinates) {
    map.coordinates.push_back(substitute_indices(coordinate, outer.coordinates));
  }
  std::vector<Expr> inner_conditions;
  inner_conditions.reserve(inner.conditions.size());
  for (const Expr& condition : inner.conditions) {
    inner_conditions.push_back(substitute_indices(condition, outer.coordinates));
  }
  inner_conditions = simplified_conditions(inner_conditions, outer.extents);
  const bool both_fill = !outer.conditions.empty() && !inner_conditions.empty();
  if (both_fill && !is_same(outer.fill, inner.fill)) return std::nullopt;
  map.conditions.insert(map.conditions.end(), inner_conditions.begin(), inner_conditions.end());
  return simplify(map);
}

bool is_identity(const IndexMap& map, const std::vector<Expr>& input_shape) {
  if (!map.conditions.empty() || map.extents != input_shape || map.coordinates.size() != input_shape.size()) {
    return false;
  }
  for (size_t i = 0; i < input_shape.size(); ++i) {
    const bool is_zero = input_shape[i].is_constant(1) && map.coordinates[i].is_constant(0);
    if (!is_zero && map.coordinates[i] != index_of(i)) return false;
  }
  return true;
}

std::optional<StridedView> as_strided(const IndexMap& map, const std::vector<Expr>& input_strides,
                                      const Expr& input_offset) {
  TILEFUSE_CHECK(input_strides.size() == map.coordinates.size(),
                 "as_strided: one stride per input dimension");
  if (!map.conditions.empty()) return std::nullopt;
  StridedView view{std::vector<Expr>(map.extents.size(), Expr(0)),
                   simplify(linearize(map.coordinates, input_strides) + input_offset, map.extents)};
  for (size_t i = 0; i < map.extents.size(); ++i) {
    const auto affine = affine_in(view.offset, static_cast<int>(i));
    if (!affine || affine->coefficient.index_mask() != 0) return std::nullopt;
    if (!proves_nonnegative(affine->coefficient)) return std::nullopt;  // tensors have no negative strides
    view.strides[i] = affine->coefficient;
    view.offset = affine->rest;
  }
  if (view.offset.index_mask() != 0) return std::nullopt;
  set_free_strides(view.strides, map.extents);
  return view;
}

// A size of 0 counts as 1, as in torch: of an empty tensor too, every place depends on every coordinate.
std::vector<Expr> contiguous_strides(const std::vector<Expr>& shape) {
  std::vector<Expr> strides(shape.size(), Expr(1));
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = shape[i].constant() == 0 ? strides[i] : strides[i] * shape[i];
  }
  return strides;
}

}  // namespace tilefuse
