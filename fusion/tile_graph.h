// The tile graph: one fused region on named iteration axes.
//
//   tile_graph softmax_0 {
//     axes row: s0, col: 1024
//     buffers %x: f32[s0, 1024] in, %y: f32[s0, 1024] out
//     %0 = load %x[row*1024 + col]           : f32[row, col]
//     %m = reduce.max(%0) over col           : f32[row]
//     %1 = sub(%0, %m)                       : f32[row, col]
//     %e = exp(%1)                           : f32[row, col]
//     %s = reduce.sum(%e) over col           : f32[row]
//     %2 = div(%e, %s)                       : f32[row, col]
//     store %2 -> %y[row*1024 + col]
//   }
//
// Reshapes, permutes and broadcasts have vanished: axes are the finest common refinement of what the values
// need, and a value's domain is the list of axes it varies along. A movement that is not a renaming of axes
// stands in the offset of a load (slice, flip, window, div/mod), with a guard where elements may lie outside.
// Offsets are in elements from the start of the buffer, over axis indices (Expr::index(axis)) and size
// symbols.
//
// Axes are ordered as memory is walked: outermost first; the last axis is the one that the largest output
// (or, in a region that only reduces, the largest input) has contiguous. Values are in topological order.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/dtype.h"
#include "core/expr.h"
#include "core/id.h"
#include "core/map_function.h"

namespace tilefuse {

struct Axis {
  std::string name;
  Expr extent;
};

struct Buffer {
  enum class Role : uint8_t {
    Input,
    Output,
    Scratch,   // of the task, between its nests
    Workspace  // of a call, between the launches of a region
  };
  std::string name;
  DType dtype = DType::F32;
  Role role = Role::Input;
  std::vector<Expr> shape, strides;  // in elements
  ValueId value;                     // of the graph the region came from
  bool is_constant = false;          // an input that holds the same elements at every call
};

// A data-dependent coordinate: adds wrapped(value) * stride to an offset. The value is an integer; if `wrap`,
// a negative one counts from the end; outside [0, extent) the launch reports an index error.
struct IndexTerm {
  TileValueId value;
  Expr stride, extent;
  bool wrap = true;
};

struct TileLoad {
  BufferId buffer;
  Expr offset;
  std::vector<IndexTerm> gathered;
  std::vector<Expr> guard;  // read only where every one is >= 0 ...
  Scalar fill = 0.0;        // ... elsewhere the value is this
};
struct TileConstant {
  Scalar value;
};
struct TileIndex {  // i64: the value of an expression over axes
  Expr expr;
};
struct TilePredicate {  // bool: every expression is >= 0
  std::vector<Expr> guard;
};
// A value declared f16/bf16 is held in f32 and not rounded, except by Map{Cast}, which rounds to the declared
// type.
struct TileMap {
  MapFn fn;
};
struct TileReduce {
  ReduceKind kind;
  std::vector<AxisId> axes;  // sorted; not in the domain of the result
};
struct TileScan {  // inclusive prefix along an axis that stays in the domain
  ReduceKind kind;
  AxisId axis;
};
// What a serial walk passes from step to step; who steps it stands beside the graph (expand_online.h).
struct TileCarry {
  Scalar initial;
};
using TileOp =
    std::variant<TileLoad, TileConstant, TileIndex, TilePredicate, TileMap, TileReduce, TileScan, TileCarry>;

struct TileValue {
  std::string name;  // unique, from the graph's value where it has one
  TileOp op;
  std::vector<TileValueId> operands;  // of Map, Reduce, Scan; index values of a load come from its IndexTerms
  DType dtype = DType::F32;
  std::vector<AxisId> axes;  // domain, sorted
  NodeId node;               // the graph node it was made for (explain shows its source)
};

// What a store does whose place is data: every element over these axes, one after the other in row-major
// order, is combined into what lies at the offset and the indices.
struct TileScatter {
  ScatterMode mode = ScatterMode::Add;
  std::vector<IndexTerm> at;
  std::vector<AxisId> over;  // outermost first; the value need not vary along all of them
};

struct TileStore {
  TileValueId value;
  BufferId buffer;
  Expr offset;
  std::optional<TileScatter> scatter = std::nullopt;
};

struct TileGraph {
  std::string name;
  std::vector<Axis> axes;
  std::vector<Buffer> buffers;  // inputs first, then outputs, then what lies between nests or launches
  std::vector<TileValue> values;
  std::vector<TileStore> stores;

  const Axis& operator[](AxisId id) const { return axes[id.index]; }
  const Buffer& operator[](BufferId id) const { return buffers[id.index]; }
  const TileValue& operator[](TileValueId id) const { return values[id.index]; }
};

std::vector<Expr> axis_extents(const TileGraph& graph);  // extents[i] of Expr::index(i)
std::vector<std::string> axis_names(const TileGraph& graph);
std::vector<std::string> symbols_in(const TileGraph& graph);   // size symbols of all expressions, sorted
std::vector<TileValueId> operands_of(const TileValue& value);  // with the index values of a load
// The axes that a value of this operation varies along: of its expressions and operands, but those it
// reduces.
std::vector<AxisId> domain_of(const TileGraph& graph, const TileOp& op,
                              const std::vector<TileValueId>& operands);

std::vector<TileValueId> operands_of(
    const TileStore& store);                          // its value; of a scatter, the index values, too
bool is_walked(const TileStore& store, AxisId axis);  // it writes for every element of the axis
bool scatters(const TileGraph& graph);
TileGraph without_unneeded(TileGraph graph);  // values that no store needs

std::string to_text(const TileGraph& graph);
TileGraph parse_tile_graph(std::string_view text);  // UserError with line
void verify(const TileGraph& graph, std::string_view after_stage);

}  // namespace tilefuse
