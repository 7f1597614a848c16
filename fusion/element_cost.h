// Cycles that a value costs by the cost class of its operation and its element type.
#pragma once
#include "fusion/structure.h"
#include "fusion/target.h"
#include "fusion/tile_graph.h"

namespace tilefuse {

// Of a processor, looked up once.
struct VectorSizes {
  double register_bytes = 0;
  double least = 0;  // registers that any vector takes: the share of one that the data path does at a time
};
VectorSizes vector_sizes(const Target& target);

// Registers that a vector of so many lanes of a type takes.
double registers_of_vector(DType dtype, int lanes, const VectorSizes& sizes);

// Cycles by where instructions wait: ports work side by side, so the busiest one counts; divisions and
// polynomials keep all of them busy and come on top.
struct PortCycles {
  double load = 0, store = 0, vector = 0, shuffle = 0, whole = 0;
  void add(const PortCycles& other, double times);
  double total() const;
};

// For each register of a vector. Loads count what it takes to widen them, not what memory does.
PortCycles cycles_per_register(const TileGraph& graph, const TileValue& value, const Target& target);
PortCycles cycles_per_register(const TileGraph& graph, const TileStore& store, const Target& target);
// The same where lanes stand in pairs (lane_pairs.h): other elements than bf16 are sorted on their way.
PortCycles cycles_in_pairs(const TileGraph& graph, const TileValue& value, const Target& target);
PortCycles cycles_in_pairs(const TileGraph& graph, const TileStore& store, const Target& target);

// Whether a guard differs from lane to lane and is not one that loops are cut at, since another axis moves
// it.
bool asks_each_lane(const TileLoad& load, AxisId lanes);

// A vector of a value that costs at least this much is worth keeping, and computing once for several rows.
constexpr double kDearCycles = 4;
bool is_dear(const TileGraph& graph, const TileValue& value, const Target& target);
// The axis of rows where lanes run along the innermost axis, in or beside the reduced ones; absent: there is
// no other parallel one.
std::optional<AxisId> innermost_row_axis(const Structure& structure);
// Cycles of a vector, of maps without reductions, that rows along an axis have in common; lanes as above.
double cycles_shared_by_rows(const TileGraph& graph, AxisId lanes, AxisId row, const Target& target);
// Whether any is computed for every step along a reduced axis.
bool walks_dear_values(const TileGraph& graph, const Structure& structure, const Target& target);

// Cycles of a vector of everything behind a value that is computed again when the value is not kept.
double recompute_cycles(const TileGraph& graph, const Structure& structure, TileValueId value,
                        const Target& target);

}  // namespace tilefuse
