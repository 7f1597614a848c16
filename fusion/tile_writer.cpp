#include "fusion/tile_writer.h"

#include <algorithm>
#include <utility>

#include "core/match.h"

namespace tilefuse {
namespace {

void add_indices(const Expr& e, std::vector<AxisId>& axes) {
  for (const int index : indices_of(e)) axes.push_back({static_cast<uint32_t>(index)});
}

bool same_load(const TileLoad& a, const TileLoad& b) {
  const bool same_terms = std::equal(a.gathered.begin(), a.gathered.end(), b.gathered.begin(),
                                     b.gathered.end(), [](const IndexTerm& x, const IndexTerm& y) {
                                       return x.value == y.value && x.stride == y.stride &&
                                              x.extent == y.extent && x.wrap == y.wrap;
                                     });
  return same_terms && a.offset == b.offset && a.guard == b.guard && (a.guard.empty() || a.fill == b.fill);
}

}  // namespace

AxisId TileWriter::add_axis(Expr extent) {
  extents_.push_back(extent);
  graph_.axes.push_back({"", std::move(extent)});
  return {static_cast<uint32_t>(graph_.axes.size() - 1)};
}

BufferId TileWriter::add_buffer(Buffer buffer) {
  graph_.buffers.push_back(std::move(buffer));
  loads_.emplace_back();
  return {static_cast<uint32_t>(graph_.buffers.size() - 1)};
}

std::vector<AxisId> TileWriter::domain_of(const TileOp& op, const std::vector<TileValueId>& operands) const {
  std::vector<AxisId> axes;
  auto add_domain = [&](TileValueId value) {
    axes.insert(axes.end(), graph_[value].axes.begin(), graph_[value].axes.end());
  };
  for (const TileValueId operand : operands) add_domain(operand);
  match(
      op,
      [&](const TileLoad& load) {
        add_indices(load.offset, axes);
        for (const Expr& guard : load.guard) add_indices(guard, axes);
        for (const IndexTerm& term : load.gathered) add_domain(term.value);
      },
      [&](const TileIndex& index) { add_indices(index.expr, axes); },
      [&](const TilePredicate& predicate) {
        for (const Expr& guard : predicate.guard) add_indices(guard, axes);
      },
      [&](const TileReduce& reduce) {
        std::erase_if(axes, [&](AxisId axis) {
          return std::find(reduce.axes.begin(), reduce.axes.end(), axis) != reduce.axes.end();
        });
      },
      [&](const TileScan& scan) { axes.push_back(scan.axis); }, [](const TileConstant&) {},
      [](const TileMap&) {}, [](const TileCarry&) {});
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

std::string TileWriter::unique_name(const std::string& wanted) {
  if (names_.insert(wanted).second) return wanted;
  for (int& number = last_number_.try_emplace(wanted, 1).first->second;;) {
    ++number;
    std::string name = wanted + "_" + std::to_string(number);
    if (names_.insert(name).second) return name;
  }
}

TileValueId TileWriter::add(TileOp op, std::vector<TileValueId> operands, DType dtype, NodeId node,
                            const std::string& wanted_name) {
  std::vector<AxisId> axes = domain_of(op, operands);
  graph_.values.push_back({.name = unique_name(wanted_name),
                           .op = std::move(op),
                           .operands = std::move(operands),
                           .dtype = dtype,
                           .axes = std::move(axes),
                           .node = node});
  return {static_cast<uint32_t>(graph_.values.size() - 1)};
}

TileValueId TileWriter::add_load(TileLoad load, NodeId node) {
  for (const TileValueId other : loads_[load.buffer.index]) {
    if (same_load(std::get<TileLoad>(graph_[other].op), load)) return other;
  }
  const Buffer& buffer = graph_[load.buffer];
  const BufferId id = load.buffer;
  const TileValueId value = add(std::move(load), {}, buffer.dtype, node, buffer.name);
  loads_[id.index].push_back(value);
  return value;
}

Scalar scalar_of(const Scalar& value, DType dtype) {
  if (is_float(dtype)) return to_double(value);
  if (dtype == DType::Bool) return to_bool(value);
  return to_int(value);
}

}  // namespace tilefuse
