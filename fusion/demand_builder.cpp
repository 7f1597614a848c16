// Outputs, maps, reductions, scans, constants; demand_access.cpp has the operators that move data.
#include "fusion/demand_builder.h"

#include <algorithm>

#include "core/expr_terms.h"
#include "core/match.h"

namespace tilefuse {
namespace {

bool is_affine_sum(const Expr& e) {
  for (const Expr::Term& term : e.terms()) {
    for (const Expr::Atom& atom : term.factors) {
      if (!atom.args.empty()) return false;
    }
  }
  return true;
}

// The axis, if e is nothing but its index.
std::optional<AxisId> plain_axis(const Expr& e) {
  const std::vector<int> indices = indices_of(e);
  if (indices.size() != 1 || e != Expr::index(indices[0])) return std::nullopt;
  return AxisId{static_cast<uint32_t>(indices[0])};
}

bool contains(const std::vector<int>& sorted, AxisId axis) {
  return std::binary_search(sorted.begin(), sorted.end(), static_cast<int>(axis.index));
}

// A chain of x + shifted(x) doubles the places a value is needed at with every link; beyond this many tile
// values for each graph node, memory traffic is cheaper.
constexpr size_t kMinValueLimit = 128, kMaxValuesPerNode = 8;
constexpr size_t kMaxValuesPerTap = 6;  // of a window: what is loaded, multiplied and added up

// What is rounded to eight bits is quantised on purpose.
bool is_half(DType dtype) { return is_narrow_float(dtype) && size_in_bytes(dtype) == 2; }

}  // namespace

DemandBuilder::DemandBuilder(const Graph& graph, const RegionNodes& region, const RegionValues& values,
                             const AxisAssignment& assignment, const TileOptions& options)
    : graph_(graph),
      values_(values),
      assignment_(assignment),
      options_(options),
      value_limit_(kMinValueLimit + kMaxValuesPerNode * region.nodes.size()),
      writer_(region.name) {
  for (const NodeId id : region.nodes) value_limit_ += kMaxValuesPerTap * size_t(taps_of(graph[id]));
}

BufferId DemandBuilder::add_buffer(ValueId value, Buffer::Role role) {
  const TensorType& type = graph_[value].type;
  const bool is_constant = role == Buffer::Role::Input && graph_[value].is_constant;
  return writer_.add_buffer(
      {graph_[value].name, type.dtype, role, type.shape, strides_of(value), value, is_constant});
}

void DemandBuilder::store_output(ValueId output, BufferId buffer) {
  const Node& node = graph_.producer(output);
  const auto* scatter = std::get_if<Scatter>(&node.op);
  store_whole(output, scatter == nullptr ? output : node.operands[0], buffer);
  if (scatter != nullptr && !refusal_) scatter_into(node, *scatter, buffer);
}

// `value_of` where the output lies.
void DemandBuilder::store_whole(ValueId output, ValueId value_of, BufferId buffer) {
  const size_t number = values_.number(output);
  Exprs coordinates;
  Expr offset;
  const Exprs& strides = strides_of(output);
  bool is_shared = false;
  for (size_t dim = 0; dim < assignment_.dims[number].size(); ++dim) {
    coordinates.push_back(coordinate_of(assignment_.leaves(number, dim)));
    // Without elements there is nothing to store: such an axis stays, whatever its stride.
    const bool is_empty = graph_[output].type.shape[dim].is_constant(0);
    offset = offset + coordinates.back() * (is_empty ? Expr(1) : strides[dim]);
    is_shared = is_shared || (!is_empty && strides[dim].is_constant(0));
  }
  const Place place{lists_.number(std::move(coordinates)), lists_.number({})};
  const Made value = demand(value_of, place);
  if (!value) return;
  const std::vector<AxisId>& axes = writer_.graph()[*value].axes;
  const auto is_dropped = [&](AxisId axis) { return !uses_index(offset, int(axis.index)); };
  if (is_shared && std::any_of(axes.begin(), axes.end(), is_dropped)) {
    refuse(graph_.producer(output), "its strides put elements that differ at one place");
    return;
  }
  writer_.add_store({*value, buffer, offset});
}

DemandBuilder::Made DemandBuilder::demand(ValueId value, Place place) {
  if (refusal_) return std::nullopt;
  const uint64_t key = (static_cast<uint64_t>(values_.number(value)) << 42) |
                       (static_cast<uint64_t>(place.coordinates) << 21) | static_cast<uint64_t>(place.guard);
  if (const auto found = made_.find(key); found != made_.end()) return found->second;
  const Made made = make(value, place);
  if (made) made_.emplace(key, *made);
  return made;
}

DemandBuilder::Made DemandBuilder::make(ValueId value, Place place) {
  const NodeId id = graph_[value].producer;
  if (writer_.graph().values.size() > value_limit_) {
    return refuse(graph_[id], "reading values at shifted coordinates makes more than " +
                                  std::to_string(value_limit_) + " copies of them");
  }
  if (values_.is_input(value)) {
    return load_input(value, lists_[place.coordinates], lists_[place.guard], std::nullopt, id);
  }
  const Node& node = graph_[id];
  return match(
      node.op, [&](const Map& map) { return make_map(node, id, map, place); },
      [&](const Reduce& reduce) { return make_reduce(node, id, reduce, place); },
      [&](const Scan& scan) { return make_scan(node, id, scan, place); },
      [&](const View& view) { return make_view(node, id, view, place); },
      [&](const Concat& concat) { return make_concat(node, id, concat, place); },
      [&](const Gather& gather) { return make_gather(node, gather, place); },
      [&](const Scatter&) { return refuse(node, "it is scattered: it is whole only behind its region"); },
      [&](const Iota& iota) { return make_iota(node, id, iota, place); },
      [&](const Constant& literal) -> Made {
        return constant(literal.value, graph_[value].type.dtype, id, graph_[value].name);
      },
      [&](const Input&) { return refuse(node, "it is an input of the graph, not of the region"); },
      [&](const Call& call) { return refuse(node, call.op + " is an opaque operator"); });
}

DemandBuilder::Made DemandBuilder::make_map(const Node& node, NodeId id, const Map& map, Place place) {
  std::vector<TileValueId> operands;
  for (const ValueId operand : node.operands) {
    const Made made = demand(operand, place);
    if (!made) return made;
    operands.push_back(*made);
  }
  const ValueId result = node.results[0];
  const DType dtype = graph_[result].type.dtype;
  const bool keeps = map.fn == MapFn::Cast && keeps_f32(writer_.graph()[operands[0]].dtype, dtype);
  const MapFn fn = keeps ? MapFn::Copy : map.fn;
  const TileValueId value = writer_.add(TileMap{fn}, std::move(operands), dtype, id, graph_[result].name);
  return map.fn == MapFn::Cast ? value : rounded(value, result, id);
}

// Fast numerics: a cast to a 16-bit float rounds where it is stored, not on the way to the next operator.
bool DemandBuilder::keeps_f32(DType from, DType to) const {
  return !options_.eager_numerics && from == DType::F32 && is_half(to);
}

// What is left of a reduction or scan along a dimension with one element.
TileValueId DemandBuilder::converted(TileValueId value, ValueId to, NodeId node) {
  const DType dtype = graph_[to].type.dtype;
  if (writer_.graph()[value].dtype == dtype) return value;
  return writer_.add(TileMap{MapFn::Cast}, {value}, dtype, node, graph_[to].name);
}

TileValueId DemandBuilder::rounded(TileValueId value, ValueId of, NodeId node) {
  const DType dtype = graph_[of].type.dtype;
  if (!options_.eager_numerics || !is_half(dtype)) return value;
  return writer_.add(TileMap{MapFn::Cast}, {value}, dtype, node, graph_[of].name + "_rounded");
}

DemandBuilder::Made DemandBuilder::make_reduce(const Node& node, NodeId id, const Reduce& reduce,
                                               Place place) {
  if (taps_of(node) > 0) return make_window(node, id, reduce, place);
  const ValueId operand = node.operands[0];
  const size_t number = values_.number(operand);
  const Exprs outer = lists_[place.coordinates];
  const std::vector<int> taken = indices_in(place);
  TileReduce tile{reduce.kind, {}};
  Exprs coordinates;
  size_t kept = 0;
  for (size_t dim = 0; dim < assignment_.dims[number].size(); ++dim) {
    if (!std::binary_search(reduce.dims.begin(), reduce.dims.end(), static_cast<int>(dim))) {
      coordinates.push_back(outer[kept++]);
      continue;
    }
    const std::vector<int> leaves = assignment_.leaves(number, dim);
    Expr coordinate;
    for (const int leaf : leaves) {
      const AxisId axis = free_axis_of(leaf, taken);
      tile.axes.push_back(axis);
      coordinate = coordinate * assignment_.factors.extent(leaf) + Expr::index(static_cast<int>(axis.index));
    }
    coordinates.push_back(std::move(coordinate));
  }
  const ValueId result = node.results[0];
  if (tile.axes.empty() && info(reduce.kind).is_index) {
    return constant(Scalar(int64_t{0}), graph_[result].type.dtype, id, graph_[result].name);
  }
  const Made element = demand(operand, {lists_.number(std::move(coordinates)), place.guard});
  if (!element || tile.axes.empty()) return element ? converted(*element, result, id) : element;
  const TileValueId value =
      writer_.add(std::move(tile), {*element}, graph_[result].type.dtype, id, graph_[result].name);
  return rounded(value, result, id);
}

DemandBuilder::Made DemandBuilder::make_scan(const Node& node, NodeId id, const Scan& scan, Place place) {
  const Exprs coordinates = lists_[place.coordinates];
  const ValueId result = node.results[0];
  const auto& shape = graph_[result].type.shape;
  if (shape[scan.dim].is_constant(1)) {
    const Made element = demand(node.operands[0], place);
    return element ? converted(*element, result, id) : element;
  }
  const auto axis = plain_axis(coordinates[scan.dim]);
  if (!axis || depends_on_data(coordinates[scan.dim]) || writer_.extents()[axis->index] != shape[scan.dim]) {
    return refuse(node, "it is read at " + to_text(coordinates[scan.dim]) + " of " +
                            to_text(shape[scan.dim]) + " along its axis, not element by element");
  }
  Exprs others = coordinates;
  others.erase(others.begin() + scan.dim);
  const Place rest{lists_.number(std::move(others)), place.guard};
  if (contains(indices_in(rest), *axis)) {
    return refuse(node, "its axis is also a coordinate of another dimension or of a condition");
  }
  const Made element = demand(node.operands[0], place);
  if (!element) return element;
  const TileValueId value =
      writer_.add(TileScan{scan.kind, *axis}, {*element}, graph_[result].type.dtype, id, graph_[result].name);
  return rounded(value, result, id);
}

DemandBuilder::Made DemandBuilder::make_iota(const Node& node, NodeId id, const Iota& iota, Place place) {
  const Expr expr = iota.start + iota.step * lists_[place.coordinates][iota.dim];
  const Value& value = graph_[node.results[0]];
  if (depends_on_data(expr)) return refuse(node, "it is read at gathered indices");
  return writer_.add(TileIndex{normalized(expr)}, {}, value.type.dtype, id, value.name);
}

TileValueId DemandBuilder::constant(const Scalar& value, DType dtype, NodeId node, const std::string& name) {
  return writer_.add(TileConstant{scalar_of(value, dtype)}, {}, dtype, node, name);
}

// Every tap of a window asks for the same rows and columns as its neighbours.
Expr DemandBuilder::normalized(const Expr& e) {
  if (is_affine_sum(e)) return e;
  const auto [known, is_new] = normalized_.try_emplace(e);
  if (is_new) known->second = simplify(e, writer_.extents());
  return known->second;
}

AxisId DemandBuilder::axis_of(int leaf) {
  const auto found = axes_.find(leaf);
  if (found != axes_.end()) return found->second;
  const AxisId axis = writer_.add_axis(assignment_.factors.extent(leaf));
  axes_.emplace(leaf, axis);
  return axis;
}

// The factor's axis, or, where the coordinates hold that very axis already, another one of its extent.
AxisId DemandBuilder::free_axis_of(int leaf, const std::vector<int>& taken) {
  const AxisId own = axis_of(leaf);
  if (!contains(taken, own)) return own;
  for (const auto& [of, axis] : further_axes_) {
    if (of == leaf && !contains(taken, axis)) return axis;
  }
  further_axes_.emplace_back(leaf, writer_.add_axis(assignment_.factors.extent(leaf)));
  return further_axes_.back().second;
}

Expr DemandBuilder::coordinate_of(const std::vector<int>& leaves) {
  Expr coordinate;
  for (const int leaf : leaves) {
    coordinate =
        coordinate * assignment_.factors.extent(leaf) + Expr::index(static_cast<int>(axis_of(leaf).index));
  }
  return coordinate;
}

std::vector<int> DemandBuilder::indices_in(Place place) const {
  std::vector<int> indices;
  for (const int list : {place.coordinates, place.guard}) {
    for (const Expr& e : lists_[list]) {
      for (const int index : indices_of(e)) indices.push_back(index);
    }
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

const std::vector<Expr>& DemandBuilder::strides_of(ValueId value) {
  const auto found = strides_.find(value);
  if (found != strides_.end()) return found->second;
  const Value& info = graph_[value];
  return strides_.emplace(value, info.strides ? *info.strides : contiguous_strides(info.type.shape))
      .first->second;
}

DemandBuilder::Made DemandBuilder::refuse(const Node& node, const std::string& reason) {
  refusal_ = Unsupported{"cannot lower %" + graph_[node.results[0]].name + " in one tile graph: " + reason};
  return std::nullopt;
}

}  // namespace tilefuse
