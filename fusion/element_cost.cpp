#include "fusion/element_cost.h"

#include <algorithm>
#include <cmath>

#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

const char* rate_of(CostClass cost) {
  switch (cost) {
    case CostClass::Divide:
      return "clk_per_vector.divide";
    case CostClass::SquareRoot:
      return "clk_per_vector.square_root";
    case CostClass::Exp:
      return "clk_per_vector.exp";
    case CostClass::Log:
      return "clk_per_vector.log";
    case CostClass::Trigonometric:
      return "clk_per_vector.trigonometric";
    case CostClass::Tanh:
      return "clk_per_vector.tanh";
    case CostClass::Erf:
      return "clk_per_vector.erf";
    case CostClass::Pow:
      return "clk_per_vector.pow";
    default:
      return "clk_per_vector.slow";
  }
}

// Instructions of exp_nonpositive_bf16 over those of exp (codegen/runtime/cpu_exp_log.h).
constexpr double kNarrowExpShare = 8.0 / 12;

PortCycles map_cycles(MapFn fn, DType dtype, const Target& target) {
  const CostClass cost = info(fn).cost;
  if (cost == CostClass::Free) return {};
  if (cost == CostClass::Simple) return {.vector = target.rate("clk_per_vector.simple")};
  const bool is_short = fn == MapFn::ExpNonpositive && dtype == DType::BF16;
  return {.whole = target.rate(rate_of(cost)) * (is_short ? kNarrowExpShare : 1)};
}

// How often each vector of a load asks a guard. Loops are cut where a guard along one axis changes its
// answer, and along the last one, where lanes run, at whole vectors. One along several axes is asked every
// time where lanes may run along one of them; otherwise it is one test for all lanes and rows.
double share_asking(const TileGraph& graph, const TileLoad& load, const Expr& guard, const Target& target) {
  const std::vector<int> indices = indices_of(guard);
  if (indices.size() != 1) {
    const bool may_hold_lanes = std::any_of(indices.begin(), indices.end(), [&](int index) {
      const auto affine = affine_in(load.offset, index);
      return affine && affine->coefficient.is_constant(1);
    });
    return may_hold_lanes ? 1 : 0;
  }
  const AxisId axis{uint32_t(indices[0])};
  const auto affine = affine_in(guard, indices[0]);
  const auto extent = graph[axis].extent.constant();
  if (!affine || !extent || *extent < 1) return 1;
  const auto slope = affine->coefficient.constant(), at_zero = affine->rest.constant();
  if (!slope || !at_zero || *slope == 0) return 1;
  if (axis.index + 1 != graph.axes.size()) return 0;
  const double lanes = target.vector_bytes / 4.0, length = double(*extent);
  const double outside =
      *slope > 0 ? -double(*at_zero) / double(*slope) : length - double(*at_zero) / -double(*slope) - 1;
  return std::min(1.0, std::ceil(std::max(0.0, outside) / lanes) * lanes / length);
}

bool is_quarter(DType dtype) { return is_narrow_float(dtype) && size_in_bytes(dtype) == 1; }

// Instructions by which floats of eight bits become wider and narrower (codegen/runtime/cpu_convert.h), as
// processors have none; by count.
constexpr double kWidenQuarter = 6, kNarrowQuarter = 16;

PortCycles narrowing_cycles(DType dtype, const Target& target) {
  PortCycles cycles{.shuffle = 1 / target.rate("rate.narrow_bf16")};
  if (dtype == DType::BF16) cycles.vector = target.rate_or("clk_per_vector.round_bf16", 0);
  return cycles;
}

// Whether values become a narrow float that may not be the same number: bytes are exact in 16 bits.
bool rounds(const TileGraph& graph, const TileValue& value, const TileMap& map) {
  if (map.fn != MapFn::Cast || !is_narrow_float(value.dtype)) return false;
  const DType from = graph[value.operands[0]].dtype;
  return size_in_bytes(from) > 1 || is_narrow_float(from) || is_quarter(value.dtype);
}

}  // namespace

VectorSizes vector_sizes(const Target& target) {
  const double least = double(target.datapath_bytes) / target.vector_bytes;
  return {double(target.vector_bytes), least * target.rate_or("share.short_vector", 1)};
}

double registers_of_vector(DType dtype, int lanes, const VectorSizes& sizes) {
  const int held = std::max(size_in_bytes(dtype), size_in_bytes(info(dtype).compute));
  return std::max(sizes.least, double(lanes) * held / sizes.register_bytes);
}

void PortCycles::add(const PortCycles& other, double times) {
  load += times * other.load;
  store += times * other.store;
  vector += times * other.vector;
  shuffle += times * other.shuffle;
  whole += times * other.whole;
}

double PortCycles::total() const { return std::max({load, store, vector, shuffle}) + whole; }

