// A tile graph whose reduced axis is cut into pieces of equal length, which a new first axis numbers.
//
//   axes i: 4, r: 5003              =>  axes part: 8, i: 4, r: 632
//   %x = load %x[i*5003 + r]            %x = load %x[part*632 + i*5003 + r] if [-part*632 - r + 5002] else 0
//   %s = reduce.sum(%x) over r : [i]    %s = reduce.sum(where(%in_part, %x, 0)) over r : [part, i]
#pragma once
#include <functional>
#include <optional>

#include "fusion/graph_copy.h"

namespace tilefuse {

struct Pieces {
  AxisId axis;  // of the graph that is cut
  Expr length;  // the last piece may be shorter
  Expr count = 1;
  bool is_even = false;  // all pieces are of this length
};
// Of so many parts or fewer; a length is a multiple of 8. Where the extent is no number, the last ones may be
// empty.
Pieces pieces_of(const TileGraph& graph, AxisId axis, int parts);
// As many as it takes; none is empty.
Pieces pieces_of_length(const TileGraph& graph, AxisId axis, int64_t length);

// What the last piece has behind the end of the axis.
enum class BeyondEnd : uint8_t {
  Fill,      // nothing is loaded there
  LastAgain  // the last element again, which is stored once more
};

// Builds the graph. Values that vary along the axis, and what is computed of reductions over it, vary along
// the pieces.
class PiecesOfGraph {
 public:
  // Something else in the place of a value, in the graph that is made.
  using Replace = std::function<std::optional<TileValueId>(TileValueId, PiecesOfGraph&)>;

  PiecesOfGraph(const TileGraph& graph, const Pieces& pieces, std::string name,
                BeyondEnd beyond = BeyondEnd::Fill);
  void copy(const std::vector<TileValueId>& ids, const Replace& replace = {});  // in order
  // What these take in, in front of the first of them.
  void mask_elements(const std::vector<TileValueId>& reductions);
  // A buffer with a place for each piece, and for each element along the axes of a value of the graph.
  void store(TileValueId made, const Buffer& buffer, const std::vector<AxisId>& axes);
  void store(const TileStore& store);  // of the graph; requires pieces of one length, or LastAgain
  BufferId add_buffer(const Buffer& buffer) { return copy_.add_buffer(buffer); }
  TileValueId made(TileValueId id) const { return copy_.made(id); }
  TileValueId add(TileValue value) { return copy_.add(std::move(value)); }
  std::vector<AxisId> domain(const std::vector<TileValueId>& operands) const {  // of a map
    return domain_of(copy_.to_, TileMap{}, operands);
  }
  const TileValue& operator[](TileValueId made) const { return copy_.to_[made]; }
  TileGraph finish(std::string_view stage) { return copy_.finish(stage); }

 private:
  Expr moved(const Expr& e) const;
  void move(std::vector<Expr>& exprs) const;
  bool varies(TileValueId id) const;
  TileValue moved_value(TileValueId id);
  TileValueId masked_element(TileValueId reduction);
  TileValueId masked(const std::string& name, TileValueId element, ReduceKind kind);

  const TileGraph& graph_;
  const Pieces& pieces_;
  BeyondEnd beyond_;
  GraphCopy copy_;
  std::vector<Expr> extents_;
  Expr place_;  // of an element, in the graph that is cut
  Expr left_;   // of the walk, behind an element
  std::optional<TileValueId> inside_;
  std::map<TileValueId, TileValueId> elements_;  // that are masked, by reduction
};

// Of a value in each piece: what is left in memory between the kernel of the pieces and the next one.
Buffer buffer_of_pieces(const TileGraph& graph, const Pieces& pieces, const std::string& name, DType dtype,
                        const std::vector<AxisId>& axes, Buffer::Role role);

// Of such a buffer, what all pieces have of a value: `part` numbers them.
TileValueId load_pieces(GraphCopy& copy, const TileGraph& graph, const Buffer& buffer, TileValueId of,
                        AxisId part);

// Whose identity elements beyond the last one have: that of the extreme, where its position is wanted.
ReduceKind value_kind(ReduceKind kind);

// What these values need, themselves included, in order; nothing behind one at which it stops.
std::vector<TileValueId> needed_values(const TileGraph& graph, const std::vector<TileValueId>& roots,
                                       const std::function<bool(TileValueId)>& stops_at);

}  // namespace tilefuse
