#include "fusion/value_appender.h"

#include <utility>

namespace tilefuse {

TileValueId ValueAppender::add(TileOp op, std::vector<TileValueId> operands, DType dtype,
                               std::vector<AxisId> axes, const std::string& name) {
  const auto number = static_cast<uint32_t>(graph_.values.size());
  std::string unique = name.empty() ? std::to_string(number) : name;
  while (!names_.insert(unique).second) unique += "_";
  graph_.values.push_back({unique, std::move(op), std::move(operands), dtype, std::move(axes), {}});
  return {number};
}

TileValueId ValueAppender::map(MapFn fn, std::vector<TileValueId> operands, const std::string& name) {
  std::set<AxisId> axes;
  for (const TileValueId operand : operands)
    axes.insert(graph_[operand].axes.begin(), graph_[operand].axes.end());
  const DType dtype =
      info(fn).result == ResultKind::Bool ? DType::Bool : info(graph_[operands.back()].dtype).compute;
  return add(TileMap{fn}, std::move(operands), dtype, {axes.begin(), axes.end()}, name);
}

TileValueId ValueAppender::cast(TileValueId value, DType to) {
  if (info(graph_[value].dtype).compute == to) return value;
  const std::vector<AxisId> axes = graph_[value].axes;
  return add(TileMap{MapFn::Cast}, {value}, to, axes);
}

}  // namespace tilefuse
