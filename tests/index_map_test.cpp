// Laws of index maps: every constructor and every composition, point by point, against arrays moved by plain
// loops; and the forms that later stages rely on.
#include "core/index_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "core/result.h"

namespace tilefuse {

static void PrintTo(const IndexMap& map, std::ostream* out) { *out << to_text(map); }

namespace {

using Shape = std::vector<Expr>;
using Sizes = std::vector<int64_t>;

const Expr kS = Expr::symbol("s0");
const Expr kT = Expr::symbol("s1");
const Expr kI = Expr::index(0);
const Expr kJ = Expr::index(1);
const Expr kK = Expr::index(2);

// ---------------------------------------------------------------- arrays moved by plain loops

struct Array {
  Sizes shape;
  std::vector<int64_t> data;
};

int64_t count(const Sizes& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Sizes coordinates_of(int64_t position, const Sizes& shape) {
  Sizes at(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    at[i] = position % shape[i];
    position /= shape[i];
  }
  return at;
}

int64_t position_of(const Sizes& at, const Sizes& shape) {
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i) position = position * shape[i] + at[i];
  return position;
}

Array counted(const Sizes& shape) {
  Array array{shape, std::vector<int64_t>(static_cast<size_t>(count(shape)))};
  std::iota(array.data.begin(), array.data.end(), 1000);
  return array;
}

// Element `at` of the result is element source(at) of the input, or `fill` where that lies outside.
template <class SourceOf>
Array moved(const Array& input, const Sizes& shape, const SourceOf& source, int64_t fill = 0) {
  Array result{shape, {}};
  for (int64_t n = 0; n < count(shape); ++n) {
    const Sizes from = source(coordinates_of(n, shape));
    bool is_inside = true;
    for (size_t i = 0; i < from.size(); ++i) is_inside &= from[i] >= 0 && from[i] < input.shape[i];
    result.data.push_back(is_inside ? input.data[static_cast<size_t>(position_of(from, input.shape))] : fill);
  }
  return result;
}

struct Binding {
  std::map<std::string, int64_t> symbols;
  int64_t operator()(const Expr& e, const Sizes& indices = {}) const {
    return evaluate(e, indices, [&](const std::string& name) { return symbols.at(name); });
  }
  Sizes operator()(const Shape& shape) const {
    Sizes sizes;
    for (const Expr& extent : shape) sizes.push_back((*this)(extent));
    return sizes;
  }
};

Array through(const IndexMap& map, const Array& input, const Binding& binding) {
  Array result{binding(map.extents), {}};
  for (int64_t n = 0; n < count(result.shape); ++n) {
    const Sizes at = coordinates_of(n, result.shape);
    const bool is_filled = std::any_of(map.conditions.begin(), map.conditions.end(),
                                       [&](const Expr& condition) { return binding(condition, at) < 0; });
    if (is_filled) {
      result.data.push_back(to_int(map.fill));
      continue;
    }
    Sizes from;
    for (const Expr& coordinate : map.coordinates) from.push_back(binding(coordinate, at));
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_TRUE(from[i] >= 0 && from[i] < input.shape[i]) << to_text(map) << " reads outside";
    }
    result.data.push_back(input.data[static_cast<size_t>(position_of(from, input.shape))]);
  }
  return result;
}

// ---------------------------------------------------------------- random movements

struct Movement {
  IndexMap map;
  Array result;  // of the input, by plain loops
};

class Mover {
 public:
  Mover(unsigned seed, Binding binding) : random_(seed), binding_(std::move(binding)) {}

  int64_t draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  Shape shape() {
    const std::vector<Expr> choices = {1, 2, 3, 4, 6, kS, kT, kS * 2, kS * kT, kT + 1};
    Shape shape(static_cast<size_t>(draw(1, 3)));
    for (Expr& extent : shape) extent = choices[static_cast<size_t>(draw(0, 9))];
    return shape;
  }

  Movement step(const Shape& shape, const Array& input) {
    switch (draw(0, 7)) {
      case 0:
        return permute(shape, input);
      case 1:
        return slice(shape, input);
      case 2:
        return flip(shape, input);
      case 3:
        return pad(shape, input);
      case 4:
        return expand(shape, input);
      case 5:
        return select(shape, input);
      default:
        return reshape(shape, input);
    }
  }

 private:
  size_t any_dim(const Shape& shape) {
    return static_cast<size_t>(draw(0, static_cast<int64_t>(shape.size()) - 1));
  }

