#include "tests/random_graph.h"

#include <cmath>
#include <numeric>

#include "core/graph_symbols.h"
#include "core/rounding.h"
#include "tests/random_source.h"

namespace tilefuse {
namespace {

constexpr double kMaxMagnitude = 10000;  // fits f16
constexpr int64_t kMaxElements = 600;

using Shape = std::vector<Expr>;

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, const RandomGraphOptions& options)
      : random_(seed), options_(options), builder_("random_" + std::to_string(seed)) {}
  Graph run();

 private:
  void add_inputs();
  void step();
  void unary();
  void binary();
  void choose();
  void compare();
  void cast();
  void movement();
  void reshape();
  void pad_or_slice();
  void broadcast();
  void reduce();
  void scan();
  void concat();
  void gather();

  const TensorType& type(ValueId id) const { return builder_.graph()[id].type; }
  const Shape& shape(ValueId id) const { return type(id).shape; }
  double& bound(ValueId id);  // of the magnitude of its elements
  ValueId keep(ValueId id, double bound);
  ValueId any() { return random_.pick(values_); }
  ValueId any_float();
  ValueId partner(ValueId value);  // of its shape and dtype
  ValueId tamed(ValueId value, double limit);
  ValueId every_other(const Shape& shape);
  ValueId constant_like(ValueId value, double number);
  Expr random_extent();
  DType random_dtype();
  int64_t count(const Shape& shape) const;
  bool fits(const Shape& shape) const { return count(shape) <= kMaxElements; }
  int random_dim(ValueId value) {
    return static_cast<int>(random_.below(static_cast<int64_t>(shape(value).size())));
  }

  RandomSource random_;
  RandomGraphOptions options_;
  GraphBuilder builder_;
  std::vector<ValueId> values_;
  std::vector<double> bounds_;  // by ValueId
};

double test_value(const std::string& symbol) { return std::stod(symbol.substr(1)); }

int64_t extent_value(const Expr& e) {
  return evaluate(e, {}, [](const std::string& name) { return static_cast<int64_t>(test_value(name)); });
}

// ---------------------------------------------------------------- choices
double& RandomGraph::bound(ValueId id) {
  if (id.index >= bounds_.size()) bounds_.resize(id.index + 1, 0.0);
  return bounds_[id.index];
}

ValueId RandomGraph::keep(ValueId id, double limit) {
  bound(id) = limit;
  values_.push_back(id);
  return id;
}

int64_t RandomGraph::count(const Shape& shape) const {
  int64_t total = 1;
  for (const Expr& e : shape) total *= extent_value(e);
  return total;
}

Expr RandomGraph::random_extent() {
  const int64_t extent = random_.between(1, 7);
  if (!options_.has_symbols || extent < 2 || !random_.once_in(3)) return extent;
  return Expr::symbol("s" + std::to_string(extent), {.low = 2});
}

DType RandomGraph::random_dtype() {
  std::vector<DType> dtypes = {DType::F32, DType::F32, DType::F32};
  if (options_.has_narrow_floats) dtypes.insert(dtypes.end(), {DType::F16, DType::BF16});
  if (options_.has_f64) dtypes.push_back(DType::F64);
  if (options_.has_integers) dtypes.insert(dtypes.end(), {DType::I64, DType::I32, DType::U8, DType::Bool});
  return random_.pick(dtypes);
}

ValueId RandomGraph::any_float() {
  const ValueId value = any();
  if (is_float(type(value).dtype)) return value;
  const ValueId as_float = builder_.cast(value, DType::F32);
  return keep(as_float, bound(value));
}

ValueId RandomGraph::constant_like(ValueId value, double number) {
  const ValueId c = builder_.constant(number, type(value));
  bound(c) = std::fabs(number);
  return c;
}

// The value, squashed into [-1, 1] (or to one digit) where it could exceed the limit.
ValueId RandomGraph::tamed(ValueId value, double limit) {
  if (bound(value) <= limit || type(value).dtype == DType::Bool) return value;
  if (is_float(type(value).dtype)) return keep(builder_.map(MapFn::Tanh, {value}), 1);
  return keep(builder_.map(MapFn::Remainder, {value, constant_like(value, 3)}), 3);
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 1; i <= from.size(); ++i) {
    const Expr& extent = from[from.size() - i];
    if (!extent.is_constant(1) && !(extent == to[to.size() - i])) return false;
  }
  return true;
}

