#include "fusion/chain.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "fusion/chain_steps.h"
#include "fusion/contraction.h"
#include "fusion/dots.h"
#include "fusion/nest_cut.h"
#include "fusion/nest_graph.h"
#include "fusion/neutral_where.h"
#include "fusion/packed_operands.h"
#include "fusion/task_parts.h"

namespace tilefuse {
namespace {

constexpr int64_t kKernelBytes = 64;  // in front of all scratch: the error flag
constexpr int64_t kScratchAlignment = 64;
constexpr int64_t kRowsOfPart = 64;  // four vectors of f32

std::string tile_name(const std::string& value) {
  const bool is_number = std::isdigit(static_cast<unsigned char>(value[0])) != 0;
  return (is_number ? "v" + value : value) + "_tile";
}

class ChainBuilder {
 public:
  ChainBuilder(const TileGraph& graph, const ChainAxes& axes, const Schedule& schedule)
      : graph_(graph), axes_(axes), schedule_(schedule), buffers_(graph.buffers) {
    for (Buffer& buffer : buffers_) {
      names_.insert(buffer.name);
      buffer.is_constant = false;  // a nest packs what it stages in its task
    }
  }
  Result<Chain> build();

 private:
  using Phase = ChainNest::Phase;
  using Refusal = std::optional<Unsupported>;
  using Packed = std::map<TileValueId, AxisId>;  // the axis that goes last in its tile

  TaskParts parts_of(Phase phase) const;
  struct Layout {
    DType dtype;
    std::vector<AxisId> axes;
    bool in_neighbours = false;  // along the first axis
  };
  Result<CarryPlace> add_scratch(const std::string& name, Layout layout, const TaskParts& parts);
  Layout layout_of(const TileGraph& graph, const NestCut& cut, TileValueId id, int reader,
                   const Packed& packed) const;
  Refusal add_online();
  Refusal add_graph(TileGraph graph, Phase phase);
  Packed find_packed(const TileGraph& graph, const TaskParts& parts) const;
  Result<std::map<TileValueId, CarryPlace>> add_crossing(const TileGraph& graph, const NestCut& cut,
                                                         const Packed& packed, const TaskParts& parts);
  bool stands_in_neighbours(const TileGraph& graph, const NestCut& cut, TileValueId id) const;
  Refusal check_carried(const TileGraph& graph, const NestCut& cut,
                        const std::vector<NestGraph>& nests) const;
  void finish();

  const TileGraph& graph_;
  const ChainAxes& axes_;
  const Schedule& schedule_;
  std::vector<Buffer> buffers_;
  std::set<std::string> names_;
  std::vector<Expr> nothing_;  // where the walk takes in nothing
  Chain chain_;
};

TaskParts ChainBuilder::parts_of(Phase phase) const {
  return {graph_, schedule_.grid, phase == Phase::InLoop ? schedule_.block : std::nullopt};
}

Result<CarryPlace> ChainBuilder::add_scratch(const std::string& name, Layout layout, const TaskParts& parts) {
  std::vector<AxisId>& axes = layout.axes;
  std::erase_if(axes, [&](AxisId axis) { return parts.is_single(axis); });
  for (const AxisId axis : axes) {
    if (parts.capacity(axis)) continue;
    return Unsupported{"cannot keep %" + name + " in scratch: " + graph_[axis].name + " has no known size"};
  }
  std::string unique = tile_name(name);
  while (!names_.insert(unique).second) unique += "_";
  Buffer tile = layout.in_neighbours ? parts.neighbours(unique, layout.dtype, axes)
                                     : parts.tile(unique, layout.dtype, axes);
  int64_t elements = 16;  // whole vectors, also of a single element
  for (size_t i = 0; i < tile.shape.size(); ++i) {
    elements = std::max(elements, *tile.shape[i].constant() * *tile.strides[i].constant());
  }
  const int64_t bytes = (elements + 16) * size_in_bytes(layout.dtype);
  chain_.tiles.push_back({axes, size_in_bytes(layout.dtype), chain_.scratch_bytes});
  chain_.scratch_bytes += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  CarryPlace place{{static_cast<uint32_t>(buffers_.size())},
                   layout.in_neighbours ? parts.neighbour_offset(tile, axes) : parts.offset(tile, axes)};
  buffers_.push_back(std::move(tile));
  return place;
}

ChainBuilder::Packed ChainBuilder::find_packed(const TileGraph& graph, const TaskParts& parts) const {
  std::optional<AxisId> lanes;
  for (const AxisId axis : axes_.shared) {
    if (!parts.is_single(axis)) lanes = axis;
  }
  Packed packed;
  for (const PackedOperand& operand : packed_operands(graph, axes_.shared, lanes, schedule_.dots)) {
    packed.emplace(operand.value, operand.contiguous);
  }
  return packed;
}

// Whether a nest walks the axis that later ones sum products of this value along, whose other factors are
// bf16 in memory, and may leave it rounded, two steps of its walk beside each other.
bool ChainBuilder::stands_in_neighbours(const TileGraph& graph, const NestCut& cut, TileValueId id) const {
  const int place = cut.place[id.index];
  const std::vector<AxisId>& walked = cut.nests[static_cast<size_t>(place)].reduced;
  if (schedule_.dots != DotKind::Pairs || !is_declared_narrow(graph, id) || walked.size() != 1) return false;
  if (!falls_into_dots(graph, walked[0], schedule_.dots)) return false;
  std::set<TileValueId> products;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const auto* sum = std::get_if<TileReduce>(&graph.values[v].op);
    const auto contraction = contraction_of(graph, {v});
    if (sum == nullptr || !contraction || sum->axes != walked) continue;
    const std::vector<TileValueId>& factors = graph[contraction->product].operands;
    const TileValueId other = factors[factors[0] == id ? 1 : 0];
    if (narrow_load(graph, other, DotKind::Pairs)) products.insert(contraction->product);
  }
  bool is_read = false;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const std::vector<TileValueId> operands = operands_of(graph.values[v]);
    const bool reads = std::find(operands.begin(), operands.end(), id) != operands.end();
    if (!reads || cut.place[v] == place) continue;
    if (!products.contains({v})) return false;
    is_read = true;
  }
  return is_read && std::none_of(graph.stores.begin(), graph.stores.end(),
                                 [&](const TileStore& store) { return store.value == id; });
}