PortCycles cycles_per_register(const TileGraph& graph, const TileValue& value, const Target& target) {
  const double simple = target.rate("clk_per_vector.simple");
  return match(
      value.op,
      [&](const TileLoad& load) {
        PortCycles cycles{.load = 1 / target.rate("rate.load")};
        cycles.vector = simple * 2 * double(load.gathered.size());
        for (const Expr& guard : load.guard)
          cycles.vector += simple * share_asking(graph, load, guard, target);
        const DType stored = graph[load.buffer].dtype;
        if (size_in_bytes(stored) < 4) {  // widened by a permutation and a shift
          cycles.shuffle = 1 / target.rate("rate.permute");
          cycles.vector += (2 + (is_quarter(stored) ? kWidenQuarter : 0)) * simple;
        }
        return cycles;
      },
      [](const TileConstant&) { return PortCycles{}; },
      [&](const TileIndex&) { return PortCycles{.vector = simple}; },
      [&](const TilePredicate& predicate) {
        return PortCycles{.vector = simple * double(predicate.guard.size())};
      },
      [&](const TileMap& map) {
        if (rounds(graph, value, map)) {
          return is_quarter(value.dtype) ? PortCycles{.vector = (kNarrowQuarter + kWidenQuarter) * simple}
                                         : narrowing_cycles(value.dtype, target);
        }
        if (map.fn == MapFn::Cast &&
            info(graph[value.operands[0]].dtype).compute == info(value.dtype).compute) {
          return PortCycles{};  // widened where it was loaded
        }
        return map_cycles(map.fn, value.dtype, target);
      },
      [&](const TileReduce& reduce) {
        return PortCycles{.vector = (info(reduce.kind).is_index ? 4 : 1) * simple};
      },
      [&](const TileScan&) { return PortCycles{.vector = simple}; },
      [](const TileCarry&) { return PortCycles{}; });
}

PortCycles cycles_per_register(const TileGraph& graph, const TileStore& store, const Target& target) {
  const double simple = target.rate("clk_per_vector.simple");
  PortCycles cycles{.store = 1 / target.rate("rate.store")};
  const int bytes = size_in_bytes(graph[store.buffer].dtype);
  if (bytes < 4) {  // narrower than a register: half of the store, and the narrowing
    cycles.store /= 2;
    cycles.add(narrowing_cycles(graph[store.buffer].dtype, target), 1);
    if (is_quarter(graph[store.buffer].dtype)) cycles.vector = kNarrowQuarter * simple;
  }
  if (store.scatter) {  // where it goes, what is there, and the sum of both
    cycles.vector += simple * 2 * double(store.scatter->at.size());
    if (!info(store.scatter->mode).combine) return cycles;
    cycles.load += 1 / target.rate("rate.load");
    cycles.vector += simple * (bytes < 4 ? 3 : 1);
  }
  return cycles;
}

PortCycles cycles_in_pairs(const TileGraph& graph, const TileValue& value, const Target& target) {
  PortCycles cycles = cycles_per_register(graph, value, target);
  const auto* load = std::get_if<TileLoad>(&value.op);
  if (load == nullptr) return cycles;
  if (graph[load->buffer].dtype != DType::BF16) {
    cycles.shuffle += 1 / target.rate("rate.permute");
    return cycles;
  }
  cycles.load /= 2;
  cycles.shuffle = 0;
  cycles.vector -= target.rate("clk_per_vector.simple");
  return cycles;
}

PortCycles cycles_in_pairs(const TileGraph& graph, const TileStore& store, const Target& target) {
  PortCycles cycles = cycles_per_register(graph, store, target);
  if (graph[store.buffer].dtype != DType::BF16) cycles.shuffle += 1 / target.rate("rate.permute");
  return cycles;
}

bool asks_each_lane(const TileLoad& load, AxisId lanes) {
  return std::any_of(load.guard.begin(), load.guard.end(), [&](const Expr& guard) {
    const std::vector<int> indices = indices_of(guard);
    return indices.size() > 1 && std::binary_search(indices.begin(), indices.end(), int(lanes.index));
  });
}

bool is_dear(const TileGraph& graph, const TileValue& value, const Target& target) {
  return cycles_per_register(graph, value, target).whole >= kDearCycles;
}

std::optional<AxisId> innermost_row_axis(const Structure& structure) {
  const size_t lanes = structure.reductions.empty() ? 1 : 0;  // else they run along a reduced axis
  if (structure.parallel.size() <= lanes) return std::nullopt;
  return structure.parallel[structure.parallel.size() - 1 - lanes];
}

double cycles_shared_by_rows(const TileGraph& graph, AxisId lanes, AxisId row, const Target& target) {
  double cycles = 0;
  for (const TileValue& value : graph.values) {
    const auto varies = [&](AxisId axis) { return std::ranges::binary_search(value.axes, axis); };
    const bool is_map = std::holds_alternative<TileMap>(value.op);
    if (is_map && varies(lanes) && !varies(row)) cycles += cycles_per_register(graph, value, target).total();
  }
  return cycles;
}

bool walks_dear_values(const TileGraph& graph, const Structure& structure, const Target& target) {
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (!structure.varies_along_reduced(graph, TileValueId{v})) continue;
    if (is_dear(graph, graph.values[v], target)) return true;
  }
  return false;
}

double recompute_cycles(const TileGraph& graph, const Structure& structure, TileValueId value,
                        const Target& target) {
  std::vector<bool> seen(graph.values.size(), false);
  seen[value.index] = true;
  PortCycles cycles;
  for (size_t v = value.index + 1; v-- > 0;) {
    if (!seen[v]) continue;
    const TileValueId id{static_cast<uint32_t>(v)};
    cycles.add(cycles_per_register(graph, graph[id], target), 1);
    for (TileValueId operand : operands_of(graph[id])) {
      if (structure.varies_along_reduced(graph, operand)) seen[operand.index] = true;
    }
  }
  return cycles.total();
}

}  // namespace tilefuse