ValueId RandomGraph::partner(ValueId value) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const ValueId other = any();
    const bool is_convertible = is_float(type(value).dtype) || !is_float(type(other).dtype);
    if (!is_convertible || !broadcasts_to(shape(other), shape(value))) continue;
    const double limit = type(value).dtype == DType::U8 ? 255 : bound(other);
    const ValueId cast = builder_.cast(other, type(value).dtype);
    const ValueId expanded = builder_.expand(cast, shape(value));
    bound(cast) = limit;
    bound(expanded) = limit;
    return expanded;
  }
  return constant_like(value, static_cast<double>(random_.between(0, 4)) / 2);
}

// ---------------------------------------------------------------- elementwise
void RandomGraph::unary() {
  const ValueId x = any_float();
  const auto plain = [&](MapFn fn, ValueId operand, double limit) {
    keep(builder_.map(fn, {operand}), limit);
  };
  const ValueId magnitude = builder_.map(MapFn::Abs, {x});
  bound(magnitude) = bound(x);
  switch (random_.below(options_.has_steps ? 14 : 11)) {
    case 0:
      return plain(MapFn::Neg, x, bound(x));
    case 1:
      return plain(MapFn::Tanh, x, 1);
    case 2:
      return plain(MapFn::Sigmoid, x, 1);
    case 3:
      return plain(MapFn::Erf, x, 1);
    case 4:
      return plain(MapFn::Sin, tamed(x, 20), 1);
    case 5:
      return plain(MapFn::Cos, tamed(x, 20), 1);
    case 6:
      return plain(MapFn::Exp, tamed(x, 4), 55);
    case 7:
      return plain(MapFn::Square, tamed(x, 90), 8100);
    case 8:
      return plain(MapFn::Sqrt, magnitude, 100);
    case 9:
      return plain(MapFn::Log1p, magnitude, 10);
    case 10:
      return plain(MapFn::Reciprocal, builder_.map(MapFn::Add, {magnitude, constant_like(x, 0.5)}), 2);
    case 11:
      return plain(MapFn::Floor, x, bound(x) + 1);
    case 12:
      return plain(MapFn::Round, x, bound(x) + 1);
    default:
      return plain(MapFn::Sign, x, 1);
  }
}

void RandomGraph::binary() {
  const ValueId a = any();
  const ValueId b = partner(a);
  const DType dtype = type(a).dtype;
  if (dtype == DType::Bool) {
    keep(builder_.map(random_.pick<MapFn>({MapFn::And, MapFn::Or, MapFn::Xor}), {a, b}), 1);
    return;
  }
  const double largest = std::max(bound(a), bound(b));
  const auto plain = [&](MapFn fn, double limit) {
    tamed(keep(builder_.map(fn, {a, b}), limit), kMaxMagnitude);
  };
  switch (random_.below(5)) {
    case 0:
      return plain(MapFn::Add, 2 * largest);
    case 1:
      return plain(MapFn::Sub, dtype == DType::U8 ? 255 : 2 * largest);
    case 2:
      return plain(MapFn::Max, largest);
    case 3:
      return plain(MapFn::Min, largest);
    default:
      break;
  }
  const ValueId x = tamed(a, 90);
  const ValueId y = tamed(b, 90);
  keep(builder_.map(MapFn::Mul, {x, y}), dtype == DType::U8 ? 255 : 8100);
}

void RandomGraph::compare() {
  if (!options_.has_steps || !options_.has_integers) return binary();
  const ValueId a = any();
  const std::vector<MapFn> fns = {MapFn::Eq, MapFn::Ne, MapFn::Lt, MapFn::Le, MapFn::Gt, MapFn::Ge};
  keep(builder_.map(random_.pick(fns), {a, partner(a)}), 1);
}

// A condition that depends on coordinates only.
ValueId RandomGraph::every_other(const Shape& shape) {
  const TensorType i64{DType::I64, shape};
  if (shape.empty()) return builder_.constant(true, {DType::Bool, {}});
  const ValueId numbers = builder_.iota(shape, static_cast<int>(shape.size()) - 1);
  const ValueId rest = builder_.map(MapFn::Remainder, {numbers, builder_.constant(int64_t{2}, i64)});
  return builder_.map(MapFn::Eq, {rest, builder_.constant(int64_t{0}, i64)});
}

void RandomGraph::choose() {
  const ValueId a = any();
  const ValueId b = partner(a);
  ValueId condition{};
  if (options_.has_steps) {
    condition = builder_.map(MapFn::Gt, {a, b});
  } else {
    condition = every_other(shape(a));
  }
  keep(builder_.map(MapFn::Where, {condition, a, b}), std::max(bound(a), bound(b)));
}

