#include "fusion/tile_writer.h"

#include <algorithm>
#include <utility>

#include "core/match.h"

namespace tilefuse {
namespace {

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
  std::vector<AxisId> axes = domain_of(graph_, op, operands);
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
