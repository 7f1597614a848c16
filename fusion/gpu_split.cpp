#include "fusion/gpu_split.h"

#include <algorithm>

#include "fusion/graph_pieces.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

class Split {
 public:
  Split(const TileGraph& graph, const Structure& structure, int parts)
      : graph_(graph),
        structure_(structure),
        axis_(structure.reduced.front()),
        pieces_(pieces_of(graph, axis_, parts)) {}

  std::optional<std::vector<TileGraph>> run() {
    if (pieces_.count.is_constant(1)) return std::nullopt;
    for (const TileValueId id : structure_.reductions) {
      const auto* reduce = std::get_if<TileReduce>(&graph_[id].op);
      if (reduce == nullptr || (info(reduce->kind).is_index && !pieces_.length.constant()))
        return std::nullopt;
      const DType element = graph_[graph_[id].operands[0]].dtype;
      if (!pieces_.is_even && !identity_of(value_kind(reduce->kind), element)) return std::nullopt;
    }
    std::vector<TileGraph> nests;
    nests.push_back(in_pieces());
    nests.push_back(rest());
    return nests;
  }

 private:
  // ---- nest 0
  TileGraph in_pieces() {
    PiecesOfGraph made(graph_, pieces_, graph_.name + "_parts");
    made.copy(needed_values(graph_, structure_.reductions, [](TileValueId) { return false; }));
    for (const TileValueId id : structure_.reductions) {
      const TileValueId piece = made.made(id);
      made.store(piece, parts_buffer(id, Buffer::Role::Output), graph_[id].axes);
      if (is_position(id))
        made.store(extreme_of(made, piece), extremes_buffer(id, Buffer::Role::Output), graph_[id].axes);
    }
    return made.finish("split_reduction, pieces");
  }

  // What a piece has at the position that it found.
  static TileValueId extreme_of(PiecesOfGraph& made, TileValueId position) {
    TileValue extreme = made[position];
    auto& reduce = std::get<TileReduce>(extreme.op);
    reduce.kind = value_kind(reduce.kind);
    extreme.name += "_extreme";
    extreme.dtype = info(made[extreme.operands[0]].dtype).compute;
    return made.add(std::move(extreme));
  }

  // ---- nest 1: the reduced axis numbers the pieces
  TileGraph rest() {
    GraphCopy copy(graph_, graph_.name);
    copy.to_.axes = graph_.axes;
    copy.to_.axes[axis_.index] = {"part", pieces_.count};
    std::vector<TileValueId> stored;
    stored.reserve(graph_.stores.size());
    for (const TileStore& store : graph_.stores) stored.push_back(store.value);
    const auto is_reduction = [&](TileValueId id) { return this->is_reduction(id); };
    for (const TileValueId id : needed_values(graph_, stored, is_reduction)) {
      if (is_position(id)) {
        copy.keep(id, position_of_parts(copy, id));
        continue;
      }
      TileValue value = is_reduction(id) ? graph_[id] : copy.copied(id);
      if (is_reduction(id)) value.operands = {loaded_parts(copy, id, parts_buffer(id, Buffer::Role::Input))};
      copy.keep(id, copy.add(std::move(value)));
    }
    for (const TileStore& store : graph_.stores) {
      copy.to_.stores.push_back({copy.made(store.value), copy.buffer(store.buffer), store.offset});
    }
    return copy.finish("split_reduction, rest");
  }

  TileValueId loaded_parts(GraphCopy& copy, TileValueId id, const Buffer& buffer) const {
    return load_pieces(copy, graph_, buffer, id, axis_);
  }

  // The first part with the extreme has it at the position that this part found.
  TileValueId position_of_parts(GraphCopy& copy, TileValueId id) const {
    const TileValue& position = graph_[id];
    const auto add = [&](const char* suffix, TileOp op, std::vector<TileValueId> operands) {
      return copy.add({.name = position.name + suffix,
                       .op = std::move(op),
                       .operands = std::move(operands),
                       .dtype = DType::I64,
                       .axes = position.axes,
                       .node = {}});
    };
    const TileValueId part =
        add("_part", position.op, {loaded_parts(copy, id, extremes_buffer(id, Buffer::Role::Input))});
    const Buffer buffer = parts_buffer(id, Buffer::Role::Input);
    TileLoad load;
    load.offset = place_over(buffer, graph_[id].axes, 1);
    load.gathered.push_back(
        {.value = part, .stride = buffer.strides[0], .extent = pieces_.count, .wrap = false});
    load.buffer = copy.add_buffer(buffer);
    const TileValueId within = add("_within", std::move(load), {});
    const TileValueId length = copy.add({.name = position.name + "_length",
                                         .op = TileConstant{*pieces_.length.constant()},
                                         .operands = {},
                                         .dtype = DType::I64,
                                         .axes = {},
                                         .node = {}});
    const TileValueId first = add("_first", TileMap{MapFn::Mul}, {part, length});
    return add("", TileMap{MapFn::Add}, {first, within});
  }

  // ---- both
  Buffer parts_buffer(TileValueId id, Buffer::Role role) const {
    return buffer_of_pieces(graph_, pieces_, graph_[id].name + "_parts", info(graph_[id].dtype).compute,
                            graph_[id].axes, role);
  }
  Buffer extremes_buffer(TileValueId id, Buffer::Role role) const {
    const DType dtype = info(graph_[graph_[id].operands[0]].dtype).compute;
    return buffer_of_pieces(graph_, pieces_, graph_[id].name + "_extremes", dtype, graph_[id].axes, role);
  }

  bool is_position(TileValueId id) const {
    const auto* reduce = std::get_if<TileReduce>(&graph_[id].op);
    return reduce != nullptr && info(reduce->kind).is_index;
  }
  bool is_reduction(TileValueId id) const {
    return std::find(structure_.reductions.begin(), structure_.reductions.end(), id) !=
           structure_.reductions.end();
  }

  const TileGraph& graph_;
  const Structure& structure_;
  AxisId axis_;
  Pieces pieces_;
};

}  // namespace

std::optional<std::vector<TileGraph>> split_reduction(const TileGraph& graph, int parts) {
  const Result<Structure> structure = analyze_structure(graph);
  if (!structure || structure->reduced.size() != 1 || structure->passes != 1) return std::nullopt;
  const bool stores = std::any_of(graph.stores.begin(), graph.stores.end(),
                                  [&](const TileStore& store) { return structure->stores_in_pass(store); });
  if (stores) return std::nullopt;
  return Split(graph, *structure, parts).run();
}

}  // namespace tilefuse