void RandomGraph::cast() {
  const ValueId value = any();
  const DType from = type(value).dtype;
  const DType to = random_dtype();
  if (from == to || (!options_.has_steps && is_float(from) && !is_float(to))) return unary();
  if (to == DType::U8 && is_float(from)) return;  // of a negative number: differs between machines
  const double limit = to == DType::Bool ? 1 : to == DType::U8 ? 255 : bound(value) + 1;
  keep(builder_.cast(value, to), limit);
}

// ---------------------------------------------------------------- movement
void RandomGraph::reshape() {
  const ValueId value = any();
  Shape to = shape(value);
  if (to.size() >= 2 && random_.once_in(2)) {
    const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(to.size()) - 1));
    to[at] = to[at] * to[at + 1];
    to.erase(to.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  } else {
    for (size_t dim = 0; dim < to.size(); ++dim) {
      const auto extent = to[dim].constant();
      if (!extent || *extent % 2 != 0 || *extent < 4) continue;
      to[dim] = 2;
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(dim) + 1, *extent / 2);
      break;
    }
  }
  keep(builder_.view(value, reshape_map(shape(value), to)), bound(value));
}

void RandomGraph::pad_or_slice() {
  const ValueId value = any();
  if (shape(value).empty()) return unary();
  const int dim = random_dim(value);
  const auto extent = shape(value)[static_cast<size_t>(dim)].constant();
  if (extent && *extent >= 3 && random_.once_in(2)) {
    const int64_t step = random_.between(1, 2);
    keep(builder_.view(value, slice_map(shape(value), dim, 1, (*extent - 1 + step - 1) / step, step)),
         bound(value));
    return;
  }
  Shape before(shape(value).size(), 0);
  Shape after = before;
  before[static_cast<size_t>(dim)] = random_.between(0, 2);
  after[static_cast<size_t>(dim)] = random_.between(0, 2);
  const Scalar fill = as_literal(static_cast<double>(random_.between(0, 1)), type(value).dtype);
  const IndexMap map = pad_map(shape(value), before, after, fill);
  if (fits(map.extents)) keep(builder_.view(value, map), std::max(bound(value), 1.0));
}

void RandomGraph::broadcast() {
  const ValueId value = any();
  Shape to = shape(value);
  to.insert(to.begin(), random_extent());
  if (to.size() <= 4 && fits(to)) keep(builder_.expand(value, to), bound(value));
}

void RandomGraph::movement() {
  const ValueId value = any();
  const Shape& from = shape(value);
  switch (random_.below(7)) {
    case 0:
      return reshape();
    case 1:
    case 2:
      return pad_or_slice();
    case 3:
      return broadcast();
    case 4: {
      keep(builder_.view(value, insert_dim_map(from, static_cast<int>(from.size()))), bound(value));
      return;
    }
    case 5: {
      if (from.empty()) return unary();
      keep(builder_.view(value, flip_map(from, {random_dim(value)})), bound(value));
      return;
    }
    default: {
      std::vector<int> order(from.size());
      std::iota(order.rbegin(), order.rend(), 0);
      keep(builder_.view(value, permute_map(from, order)), bound(value));
    }
  }
}

void RandomGraph::concat() {
  const ValueId value = any();
  if (shape(value).empty()) return broadcast();
  const ValueId other = partner(value);
  const int dim = random_dim(value);
  TensorType result = type(value);
  Expr& extent = result.shape[static_cast<size_t>(dim)];
  extent = extent * 2;
  if (!fits(result.shape)) return;
  const double limit = std::max(bound(value), bound(other));
  keep(builder_.add(Concat{dim}, {value, other}, std::move(result)), limit);
}

// Rows of a table, the row numbers taken from the coordinates of another value.
void RandomGraph::gather() {
  const ValueId data = any();
  if (!options_.has_gather || shape(data).empty()) return movement();
  const auto rows = shape(data)[0].constant();
  if (!rows) return movement();
  TensorType result = type(data);
  result.shape[0] = random_extent();
  const ValueId numbers = builder_.iota(result.shape, 0, random_.between(0, 5), random_.between(1, 3));
  const ValueId extent = builder_.constant(*rows, {DType::I64, result.shape});
  ValueId index = builder_.map(MapFn::Remainder, {numbers, extent});
  if (random_.once_in(2)) index = builder_.map(MapFn::Sub, {index, extent});  // from the end
  Gather op;
  for (size_t dim = 0; dim < result.shape.size(); ++dim) {
    op.coordinates.push_back(dim == 0 ? Expr(0) : Expr::index(static_cast<int>(dim)));
    op.from_index.push_back(dim == 0 ? 0 : -1);
  }
  keep(builder_.add(std::move(op), {data, index}, std::move(result)), bound(data));
}