  Movement permute(const Shape& shape, const Array& input) {
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    Sizes sizes;
    for (int dim : order) sizes.push_back(input.shape[static_cast<size_t>(dim)]);
    return {permute_map(shape, order), moved(input, sizes, [&](const Sizes& at) {
              Sizes from(at.size());
              for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(order[i])] = at[i];
              return from;
            })};
  }

  Movement slice(const Shape& shape, const Array& input) {
    const size_t dim = any_dim(shape);
    const int64_t start = draw(0, std::min<int64_t>(input.shape[dim] - 1, 2)), step = draw(1, 2);
    const Expr length = ceildiv(shape[dim] - start, step);
    Sizes sizes = input.shape;
    sizes[dim] = (input.shape[dim] - start + step - 1) / step;
    return {slice_map(shape, static_cast<int>(dim), start, length, step), moved(input, sizes, [&](Sizes at) {
              at[dim] = start + step * at[dim];
              return at;
            })};
  }

  Movement flip(const Shape& shape, const Array& input) {
    const size_t dim = any_dim(shape);
    return {flip_map(shape, {static_cast<int>(dim)}), moved(input, input.shape, [&](Sizes at) {
              at[dim] = input.shape[dim] - 1 - at[dim];
              return at;
            })};
  }

  Movement pad(const Shape& shape, const Array& input) {
    Shape before(shape.size(), Expr(0)), after = before;
    const size_t dim = any_dim(shape);
    const int64_t low = draw(0, 2), fill = draw(0, 3) == 0 ? 7 : 5;
    before[dim] = low;
    after[dim] = draw(0, 1) == 0 ? kT : Expr(draw(0, 2));
    Sizes sizes = input.shape;
    sizes[dim] += low + binding_(after[dim]);
    const auto source = [&](Sizes at) {
      at[dim] -= low;
      return at;
    };
    return {pad_map(shape, before, after, fill), moved(input, sizes, source, fill)};
  }

  Movement expand(const Shape& shape, const Array& input) {
    Shape larger = shape;
    for (Expr& extent : larger) extent = extent.is_constant(1) ? kS : extent;
    const bool adds = shape.size() < 4;
    if (adds) larger.insert(larger.begin(), Expr(2));
    return {expand_map(shape, larger), moved(input, binding_(larger), [&](Sizes at) {
              if (adds) at.erase(at.begin());
              for (size_t i = 0; i < at.size(); ++i) at[i] = shape[i].is_constant(1) ? 0 : at[i];
              return at;
            })};
  }

  Movement select(const Shape& shape, const Array& input) {
    if (shape.size() < 2) return reshape(shape, input);
    const size_t dim = any_dim(shape);
    Sizes sizes = input.shape;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
    const int64_t position = input.shape[dim] - 1;
    return {select_map(shape, static_cast<int>(dim), shape[dim] - 1), moved(input, sizes, [&](Sizes at) {
              at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), position);
              return at;
            })};
  }

  Movement reshape(const Shape& shape, const Array& input) {
    const Shape other = refactored(shape);
    return {reshape_map(shape, other), Array{binding_(other), input.data}};
  }

  // Merges, splits, extents of 1 added and removed, or all of it in one dimension and split anew.
  Shape refactored(Shape shape) {
    if (draw(0, 3) == 0) shape = {std::accumulate(shape.begin(), shape.end(), Expr(1), std::multiplies<>())};
    for (int64_t edits = draw(1, 3); edits > 0; --edits) {
      const size_t dim = any_dim(shape);
      const auto at = shape.begin() + static_cast<std::ptrdiff_t>(dim);
      const std::vector<Expr> divisors = {2, 3, 4, kS, kT};
      const Expr divisor = divisors[static_cast<size_t>(draw(0, 4))];
      const auto quotient = exact_divide(shape[dim], divisor);
      if (quotient && draw(0, 2) > 0) {
        const bool is_first = draw(0, 1) == 0;
        *at = is_first ? divisor : *quotient;
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, is_first ? *quotient : divisor);
      } else if (dim + 1 < shape.size() && draw(0, 1) == 0) {
        *at = *at * shape[dim + 1];
        shape.erase(at + 1);
      } else if (shape.size() < 5) {
        shape.insert(at, Expr(1));
      }
    }
    return shape;
  }

  std::mt19937 random_;
  Binding binding_;
};

Binding small_sizes(unsigned seed) {
  std::mt19937 random(seed);
  return {{{"s0", 1 + static_cast<int64_t>(random() % 4)}, {"s1", 1 + static_cast<int64_t>(random() % 3)}}};
}

// ---------------------------------------------------------------- laws

