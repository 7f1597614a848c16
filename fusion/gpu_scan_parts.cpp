#include "fusion/gpu_scan_parts.h"

#include <algorithm>

#include "fusion/graph_pieces.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

// As many as divide the extent, so that no store is beyond an end: near the number that is asked for, pieces
// whose length allows wide accesses first.
std::optional<Pieces> even_pieces(const TileGraph& graph, AxisId axis, int parts) {
  constexpr int kWidest = 8, kShortest = 4;
  const auto extent = graph[axis].extent.constant();
  if (!extent) return std::nullopt;
  std::optional<int64_t> best;
  const auto width = [&](int64_t count) {
    int64_t wide = kWidest;
    while (*extent / count % wide != 0) wide /= 2;
    return wide;
  };
  const int64_t most = std::min(int64_t{2} * parts, *extent / kShortest);
  for (int64_t count = std::max(2, parts / 2); count <= most; ++count) {
    if (*extent % count != 0) continue;
    const bool is_nearer = best && std::abs(count - parts) < std::abs(*best - parts);
    if (!best || width(count) > width(*best) || (width(count) == width(*best) && is_nearer)) best = count;
  }
  if (!best) return std::nullopt;
  return Pieces{.axis = axis, .length = Expr(*extent / *best), .count = Expr(*best), .is_even = true};
}

class ScanInParts {
 public:
  ScanInParts(const TileGraph& graph, const Structure& structure, const Pieces& pieces)
      : graph_(graph), scans_(structure.reductions), row_axes_(structure.parallel), pieces_(pieces) {}

  std::vector<TileGraph> run() { return {totals(), until(), scanned()}; }

 private:
  static DType dtype_of(const TileValue& scan) { return info(scan.dtype).compute; }
  Buffer buffer_of(TileValueId id, const char* suffix, Buffer::Role role) const {
    return buffer_of_pieces(graph_, pieces_, graph_[id].name + suffix, dtype_of(graph_[id]), row_axes_, role);
  }
  // In a buffer of pieces, which axis `part` of the graph that is made numbers; those of rows stand `shift`
  // further there.
  Expr offset_in(const Buffer& buffer, AxisId part, uint32_t shift) const {
    return Expr::index(int(part.index)) * buffer.strides[0] + place_over(buffer, row_axes_, 1, shift);
  }
  bool is_scan(TileValueId id) const { return std::find(scans_.begin(), scans_.end(), id) != scans_.end(); }

  TileGraph totals() const {
    TileGraph reduced = graph_;
    for (const TileValueId id : scans_) {
      TileValue& value = reduced.values[id.index];
      value.op = TileReduce{std::get<TileScan>(value.op).kind, {pieces_.axis}};
      std::erase(value.axes, pieces_.axis);
      value.dtype = dtype_of(value);
    }
    PiecesOfGraph made(reduced, pieces_, graph_.name + "_parts");
    made.copy(needed_values(reduced, scans_, [](TileValueId) { return false; }));
    for (const TileValueId id : scans_)
      made.store(made.made(id), buffer_of(id, "_parts", Buffer::Role::Output), row_axes_);
    return made.finish("split_scan, totals");
  }

  TileGraph until() const {
    GraphCopy copy(graph_, graph_.name + "_rows");
    copy.to_.axes = graph_.axes;
    copy.to_.axes[pieces_.axis.index] = {"part", pieces_.count};
    std::vector<AxisId> axes = row_axes_;
    axes.push_back(pieces_.axis);
    std::sort(axes.begin(), axes.end());
    for (const TileValueId id : scans_) {
      const Buffer from = buffer_of(id, "_parts", Buffer::Role::Input);
      TileLoad load;
      load.buffer = copy.add_buffer(from);
      load.offset = offset_in(from, pieces_.axis, 0);
      const TileValueId part = copy.add({.name = from.name,
                                         .op = std::move(load),
                                         .operands = {},
                                         .dtype = from.dtype,
                                         .axes = axes,
                                         .node = {}});
      const TileValueId sum = copy.add({.name = graph_[id].name,
                                        .op = graph_[id].op,
                                        .operands = {part},
                                        .dtype = from.dtype,
                                        .axes = axes,
                                        .node = graph_[id].node});
      const Buffer to = buffer_of(id, "_until", Buffer::Role::Output);
      copy.to_.stores.push_back({sum, copy.add_buffer(to), offset_in(to, pieces_.axis, 0)});
    }
    return copy.finish("split_scan, until");
  }