// ---------------------------------------------------------------- reductions
void RandomGraph::reduce() {
  const ValueId value = any();
  if (shape(value).empty()) return unary();
  std::vector<int> dims = {random_dim(value)};
  if (shape(value).size() > 1 && random_.once_in(3)) {
    dims.clear();
    for (size_t dim = 0; dim < shape(value).size(); ++dim) dims.push_back(static_cast<int>(dim));
  }
  if (type(value).dtype == DType::Bool) {
    keep(builder_.reduce(random_.pick<ReduceKind>({ReduceKind::Any, ReduceKind::All}), value, dims), 1);
    return;
  }
  if (options_.has_steps && options_.has_integers && random_.once_in(6)) {
    keep(builder_.reduce(random_.pick<ReduceKind>({ReduceKind::ArgMax, ReduceKind::ArgMin}), value, dims),
         700);
    return;
  }
  if (random_.once_in(2)) {
    keep(builder_.reduce(random_.pick<ReduceKind>({ReduceKind::Max, ReduceKind::Min}), value, dims),
         bound(value));
    return;
  }
  const ValueId small = tamed(value, kMaxMagnitude / kMaxElements);
  keep(builder_.reduce(ReduceKind::Sum, small, dims), kMaxMagnitude);
}

void RandomGraph::scan() {
  const ValueId value = any();
  if (!options_.has_scan || shape(value).empty() || type(value).dtype == DType::Bool) return reduce();
  const ReduceKind kind = random_.pick<ReduceKind>({ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min});
  const ValueId small = tamed(value, kMaxMagnitude / kMaxElements);
  keep(builder_.add(Scan{kind, random_dim(small)}, {small}, type(small)), kMaxMagnitude);
}

// ---------------------------------------------------------------- the whole
void RandomGraph::add_inputs() {
  for (int i = 0; i < options_.input_count; ++i) {
    Shape extents;
    if (i > 0 && random_.once_in(2)) {
      extents = shape(values_[0]);  // so that binary functions find partners
      if (random_.once_in(3) && !extents.empty()) extents[0] = 1;
    } else {
      for (int64_t rank = random_.between(1, 3); rank > 0; --rank) extents.push_back(random_extent());
    }
    const DType dtype = i == 0 ? DType::F32 : random_dtype();
    keep(builder_.input(std::string("x") + std::to_string(i), {dtype, extents}), is_float(dtype) ? 2 : 9);
  }
}

void RandomGraph::step() {
  switch (random_.below(12)) {
    case 0:
    case 1:
      return unary();
    case 2:
    case 3:
      return binary();
    case 4:
      return compare();
    case 5:
      return choose();
    case 6:
      return cast();
    case 7:
      return movement();
    case 8:
      return random_.once_in(3) ? scan() : reduce();
    case 9:
      return reduce();
    case 10:
      return concat();
    default:
      return random_.once_in(2) ? gather() : movement();
  }
}

Graph RandomGraph::run() {
  add_inputs();
  for (int i = 0; i < options_.step_count; ++i) step();
  const auto users = users_of(builder_.graph());
  for (const ValueId value : values_) {
    const bool is_input = std::holds_alternative<Input>(builder_.graph().producer(value).op);
    if (!is_input && (users[value.index].empty() || random_.once_in(8))) builder_.output(value);
  }
  if (builder_.graph().outputs.empty()) builder_.output(values_.back());
  return builder_.finish();
}

}  // namespace

Graph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return RandomGraph(seed, options).run();
}

SymbolValues random_symbol_values(const Graph& graph) {
  SymbolValues values;
  for (const auto& [name, range] : symbol_ranges(graph))
    values[name] = static_cast<int64_t>(test_value(name));
  return values;
}

std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed, const SymbolValues& symbols) {
  RandomSource random(seed ^ 0xABCDEFull);
  std::vector<Tensor> inputs;
  for (const GraphInput& input : graph.inputs) {
    if (!input.tensor) continue;
    const TensorType& type = graph[*input.tensor].type;
    std::vector<int64_t> shape;
    for (const Expr& e : type.shape) {
      shape.push_back(evaluate(e, {}, [&](const std::string& name) { return symbols.at(name); }));
    }
    Tensor tensor(type.dtype, shape);
    const int64_t low = type.dtype == DType::U8 || type.dtype == DType::Bool ? 0 : -9;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (is_float(type.dtype)) {
        tensor.set_float(i, round_to(type.dtype, random.unit() * 4 - 2));
      } else {
        tensor.set_int(i, random.between(low, type.dtype == DType::Bool ? 1 : 9));
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace tilefuse
