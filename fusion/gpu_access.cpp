#include "fusion/gpu_access.h"

#include <algorithm>

#include "fusion/gpu_region.h"
#include "fusion/gpu_target.h"

namespace tilefuse {
namespace {

enum class Neighbours : uint8_t { Same, Next, Apart };

// An expression at the elements that a thread takes at once: those from width * n on.
class GroupsOf {
 public:
  GroupsOf(const TileGraph& graph, AxisId lanes, int width)
      : lanes_(static_cast<int>(lanes.index)), width_(width), extents_(axis_extents(graph)) {
    extents_[lanes.index] = ceildiv(extents_[lanes.index], Expr(width));
  }

  Expr at(const Expr& e, int element) const {
    return simplify(substitute_index(e, lanes_, Expr::index(lanes_) * width_ + element), extents_);
  }
  Neighbours neighbours(const Expr& e) const {
    if (!uses_index(e, lanes_)) return Neighbours::Same;
    const Expr first = at(e, 0);
    bool are_same = true, are_next = true;
    for (int element = 1; element < width_; ++element) {
      const Expr distance = simplify(at(e, element) - first, extents_);
      are_same &= distance.is_constant(0);
      are_next &= distance.is_constant(element);
    }
    if (are_same) return Neighbours::Same;
    return are_next ? Neighbours::Next : Neighbours::Apart;
  }
  bool is_aligned(const Expr& e) const { return is_multiple_of(at(e, 0), width_); }
  // Whether it is negative for all elements or for none.
  bool has_one_sign(const Expr& e) const {
    if (neighbours(e) == Neighbours::Same) return true;
    if (neighbours(e) == Neighbours::Next) return is_multiple_of(at(e, 0), width_);
    return neighbours(-e) == Neighbours::Next && is_multiple_of(at(e, 0) + 1, width_);
  }
  bool has_one_sign(const std::vector<Expr>& all) const {
    return std::all_of(all.begin(), all.end(), [&](const Expr& e) { return has_one_sign(e); });
  }

 private:
  int lanes_;
  int width_;
  std::vector<Expr> extents_;
};

bool allows(const GroupsOf& groups, const Expr& offset, DType dtype, int width) {
  const Neighbours found = groups.neighbours(offset);
  if (found == Neighbours::Same) return true;
  return found == Neighbours::Next && groups.is_aligned(offset) &&
         width * size_in_bytes(dtype) <= kAccessBytes;
}

bool allows(const TileGraph& graph, const GroupsOf& groups, AxisId lanes, const TileValue& value, int width) {
  if (const auto* load = std::get_if<TileLoad>(&value.op)) {
    if (!groups.has_one_sign(load->guard)) return false;
    for (const IndexTerm& term : load->gathered) {
      if (varies_along(graph, term.value, lanes) || !is_multiple_of(term.stride, width)) return false;
    }
    return allows(groups, load->offset, graph[load->buffer].dtype, width);
  }
  if (const auto* index = std::get_if<TileIndex>(&value.op))
    return groups.neighbours(index->expr) == Neighbours::Same;
  const auto* predicate = std::get_if<TilePredicate>(&value.op);
  return predicate == nullptr || groups.has_one_sign(predicate->guard);
}

bool allows(const TileGraph& graph, AxisId lanes, int width, const std::vector<bool>& counts) {
  if (!is_multiple_of(graph[lanes].extent, width)) return false;
  const GroupsOf groups(graph, lanes, width);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (counts[v] && !allows(graph, groups, lanes, graph.values[v], width)) return false;
  }
  return std::all_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return allows(groups, store.offset, graph[store.buffer].dtype, width);
  });
}

}  // namespace

GpuAccesses find_wide_accesses(const TileGraph& graph, AxisId lanes, int most,
                               const std::vector<bool>& counts) {
  GpuAccesses accesses;
  accesses.widest = most;
  while (accesses.widest > 1 && !allows(graph, lanes, accesses.widest, counts)) accesses.widest /= 2;
  const GroupsOf groups(graph, lanes, accesses.widest);
  const auto is_wide = [&](const Expr& offset) {
    return accesses.widest > 1 && groups.neighbours(offset) == Neighbours::Next;
  };
  for (const TileValue& value : graph.values) {
    const auto* load = std::get_if<TileLoad>(&value.op);
    accesses.wide_loads.push_back(load != nullptr && is_wide(load->offset));
  }
  for (const TileStore& store : graph.stores) accesses.wide_stores.push_back(is_wide(store.offset));
  return accesses;
}

bool is_wide_along(const TileGraph& graph, TileValueId load, AxisId axis, int width) {
  if (!is_multiple_of(graph[axis].extent, width)) return false;
  const GroupsOf groups(graph, axis, width);
  const auto& op = std::get<TileLoad>(graph[load].op);
  return groups.neighbours(op.offset) == Neighbours::Next && allows(graph, groups, axis, graph[load], width);
}

GpuAccesses find_wide_accesses(const TileGraph& graph, AxisId lanes) {
  constexpr int kMost = kAccessBytes / 2;  // of 16-bit elements; those of 8 bits would fill registers
  return find_wide_accesses(graph, lanes, kMost, std::vector<bool>(graph.values.size(), true));
}

}  // namespace tilefuse
