#include "fusion/element_cost.h"

#include <algorithm>

#include "core/match.h"
#include "core/result.h"

namespace tilefuse {
namespace {

double map_cycles(MapFn fn, const Target& target) {
  switch (info(fn).cost) {
    case CostClass::Free:
      return 0;
    case CostClass::Simple:
      return target.rate("clk_per_vector.simple");
    case CostClass::Divide:
      return target.rate("clk_per_vector.divide");
    case CostClass::SquareRoot:
      return target.rate("clk_per_vector.square_root");
    case CostClass::Exp:
      return target.rate("clk_per_vector.exp");
    case CostClass::Log:
      return target.rate("clk_per_vector.log");
    case CostClass::Trigonometric:
      return target.rate("clk_per_vector.trigonometric");
    case CostClass::Tanh:
      return target.rate("clk_per_vector.tanh");
    case CostClass::Erf:
      return target.rate("clk_per_vector.erf");
    case CostClass::Pow:
      return target.rate("clk_per_vector.pow");
    case CostClass::Slow:
      return target.rate("clk_per_vector.slow");
  }
  TILEFUSE_CHECK(false, "a cost class outside its enum");
}

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

}  // namespace

double registers_of_vector(DType dtype, int lanes, const Target& target) {
  const int held = std::max(size_in_bytes(dtype), size_in_bytes(info(dtype).compute));
  return std::max(1.0, double(lanes) * held / target.vector_bytes);
}

double cycles_per_register(const TileGraph& graph, const TileValue& value, const Target& target) {
  const double simple = target.rate("clk_per_vector.simple");
  return match(
      value.op,
      [&](const TileLoad& load) {
        const double widen = size_in_bytes(graph[load.buffer].dtype) < 4 ? 1 / target.rate("rate.shift") : 0;
        const double mask = simple * double(load.guard.size() + 2 * load.gathered.size());
        return 1 / target.rate("rate.load") + widen + mask;
      },
      [](const TileConstant&) { return 0.0; }, [&](const TileIndex&) { return simple; },
      [&](const TilePredicate& predicate) { return simple * double(predicate.guard.size()); },
      [&](const TileMap& map) {
        const bool rounds = map.fn == MapFn::Cast && is_half(value.dtype);
        return rounds ? 1 / target.rate("rate.narrow_bf16") : map_cycles(map.fn, target);
      },
      [&](const TileReduce& reduce) { return (info(reduce.kind).is_index ? 4 : 1) * simple; },
      [&](const TileScan&) { return simple; });
}

double cycles_per_register(const TileGraph& graph, const TileStore& store, const Target& target) {
  const DType dtype = graph[store.buffer].dtype;
  const double narrow = size_in_bytes(dtype) < 4 ? 1 / target.rate("rate.narrow_bf16") : 0;
  return 1 / target.rate("rate.store") + narrow;
}

}  // namespace tilefuse
