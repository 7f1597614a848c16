// The state of demand_tiles (demand.h): one member function per operator of the tensor graph.
//
// Every function answers with the tile value, or nullopt once refusal() says why the region is unsupported.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/result.h"
#include "fusion/assign_axes.h"
#include "fusion/expr_lists.h"
#include "fusion/tile_writer.h"

namespace tilefuse {

class DemandBuilder {
 public:
  DemandBuilder(const Graph& graph, const RegionNodes& region, const RegionValues& values,
                const AxisAssignment& assignment, const TileOptions& options);
  // Of a Scatter: what is there before, and then the scatter.
  void store_output(ValueId output, BufferId buffer);
  BufferId add_buffer(ValueId value, Buffer::Role role);
  const std::optional<Unsupported>& refusal() const { return refusal_; }
  TileGraph take() && { return std::move(writer_).take(); }

 private:
  using Made = std::optional<TileValueId>;
  using Exprs = std::vector<Expr>;
  struct Place {  // numbers in lists_
    int coordinates, guard;
  };

  void store_whole(ValueId output, ValueId value_of, BufferId buffer);
  void scatter_into(const Node& node, const Scatter& scatter, BufferId buffer);
  Made demand(ValueId value, Place place);
  Made make(ValueId value, Place place);
  Made make_map(const Node& node, NodeId id, const Map& map, Place place);
  Made make_reduce(const Node& node, NodeId id, const Reduce& reduce, Place place);
  // A reduction over the taps of a sliding window, tap by tap.
  int64_t taps_of(const Node& node) const;  // 0: it is no such reduction
  Made make_window(const Node& node, NodeId id, const Reduce& reduce, Place place);
  Made make_taps(const Node& node, NodeId id, size_t next, Exprs& coordinates, int guard);
  Made make_scan(const Node& node, NodeId id, const Scan& scan, Place place);
  Made make_view(const Node& node, NodeId id, const View& view, Place place);
  Made make_concat(const Node& node, NodeId id, const Concat& concat, Place place);
  Made make_gather(const Node& node, const Gather& gather, Place place);
  Made make_iota(const Node& node, NodeId id, const Iota& iota, Place place);

  // A load of a region input at these coordinates; where a fill is given every guard counts, otherwise only
  // those that keep the access inside the buffer.
  Made load_input(ValueId input, const Exprs& coordinates, const Exprs& guard,
                  const std::optional<Scalar>& fill, NodeId node);
  // Data-dependent coordinates: an axis that stands for the wrapped value of an index.
  int stand_in_for(const IndexTerm& term);
  bool depends_on_data(const Expr& e) const;
  bool gather_terms(TileLoad& load) const;  // moves stand-ins from the offset to terms; false: not affine
  Exprs needed_guard(const Exprs& coordinates, const Exprs& shape, const Exprs& guard) const;
  TileValueId converted(TileValueId value, ValueId to, NodeId node);
  bool keeps_f32(DType from, DType to) const;
  TileValueId rounded(TileValueId value, ValueId of, NodeId node);
  TileValueId select(TileValueId predicate, TileValueId then, TileValueId otherwise, ValueId of, NodeId node);
  TileValueId constant(const Scalar& value, DType dtype, NodeId node, const std::string& name);
  TileValueId predicate(const Exprs& guard, NodeId node);

  Exprs apply(const IndexMap& map, const Exprs& coordinates);
  Expr normalized(const Expr& e);
  AxisId axis_of(int leaf);
  AxisId free_axis_of(int leaf, const std::vector<int>& taken);
  Expr coordinate_of(const std::vector<int>& leaves);
  std::vector<int> indices_in(Place place) const;
  const Exprs& strides_of(ValueId value);
  Made refuse(const Node& node, const std::string& reason);

  const Graph& graph_;
  const RegionValues& values_;
  const AxisAssignment& assignment_;
  const TileOptions& options_;
  size_t value_limit_;
  TileWriter writer_;
  ExprLists lists_;
  std::unordered_map<int, AxisId> axes_;              // by leaf factor
  std::vector<std::pair<int, AxisId>> further_axes_;  // by leaf factor
  std::unordered_map<Expr, Expr> normalized_;
  std::unordered_map<uint64_t, TileValueId> made_;  // by value number and place
  std::unordered_map<ValueId, Exprs> strides_;
  std::vector<std::pair<int, IndexTerm>> stand_ins_;  // by axis
  std::optional<Unsupported> refusal_;
};

}  // namespace tilefuse
