#include "fusion/scan.h"

#include <algorithm>
#include <cmath>

namespace tilefuse {
namespace {

// Permutations of two sources, and over whole registers, have half of the ports: Zen 5, f32, bf16 and i64.
constexpr double kAcrossRegister = 2;

}  // namespace

DType carried_dtype(const TileValue& scan) {
  const ReduceKind kind = std::get<TileScan>(scan.op).kind;
  const bool rounds = kind == ReduceKind::Sum || kind == ReduceKind::Prod;
  return rounds && scan.dtype == DType::F32 ? DType::F64 : info(scan.dtype).compute;
}

bool may_have_lanes(const TileValue& scan) { return carried_dtype(scan) != DType::Bool; }

PortCycles cycles_along_lanes(const TileValue& scan, int lanes, const Target& target) {
  const DType carried = carried_dtype(scan);
  const double registers = std::max(1.0, registers_of_vector(carried, lanes, vector_sizes(target)));
  const double steps = std::log2(lanes / registers);
  const bool converts = carried != info(scan.dtype).compute;
  const double joins = registers - 1;  // of a half with the last lane of the one before
  const double moves = registers * steps + 2 * joins + 2 + (converts ? 2 * registers : 0);
  PortCycles cycles;
  cycles.shuffle = kAcrossRegister * moves / target.rate("rate.permute");
  cycles.vector = (registers * steps + joins + registers) * target.rate("clk_per_vector.simple");
  return cycles;
}

}  // namespace tilefuse
