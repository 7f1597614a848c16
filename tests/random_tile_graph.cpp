#include "tests/random_tile_graph.h"

#include <algorithm>

namespace tilefuse {
namespace {

class Draw {
 public:
  explicit Draw(RandomSource& random) : random_(random) {}
  TileGraph graph();

 private:
  void draw_axes();
  TileValueId add(TileOp op, std::vector<TileValueId> operands, std::vector<AxisId> axes, DType dtype);
  TileValueId load(const std::vector<AxisId>& axes);
  TileValueId map(TileValueId a, TileValueId b);
  TileValueId reduce(TileValueId value);
  void store(TileValueId value);
  Expr offset(std::vector<AxisId> order, Buffer& buffer);
  std::vector<AxisId> some_axes();
  std::vector<AxisId> all_axes() const;

  RandomSource& random_;
  TileGraph graph_;
  std::vector<AxisId> parallel_, reduced_;
  std::vector<Buffer> outputs_;
  std::vector<TileStore> stores_;
};

std::vector<AxisId> Draw::all_axes() const {
  std::vector<AxisId> axes;
  for (uint32_t a = 0; a < graph_.axes.size(); ++a) axes.push_back({a});
  return axes;
}

void Draw::draw_axes() {
  const auto count = static_cast<uint32_t>(random_.below(5));
  const int64_t reduced = random_.below(3);
  for (uint32_t a = 0; a < count; ++a) {
    const std::string name(1, static_cast<char>('a' + a));
    static const std::vector<int64_t> kSizes = {1,   2,   3,   7,    8,    16,   31,   64,
                                                100, 128, 512, 1000, 1024, 4096, 50257};
    Expr extent = random_.pick(kSizes);
    if (random_.once_in(6))
      extent = Expr::symbol("s" + name, {.low = 2, .multiple_of = random_.once_in(2) ? 16 : 1});
    if (random_.once_in(12)) extent = Expr::symbol("t" + name, {.low = 1, .high = 2048});
    graph_.axes.push_back({name, extent});
  }
  for (AxisId axis : all_axes()) {
    const bool reduce = static_cast<int64_t>(reduced_.size()) < reduced && random_.once_in(2);
    (reduce ? reduced_ : parallel_).push_back(axis);
  }
}

TileValueId Draw::add(TileOp op, std::vector<TileValueId> operands, std::vector<AxisId> axes, DType dtype) {
  const auto number = static_cast<uint32_t>(graph_.values.size());
  TileValue value{
      "v" + std::to_string(number), std::move(op), std::move(operands), dtype, std::move(axes), {}};
  graph_.values.push_back(std::move(value));
  return {number};
}

std::vector<AxisId> Draw::some_axes() {
  std::vector<AxisId> axes;
  for (AxisId axis : all_axes()) {
    if (!random_.once_in(3)) axes.push_back(axis);
  }
  return axes;
}

// Row-major over the axes in this order.
Expr Draw::offset(std::vector<AxisId> order, Buffer& buffer) {
  Expr stride = 1, result = 0;
  for (size_t i = order.size(); i-- > 0;) {
    const Expr extent = graph_[order[i]].extent;
    result = result + Expr::index(static_cast<int>(order[i].index)) * stride;
    buffer.shape.insert(buffer.shape.begin(), extent);
    buffer.strides.insert(buffer.strides.begin(), stride);
    stride = stride * extent;
  }
  return result;
}

TileValueId Draw::load(const std::vector<AxisId>& axes) {
  static const std::vector<DType> kTypes = {DType::F32, DType::F32, DType::BF16,
                                            DType::F16, DType::F64, DType::U8};
  const DType dtype = random_.pick(kTypes);
  Buffer buffer{"x" + std::to_string(graph_.buffers.size()), dtype, Buffer::Role::Input, {}, {}, {}};
  buffer.is_constant = graph_.buffers.size() % 2 == 1;
  std::vector<AxisId> order = axes;
  if (order.size() > 1 && random_.once_in(2)) std::swap(order.front(), order.back());
  TileLoad op{{static_cast<uint32_t>(graph_.buffers.size())}, offset(order, buffer), {}, {}, 0.0};
  if (!axes.empty() && random_.once_in(5)) {
    const AxisId axis = random_.pick(axes);
    op.guard = {Expr::index(static_cast<int>(axis.index)) - 1};
  }
  if (!axes.empty() && random_.once_in(8)) op.offset = floordiv(op.offset, 2);
  graph_.buffers.push_back(std::move(buffer));
  return add(std::move(op), {}, axes, is_float(dtype) ? dtype : DType::U8);
}

TileValueId Draw::map(TileValueId a, TileValueId b) {
  static const std::vector<MapFn> kUnary = {MapFn::Exp, MapFn::Tanh, MapFn::Neg, MapFn::Sqrt};
  std::vector<AxisId> axes;
  std::set_union(graph_[a].axes.begin(), graph_[a].axes.end(), graph_[b].axes.begin(), graph_[b].axes.end(),
                 std::back_inserter(axes));
  const auto as_f32 = [&](TileValueId value) {
    const DType dtype = graph_[value].dtype;
    if (dtype == DType::F32) return value;
    return add(TileMap{MapFn::Cast}, {value}, graph_[value].axes, DType::F32);
  };
  const TileValueId left = as_f32(a), right = as_f32(b);
  const TileValueId sum = add(TileMap{MapFn::Add}, {left, right}, std::move(axes), DType::F32);
  return random_.once_in(2) ? sum : add(TileMap{random_.pick(kUnary)}, {sum}, graph_[sum].axes, DType::F32);
}

TileValueId Draw::reduce(TileValueId value) {
  static const std::vector<ReduceKind> kKinds = {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min,
                                                 ReduceKind::Sum};
  return add(TileReduce{random_.pick(kKinds), reduced_}, {value}, parallel_, DType::F32);
}

void Draw::store(TileValueId value) {
  std::vector<AxisId> order = graph_[value].axes;
  if (order.size() > 1 && random_.once_in(4)) std::swap(order.front(), order.back());
  const DType dtype = random_.once_in(3) ? DType::BF16 : DType::F32;
  const TileValueId narrowed =
      dtype == DType::F32 ? value : add(TileMap{MapFn::Cast}, {value}, graph_[value].axes, dtype);
  Buffer buffer{"y" + std::to_string(outputs_.size()), dtype, Buffer::Role::Output, {}, {}, {}};
  stores_.push_back({narrowed, {static_cast<uint32_t>(outputs_.size())}, offset(order, buffer)});
  outputs_.push_back(std::move(buffer));
}

TileGraph Draw::graph() {
  graph_.name = "drawn";
  draw_axes();
  TileValueId value = load(all_axes());
  for (int64_t i = random_.below(4); i > 0; --i) value = map(value, load(some_axes()));
  value = map(value, load({}));
  if (reduced_.size() == 1 && random_.once_in(5)) {
    store(add(TileScan{ReduceKind::Sum, reduced_[0]}, {value}, all_axes(), DType::F32));
  } else if (!reduced_.empty()) {
    for (int64_t level = random_.between(1, 3); level > 1; --level) value = map(value, reduce(value));
    const TileValueId total = reduce(value);
    if (random_.once_in(2)) store(total);
    if (stores_.empty() || random_.once_in(2)) store(map(value, total));
  } else {
    store(value);
    if (random_.once_in(3)) store(map(value, value));
  }
  for (TileStore& made : stores_) made.buffer.index += static_cast<uint32_t>(graph_.buffers.size());
  graph_.buffers.insert(graph_.buffers.end(), outputs_.begin(), outputs_.end());
  graph_.stores = std::move(stores_);
  verify(graph_, "random_tile_graph");
  return std::move(graph_);
}

}  // namespace

TileGraph random_tile_graph(RandomSource& random) { return Draw(random).graph(); }

Target random_target(RandomSource& random, const Target& rates_of) {
  Target target = rates_of;
  target.vector_bytes = static_cast<int>(16 << random.below(3));
  target.vector_registers = static_cast<int>(8 << random.below(3));
  target.l1_bytes = int64_t{8 << 10} << random.below(4);
  target.l2_bytes = target.l1_bytes * (int64_t{2} << random.below(5));
  target.l3_bytes = target.l2_bytes * (int64_t{2} << random.below(5));
  return target;
}

}  // namespace tilefuse