TEST(IndexMapLaws, each_movement_agrees_with_plain_loops) {
  for (unsigned seed = 0; seed < 2500; ++seed) {
    const Binding binding = small_sizes(seed);
    Mover mover(seed, binding);
    const Shape shape = mover.shape();
    const Array input = counted(binding(shape));
    const Movement movement = mover.step(shape, input);
    const Array result = through(movement.map, input, binding);
    ASSERT_EQ(result.shape, movement.result.shape) << to_text(movement.map);
    ASSERT_EQ(result.data, movement.result.data) << to_text(movement.map);
  }
}

TEST(IndexMapLaws, compositions_agree_with_one_movement_after_the_other) {
  int composed = 0, refused = 0;
  for (unsigned seed = 0; seed < 2500; ++seed) {
    const Binding binding = small_sizes(seed);
    Mover mover(seed + 10000, binding);
    const Shape shape = mover.shape();
    const Array input = counted(binding(shape));
    IndexMap map = identity_map(shape);
    Array current = input;
    for (int64_t length = mover.draw(2, 5); length > 0 && count(current.shape) < 4000; --length) {
      const Movement movement = mover.step(map.extents, current);
      const auto next = compose(movement.map, map);
      if (!next) {
        ASSERT_FALSE(map.conditions.empty() || movement.map.conditions.empty());
        ASSERT_NE(to_int(map.fill), to_int(movement.map.fill));
        ++refused;
        break;
      }
      ++composed;
      map = *next;
      current = movement.result;
      const Array result = through(map, input, binding);
      ASSERT_EQ(result.shape, current.shape) << to_text(map);
      ASSERT_EQ(result.data, current.data) << to_text(map) << " after " << to_text(movement.map);
    }
  }
  EXPECT_GT(composed, 4000);
  EXPECT_GT(refused, 10);
}

TEST(IndexMapLaws, printing_and_parsing_round_trips) {
  for (unsigned seed = 0; seed < 2500; ++seed) {
    const Binding binding = small_sizes(seed);
    Mover mover(seed + 20000, binding);
    const Shape shape = mover.shape();
    const Movement movement = mover.step(shape, counted(binding(shape)));
    EXPECT_EQ(parse_index_map(to_text(movement.map)), movement.map);
  }
}

TEST(IndexMapLaws, a_strided_view_reads_the_same_elements) {
  int strided = 0;
  for (unsigned seed = 0; seed < 2500; ++seed) {
    const Binding binding = small_sizes(seed);
    Mover mover(seed + 30000, binding);
    const Shape shape = mover.shape();
    const Array input = counted(binding(shape));
    const Movement movement = mover.step(shape, input);
    const auto view = as_strided(movement.map, contiguous_strides(shape));
    if (!view) continue;
    ++strided;
    for (int64_t n = 0; n < count(movement.result.shape); ++n) {
      const Sizes at = coordinates_of(n, movement.result.shape);
      int64_t position = binding(view->offset);
      for (size_t i = 0; i < at.size(); ++i) position += at[i] * binding(view->strides[i]);
      ASSERT_EQ(input.data[static_cast<size_t>(position)], movement.result.data[static_cast<size_t>(n)])
          << to_text(movement.map);
    }
  }
  EXPECT_GT(strided, 1200);
}

// ---------------------------------------------------------------- forms that later stages rely on

std::string text_of_reshape(const Shape& input, const Shape& output) {
  return to_text(reshape_map(input, output));
}

TEST(IndexMapForms, reshapes_keep_corresponding_dimensions_apart) {
  EXPECT_EQ(text_of_reshape({kS, 768}, {kS, 12, 64}), "(i0, i1, i2) -> (i0, i1*64 + i2) : [s0, 12, 64]");
  EXPECT_EQ(text_of_reshape({kS, 12, 64}, {kS, 768}), "(i0, i1) -> (i0, i1 // 64, i1 % 64) : [s0, 768]");
  EXPECT_EQ(text_of_reshape({kS, kT, 768}, {kS * kT, 768}),
            "(i0, i1) -> (i0 // s1, i0 % s1, i1) : [s0*s1, 768]");
  EXPECT_EQ(text_of_reshape({kS * kT, 768}, {kS, kT, 12, 64}),
            "(i0, i1, i2, i3) -> (i0*s1 + i1, i2*64 + i3) : [s0, s1, 12, 64]");
  EXPECT_EQ(text_of_reshape({1, kS, 1, 8}, {kS, 8, 1}), "(i0, i1, i2) -> (0, i0, 0, i1) : [s0, 8, 1]");
  EXPECT_EQ(text_of_reshape({}, {1, 1}), "(i0, i1) -> () : [1, 1]");
  EXPECT_EQ(text_of_reshape({kS + 1, 4}, {kS * 4 + 4}), "(i0) -> (i0 // 4, i0 % 4) : [4*s0 + 4]");
  EXPECT_EQ(text_of_reshape({4, 0}, {0, 7}), "(i0, i1) -> (0, 0) : [0, 7]");
  EXPECT_EQ(text_of_reshape({2, 3, 5}, {5, 6}),
            "(i0, i1) -> ((i0*6 + i1) // 15, (i0*6 + i1) // 5 % 3, (i0*6 + i1) % 5) : [5, 6]");
}

