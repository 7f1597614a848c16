#include "fusion/gpu_carried.h"

#include <algorithm>

#include "fusion/graph_pieces.h"
#include "fusion/reduce_in_parts.h"

namespace tilefuse {
namespace {

bool is_in(const std::vector<TileValueId>& values, TileValueId id) {
  return std::find(values.begin(), values.end(), id) != values.end();
}

class Carry {
 public:
  Carry(const TileGraph& graph, std::vector<TileValueId> across, int64_t rows)
      : graph_(graph),
        across_(std::move(across)),
        axis_(std::get<TileReduce>(graph[across_.front()].op).axes.front()),
        pieces_(pieces_of_length(graph, axis_, rows)) {
    split_stores();
  }

  std::optional<std::vector<TileGraph>> run() const {
    for (const TileValueId id : needed_behind()) {
      const auto& axes = graph_[id].axes;
      const bool walks_rows = std::find(axes.begin(), axes.end(), axis_) != axes.end();
      if (walks_rows && !is_in(across_, id)) return std::nullopt;
    }
    return std::vector<TileGraph>{rows(), sums()};
  }

 private:
  void split_stores() {
    std::vector<bool> waits(graph_.values.size());
    for (uint32_t v = 0; v < waits.size(); ++v) {
      waits[v] = is_in(across_, {v});
      for (const TileValueId operand : operands_of(graph_.values[v]))
        waits[v] = waits[v] || waits[operand.index];
    }
    for (const TileStore& store : graph_.stores)
      (waits[store.value.index] ? behind_ : beside_).push_back(store);
  }

  static std::vector<TileValueId> values_of(const std::vector<TileStore>& stores) {
    std::vector<TileValueId> values;
    values.reserve(stores.size());
    for (const TileStore& store : stores) values.push_back(store.value);
    return values;
  }
  std::vector<TileValueId> needed_behind() const {
    return needed_values(graph_, values_of(behind_), [&](TileValueId id) { return is_in(across_, id); });
  }

  // ---- nest 0
  TileGraph rows() const {
    PiecesOfGraph made(graph_, pieces_, graph_.name + "_rows", BeyondEnd::LastAgain);
    std::vector<TileValueId> roots = values_of(beside_);
    for (const TileValueId id : across_) roots.push_back(graph_[id].operands[0]);
    made.copy(needed_values(graph_, roots, [](TileValueId) { return false; }));
    made.mask_elements(across_);
    made.copy(across_);
    for (const TileStore& store : beside_) made.store(store);
    for (const TileValueId id : across_)
      made.store(made.made(id), parts_buffer(id, Buffer::Role::Output), graph_[id].axes);
    return made.finish("carry_across_rows, rows");
  }

  // ---- nest 1: the axis of the rows numbers the parts
  TileGraph sums() const {
    GraphCopy copy(graph_, graph_.name);
    copy.to_.axes = graph_.axes;
    copy.to_.axes[axis_.index] = {"block", pieces_.count};
    for (const TileValueId id : needed_behind()) {
      if (!is_in(across_, id)) {
        copy.keep(id, copy.add(copy.copied(id)));
        continue;
      }
      TileValue sum = graph_[id];
      sum.operands = {load_pieces(copy, graph_, parts_buffer(id, Buffer::Role::Input), id, axis_)};
      copy.keep(id, copy.add(std::move(sum)));
    }
    for (const TileStore& store : behind_)
      copy.to_.stores.push_back({copy.made(store.value), copy.buffer(store.buffer), store.offset});
    return copy.finish("carry_across_rows, sums");
  }

  Buffer parts_buffer(TileValueId id, Buffer::Role role) const {
    return buffer_of_pieces(graph_, pieces_, graph_[id].name + "_blocks", info(graph_[id].dtype).compute,
                            graph_[id].axes, role);
  }

  const TileGraph& graph_;
  std::vector<TileValueId> across_;
  AxisId axis_;
  Pieces pieces_;
  std::vector<TileStore> beside_, behind_;  // the sums across
};

}  // namespace

std::optional<std::vector<TileGraph>> carry_across_rows(const TileGraph& graph, int64_t rows) {
  if (scatters(graph)) return std::nullopt;
  std::vector<TileValueId> across = reductions_in_parts(graph);
  if (across.empty()) return std::nullopt;
  for (const TileValue& value : graph.values) {
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    if (reduce != nullptr && (reduce->axes.size() != 1 || graph[reduce->axes.front()].extent.is_constant(1)))
      return std::nullopt;
  }
  return Carry(graph, std::move(across), rows).run();
}

std::optional<GpuCarried> find_carried(const TileGraph& graph) {
  GpuCarried carried;
  auto first = static_cast<uint32_t>(graph.values.size());
  for (; first > 0; --first) {
    const auto* reduce = std::get_if<TileReduce>(&graph.values[first - 1].op);
    if (reduce == nullptr || reduce->axes.size() != 1 || !scatter_mode(reduce->kind)) break;
    if (!carried.reductions.empty() && reduce->axes.front() != carried.axis) break;
    carried.axis = reduce->axes.front();
    carried.reductions.insert(carried.reductions.begin(), TileValueId{first - 1});
  }
  if (carried.reductions.empty()) return std::nullopt;
  bool are_others = false;
  for (uint32_t v = 0; v < first; ++v) {
    const auto* reduce = std::get_if<TileReduce>(&graph.values[v].op);
    if (reduce == nullptr) continue;
    if (std::find(reduce->axes.begin(), reduce->axes.end(), carried.axis) != reduce->axes.end())
      return std::nullopt;
    are_others = true;
  }
  const auto rows = graph[carried.axis].extent.constant();
  if (!are_others || !rows) return std::nullopt;
  carried.rows = *rows;
  const auto is_of_carried = [&](const TileStore& store) { return store.value.index >= first; };
  const auto first_store = std::find_if(graph.stores.begin(), graph.stores.end(), is_of_carried);
  const bool are_last = std::all_of(first_store, graph.stores.end(), is_of_carried);
  return are_last ? std::optional(carried) : std::nullopt;
}

TileGraph without_carried(const TileGraph& graph, const GpuCarried& carried) {
  TileGraph rest = graph;
  std::vector<AxisId> all;
  all.reserve(graph.axes.size());
  for (uint32_t a = 0; a < graph.axes.size(); ++a) all.push_back({a});
  for (TileStore& store : rest.stores) {
    if (!is_in(carried.reductions, store.value)) continue;
    const TileValue& reduction = graph[store.value];
    store.scatter = TileScatter{*scatter_mode(std::get<TileReduce>(reduction.op).kind), {}, all};
    store.value = reduction.operands[0];
  }
  rest.values.resize(carried.reductions.front().index);
  return rest;
}

}  // namespace tilefuse