// In the order the first reader walks it: reduced axes outermost.
ChainBuilder::Layout ChainBuilder::layout_of(const TileGraph& graph, const NestCut& cut, TileValueId id,
                                             int reader, const Packed& packed) const {
  const std::vector<AxisId>& reduced = cut.nests[static_cast<size_t>(reader)].reduced;
  Layout layout{info(graph[id].dtype).compute, graph[id].axes};
  const auto pack = packed.find(id);
  std::stable_partition(layout.axes.begin(), layout.axes.end(), [&](AxisId axis) {
    return pack == packed.end() ? std::binary_search(reduced.begin(), reduced.end(), axis)
                                : axis != pack->second;
  });
  if (pack == packed.end() && stands_in_neighbours(graph, cut, id)) {
    layout.dtype = DType::BF16;
    layout.in_neighbours = true;
  }
  return layout;
}

// Values that a later nest reads.
Result<std::map<TileValueId, CarryPlace>> ChainBuilder::add_crossing(const TileGraph& graph,
                                                                     const NestCut& cut, const Packed& packed,
                                                                     const TaskParts& parts) {
  std::map<TileValueId, CarryPlace> places;
  const auto add = [&](TileValueId id, int reader) -> Refusal {
    const int place = cut.place[id.index];
    if (place == NestCut::kAnywhere || place >= reader || places.contains(id)) return std::nullopt;
    Result<CarryPlace> made = add_scratch(graph[id].name, layout_of(graph, cut, id, reader, packed), parts);
    if (!made) return made.unsupported();
    places.emplace(id, *std::move(made));
    return std::nullopt;
  };
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    for (const TileValueId operand : operands_of(graph.values[v])) {
      if (auto refusal = add(operand, cut.place[v])) return *std::move(refusal);
      if (cut.place[operand.index] != NestCut::kAnywhere) continue;
      for (const TileValueId scaled : operands_of(graph[operand])) {
        if (auto refusal = add(scaled, cut.place[v])) return *std::move(refusal);
      }
    }
  }
  for (size_t s = 0; s < graph.stores.size(); ++s) {
    if (auto refusal = add(graph.stores[s].value, cut.store_place[s])) return *std::move(refusal);
  }
  return places;
}

// A carried value is stepped by the last nest that reads it.
std::optional<Unsupported> ChainBuilder::check_carried(const TileGraph& graph, const NestCut& cut,
                                                       const std::vector<NestGraph>& nests) const {
  for (size_t s = 0; s < graph.stores.size(); ++s) {
    if (graph[graph.stores[s].buffer].role != Buffer::Role::Scratch) continue;
    for (size_t n = static_cast<size_t>(cut.store_place[s]) + 1; n < nests.size(); ++n) {
      if (!nests[n].reads(graph.stores[s].buffer)) continue;
      return Unsupported{"cannot carry %" + graph[graph.stores[s].buffer].name +
                         " from block to block: a later nest reads what it was before"};
    }
  }
  return std::nullopt;
}