TEST(IndexMapForms, there_and_back_is_the_identity) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{kS, 768}, {kS, 12, 64}},        {{kS, kT, 768}, {kS * kT, 768}}, {{24}, {2, 3, 4}},
      {{kS, kT, 4}, {kS * kT * 4}},     {{1, kS}, {kS, 1, 1}},           {{kS * 6, 4}, {kS, 2, 3, 2, 2}},
      {{kS + 1, 8}, {kS * 8 + 8}},      {{kS, kT, 8}, {kS, kT * 8}},     {{2, 3, 4, 5}, {24, 5}},
      {{kS * kT * 64}, {kS, kT, 8, 8}},
  };
  for (const auto& [a, b] : shapes) {
    EXPECT_TRUE(is_identity(*compose(reshape_map(b, a), reshape_map(a, b)), a)) << text_of_reshape(a, b);
    EXPECT_TRUE(is_identity(*compose(reshape_map(a, b), reshape_map(b, a)), b)) << text_of_reshape(b, a);
  }
  const Shape shape = {kS, 4, kT};
  EXPECT_TRUE(
      is_identity(*compose(permute_map({4, kT, kS}, {2, 0, 1}), permute_map(shape, {1, 2, 0})), shape));
  EXPECT_TRUE(is_identity(*compose(flip_map(shape, {0, 2}), flip_map(shape, {0, 2})), shape));
  EXPECT_TRUE(is_identity(*compose(remove_dim_map({kS, 1, 4}, 1), insert_dim_map({kS, 4}, 1)), {kS, 4}));
  EXPECT_FALSE(is_identity(permute_map({4, 4}, {1, 0}), {4, 4}));
  EXPECT_FALSE(is_identity(slice_map({4}, 0, 0, 3, 1), {4}));
}

TEST(IndexMapForms, a_slice_that_undoes_a_pad_drops_its_conditions) {
  const IndexMap pad = pad_map({kS, 4}, {0, 1}, {0, 1}, 0.0);
  EXPECT_EQ(to_text(pad), "(i0, i1) -> (i0, i1 - 1) : [s0, 6] if i1 - 1, 4 - i1 else 0.0");
  EXPECT_TRUE(is_identity(*compose(slice_map({kS, 6}, 1, 1, 4, 1), pad), {kS, 4}));
  EXPECT_EQ(to_text(*compose(slice_map({kS, 6}, 1, 1, 5, 1), pad)),
            "(i0, i1) -> (i0, i1) : [s0, 5] if 3 - i1 else 0.0");
  EXPECT_EQ(to_text(*compose(pad_map({6}, {2}, {1}, 0.0), pad_map({4}, {1}, {1}, 0.0))),
            "(i0) -> (i0 - 3) : [9] if i0 - 3, 6 - i0 else 0.0");
  EXPECT_EQ(to_text(*compose(slice_map({kS, 6}, 1, 0, 1, 1), pad)),
            "(i0, i1) -> (i0, -1) : [s0, 1] if -1 else 0.0");
}

TEST(IndexMapForms, fills_compose_only_when_they_are_the_same_value) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto pads = [](const Scalar& outer, const Scalar& inner) {
    return compose(pad_map({6}, {1}, {1}, outer), pad_map({4}, {1}, {1}, inner));
  };
  EXPECT_TRUE(pads(0.0, 0.0).has_value());
  EXPECT_TRUE(pads(nan, nan).has_value());
  EXPECT_FALSE(pads(0.0, -0.0).has_value());
  EXPECT_FALSE(pads(0.0, 1.0).has_value());
  EXPECT_FALSE(pads(int64_t{0}, 0.0).has_value());
  // What the outer map reads lies inside, so the inner fill is never seen.
  const IndexMap inner_slice = slice_map({6}, 0, 1, 4, 1);
  const auto middle = compose(inner_slice, pad_map({4}, {1}, {1}, 1.0));
  EXPECT_TRUE(compose(pad_map({4}, {1}, {1}, 0.0), *middle).has_value());
}