  TileGraph scanned() const {
    PiecesOfGraph made(graph_, pieces_, graph_.name);
    std::vector<TileValueId> stored;
    stored.reserve(graph_.stores.size());
    for (const TileStore& store : graph_.stores) stored.push_back(store.value);
    const auto replace = [&](TileValueId id, PiecesOfGraph& to) -> std::optional<TileValueId> {
      return is_scan(id) ? std::optional(with_parts_before(id, to)) : std::nullopt;
    };
    made.copy(needed_values(graph_, stored, [](TileValueId) { return false; }), replace);
    for (const TileStore& store : graph_.stores) made.store(store);
    return made.finish("split_scan, scanned");
  }

  TileValueId with_parts_before(TileValueId id, PiecesOfGraph& to) const {
    const TileScan scan = std::get<TileScan>(graph_[id].op);
    const DType dtype = dtype_of(graph_[id]);
    const Buffer until = buffer_of(id, "_until", Buffer::Role::Input);
    TileLoad load;
    load.buffer = to.add_buffer(until);
    load.offset = offset_in(until, AxisId{0}, 1) - until.strides[0];
    load.guard = {Expr::index(0) - 1};
    load.fill = *identity_of(scan.kind, dtype);
    std::vector<AxisId> rows = {{0}};
    for (const AxisId axis : row_axes_) rows.push_back({axis.index + 1});
    const TileValueId before = to.add({.name = until.name,
                                       .op = std::move(load),
                                       .operands = {},
                                       .dtype = dtype,
                                       .axes = rows,
                                       .node = {}});
    const TileValueId element = to.made(graph_[id].operands[0]);
    const TileValueId own = to.add({.name = graph_[id].name + "_part",
                                    .op = TileScan{scan.kind, {pieces_.axis.index + 1}},
                                    .operands = {element},
                                    .dtype = dtype,
                                    .axes = to[element].axes,
                                    .node = graph_[id].node});
    return to.add({.name = graph_[id].name,
                   .op = TileMap{*info(scan.kind).combine},
                   .operands = {before, own},
                   .dtype = graph_[id].dtype,
                   .axes = to.domain({before, own}),
                   .node = graph_[id].node});
  }

  const TileGraph& graph_;
  std::vector<TileValueId> scans_;
  std::vector<AxisId> row_axes_;
  Pieces pieces_;
};

bool can_be_in_parts(const TileGraph& graph, const Structure& structure, TileValueId id) {
  const auto* scan = std::get_if<TileScan>(&graph[id].op);
  if (scan == nullptr || structure.level[id.index] != 0) return false;
  std::vector<AxisId> rows = graph[id].axes;
  std::erase(rows, scan->axis);
  return rows == structure.parallel && info(scan->kind).combine &&
         identity_of(scan->kind, info(graph[id].dtype).compute);
}

}  // namespace

std::optional<std::vector<TileGraph>> split_scan(const TileGraph& graph, int parts) {
  const Result<Structure> structure = analyze_structure(graph);
  if (!structure || structure->reduced.size() != 1 || structure->reductions.empty()) return std::nullopt;
  const AxisId axis = structure->reduced.front();
  for (const TileValueId id : structure->reductions) {
    if (!can_be_in_parts(graph, *structure, id)) return std::nullopt;
    std::vector<TileValueId> before =
        needed_values(graph, {graph[id].operands[0]}, [](auto) { return false; });
    const bool waits = std::any_of(before.begin(), before.end(), [&](TileValueId value) {
      return std::holds_alternative<TileScan>(graph[value].op);
    });
    if (waits) return std::nullopt;
  }
  const bool is_walked_everywhere =
      std::all_of(graph.stores.begin(), graph.stores.end(),
                  [&](const TileStore& store) { return !store.scatter && is_walked(store, axis); });
  const auto pieces = is_walked_everywhere ? even_pieces(graph, axis, parts) : std::nullopt;
  if (!pieces) return std::nullopt;
  return ScanInParts(graph, *structure, *pieces).run();
}

}  // namespace tilefuse