std::optional<Unsupported> ChainBuilder::add_graph(TileGraph graph, Phase phase) {
  const TaskParts parts = parts_of(phase);
  graph.buffers = buffers_;
  const Packed packed = find_packed(graph, parts);
  std::vector<TileValueId> packed_values;
  packed_values.reserve(packed.size());
  for (const auto& [value, last] : packed) packed_values.push_back(value);
  const Result<NestCut> cut = cut_in_nests(graph, packed_values);
  if (!cut) return cut.unsupported();
  Result<std::map<TileValueId, CarryPlace>> crossing = add_crossing(graph, *cut, packed, parts);
  if (!crossing) return crossing.unsupported();
  graph.buffers = buffers_;
  std::vector<NestGraph> nests;
  for (int n = 0; n < static_cast<int>(cut->nests.size()); ++n) {
    nests.push_back(make_nest_graph(graph, *cut, n, *crossing));
    const NestCut::Nest& nest = cut->nests[static_cast<size_t>(n)];
    const bool stays =
        nest.packs &&
        (!axes_.walked || !std::binary_search(nest.parallel.begin(), nest.parallel.end(), *axes_.walked));
    const std::vector<AxisId>& order = nests.back().order;
    chain_.nests.push_back({stays && phase == Phase::InLoop ? Phase::Before : phase,
                            parts.local(nests.back().graph, order),
                            phase == Phase::InLoop ? parts.local(nothing_, order) : std::vector<Expr>()});
  }
  return check_carried(graph, *cut, nests);
}

std::optional<Unsupported> ChainBuilder::add_online() {
  const ExpandedOnline online =
      expand_online(graph_, *axes_.derived, OnlineStep::Block, StateWidth::AsElements);
  if (online.count || online.share) {
    return Unsupported{"cannot walk " + graph_[*axes_.walked].name + " in blocks: a mean is followed"};
  }
  std::vector<CarryPlace> places;
  for (const CarriedValue& carried : online.passes.front().carried) {
    const TileValue& value = online.graph[carried.carry];
    Result<CarryPlace> place = add_scratch(value.name, {value.dtype, value.axes}, parts_of(Phase::Before));
    if (!place) return place.unsupported();
    places.push_back(*std::move(place));
  }
  std::vector<TileValueId> steps;
  for (const std::vector<TileValueId>& group : online.passes.front().groups) {
    steps.insert(steps.end(), group.begin(), group.end());
  }
  nothing_ = neutral_where(online.graph, steps);
  const Axis& walked = graph_[*axes_.walked];
  chain_.live = live_range(nothing_, parts_of(Phase::Before), walked, *schedule_.block);
  const TaskParts part(graph_, parts_of_tasks(schedule_.grid, axes_.rows), std::nullopt);
  chain_.live_in_part = live_range(nothing_, part, walked, {*axes_.walked, 1});
  if (auto refusal = add_graph(start_graph(online, places), Phase::Before)) return refusal;
  if (auto refusal = add_graph(step_graph(online, places), Phase::InLoop)) return refusal;
  return add_graph(finish_graph(online, places), Phase::After);
}

// Names, and the buffers that came later; nests in the order they run.
void ChainBuilder::finish() {
  std::stable_sort(chain_.nests.begin(), chain_.nests.end(),
                   [](const ChainNest& a, const ChainNest& b) { return a.phase < b.phase; });
  for (size_t n = 0; n < chain_.nests.size(); ++n) {
    TileGraph& nest = chain_.nests[n].graph;
    nest.name = graph_.name + "_" + std::to_string(n);
    nest.buffers = buffers_;
    verify(nest, "make_chain");
  }
}

Result<Chain> ChainBuilder::build() {
  chain_.scratch_bytes = kKernelBytes;
  auto refusal =
      schedule_.block ? add_online() : add_graph(reachable_graph(graph_, graph_.stores), Phase::Before);
  if (refusal) return *std::move(refusal);
  finish();
  return std::move(chain_);
}

}  // namespace

std::vector<AxisTile> parts_of_tasks(std::vector<AxisTile> grid, AxisId rows) {
  for (AxisTile& tile : grid) {
    if (tile.axis == rows) tile.tile = tile.tile == 0 ? kRowsOfPart : std::min(tile.tile, kRowsOfPart);
  }
  return grid;
}

bool is_same_in_all_blocks(const TileGraph& nest, TileValueId load, const Axis& walked) {
  const auto& op = std::get<TileLoad>(nest[load].op);
  const std::vector<std::string> symbols = symbols_of(op.offset);
  const bool moves = std::find(symbols.begin(), symbols.end(), first_symbol(walked)) != symbols.end();
  return !moves && nest[op.buffer].role == Buffer::Role::Input &&
         std::none_of(nest[load].axes.begin(), nest[load].axes.end(),
                      [&](AxisId axis) { return nest[axis].name == walked.name; });
}

Result<Chain> make_chain(const TileGraph& graph, const ChainAxes& axes, const Schedule& schedule) {
  return ChainBuilder(graph, axes, schedule).build();
}

}  // namespace tilefuse