TEST(IndexMapForms, movements_that_strides_can_express_are_strided) {
  const Shape shape = {kS, kT, 12, 64};
  const Shape strides = contiguous_strides(shape);
  EXPECT_EQ(strides, (Shape{kT * 768, 768, 64, 1}));
  const auto heads = as_strided(permute_map(shape, {0, 2, 1, 3}), strides);
  EXPECT_EQ(heads->strides, (Shape{kT * 768, 64, 768, 1}));
  const auto rows = as_strided(reshape_map(shape, {kS * kT, 768}), strides, 5);
  EXPECT_EQ(rows->strides, (Shape{768, 1}));
  EXPECT_EQ(rows->offset, Expr(5));
  const auto last = as_strided(select_map(shape, 1, kT - 1), strides);
  EXPECT_EQ(last->offset, kT * 768 - 768);
  const auto wide = as_strided(expand_map({1, 8}, {kS, 8}), {8, 1});
  EXPECT_EQ(wide->strides, (Shape{0, 1}));
  const auto unit = as_strided(insert_dim_map({kS, 8}, 1), {8, 1});
  EXPECT_EQ(unit->strides, (Shape{8, 8, 1}));
  EXPECT_FALSE(as_strided(reshape_map({kS, 8}, {kS * 8}), {16, 1}).has_value());
  EXPECT_FALSE(as_strided(pad_map({8}, {1}, {0}, 0.0), {1}).has_value());
  EXPECT_FALSE(as_strided(flip_map({8}, {0}), {1}).has_value());
}

TEST(IndexMapForms, a_dimension_of_extent_one_has_coordinate_zero) {
  EXPECT_EQ(to_text(identity_map({1, 8})), "(i0, i1) -> (0, i1) : [1, 8]");
  EXPECT_TRUE(is_identity(identity_map({1, 8}), {1, 8}));
  EXPECT_TRUE(is_identity(parse_index_map("(i0, i1) -> (i0, i1) : [1, 8]"), {1, 8}));
}

TEST(ContiguousStrides, sizes_of_zero_count_as_one) {
  EXPECT_EQ(contiguous_strides({3, 0, 4}), (std::vector<Expr>{4, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 3, 0}), (std::vector<Expr>{3, 1, 1}));
}

TEST(IndexMapText, fills_keep_their_kind) {
  const std::string map = "(i0) -> (i0 - 1) : [6] if i0 - 1, 4 - i0 else ";
  for (const char* fill : {"0", "0.0", "-2.5", "true", "false", "inf", "-inf", "1e+30"}) {
    EXPECT_EQ(to_text(parse_index_map(map + fill)), map + fill);
  }
  EXPECT_TRUE(std::isnan(std::get<double>(parse_index_map(map + "nan").fill)));
  EXPECT_EQ(parse_index_map("(row, col) -> (col // 2, row) : [4, 8]").coordinates,
            (Shape{floordiv(kJ, 2), kI}));
}

TEST(IndexMapText, malformed_text_is_refused) {
  for (const char* text :
       {"", "(i0)", "(i0) -> (i0)", "(i0) -> (i0 : [4]", "(i0) -> (i0) : [4, 5]", "(i0) -> (i0) : [4] if",
        "(i0) -> (i0) : [4] if i0", "(i0) -> (i0) : [4] if i0 else", "(i0) -> (i0) : [4] if i0 else x",
        "(i0) -> (i0) : [4] else 0", "(i0) -> (i0 +) : [4]", "(i0) -> (i0) : [4] if i0 else 0 0"}) {
    EXPECT_THROW(parse_index_map(text), UserError) << text;
  }
}

TEST(IndexMapErrors, a_movement_that_does_not_fit_its_input_is_an_internal_error) {
  EXPECT_THROW(permute_map({4, 8}, {0, 0}), InternalError);
  EXPECT_THROW(permute_map({4, 8}, {0}), InternalError);
  EXPECT_THROW(select_map({4}, 1, 0), InternalError);
  EXPECT_THROW(slice_map({4}, -1, 0, 1, 1), InternalError);
  EXPECT_THROW(expand_map({4}, {5}), InternalError);
  EXPECT_THROW(remove_dim_map({4}, 0), InternalError);
  EXPECT_THROW(pad_map({4}, {1}, {}, 0.0), InternalError);
  EXPECT_THROW(compose(identity_map({4}), identity_map({4, 4})), InternalError);
}

}  // namespace
}  // namespace tilefuse
