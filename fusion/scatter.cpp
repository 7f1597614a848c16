#include "fusion/scatter.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/expr_terms.h"
#include "fusion/coalesce_axes.h"
#include "fusion/order_axes.h"

namespace tilefuse {
namespace {

// An offset as a number in a mixed base: a digit in [0, extent) counts `stride`.
struct Digit {
  Expr stride, extent;
  std::optional<AxisId> axis;  // absent: an index
};

// nullopt: the offset is no sum of multiples of axes.
std::optional<std::vector<Digit>> digits_of(const TileGraph& graph, const TileStore& store) {
  std::vector<Digit> digits;
  Expr rest = store.offset;
  for (const int index : indices_of(store.offset)) {
    const AxisId axis{static_cast<uint32_t>(index)};
    const auto affine = affine_in(rest, index);
    if (!affine || !indices_of(affine->coefficient).empty()) return std::nullopt;
    digits.push_back({affine->coefficient, graph[axis].extent, axis});
    rest = affine->rest;
  }
  for (const IndexTerm& term : store.scatter->at) digits.push_back({term.stride, term.extent, std::nullopt});
  std::erase_if(digits, [](const Digit& digit) { return digit.extent.is_constant(1); });
  return digits;
}

// Whether each digit can be read from the sum: it counts at least as much as those below it reach.
bool are_told_apart(std::vector<Digit> digits) {
  Expr reach = 1;
  while (!digits.empty()) {
    const auto lowest = std::find_if(digits.begin(), digits.end(), [&](const Digit& digit) {
      return std::all_of(digits.begin(), digits.end(), [&](const Digit& other) {
        return &other == &digit || proves_nonnegative(other.stride - digit.stride * digit.extent, {});
      });
    });
    if (lowest == digits.end() || !proves_nonnegative(lowest->stride - reach, {})) return false;
    reach = lowest->stride * lowest->extent;
    digits.erase(lowest);
  }
  return true;
}

// What divides the index of an axis: 0 nothing, or different numbers.
class Divisor {
 public:
  explicit Divisor(const Expr& axis) : axis_(axis) {}
  int64_t of(const Expr& e) {
    visit(e);
    return is_single_ ? divisor_ : 0;
  }

 private:
  void visit(const Expr& e) {
    for (const Expr::Term& term : e.terms()) {
      for (const Expr::Atom& atom : term.factors) visit(atom);
    }
  }
  void visit(const Expr::Atom& atom) {
    if (atom.kind == Expr::AtomKind::FloorDiv && atom.args[0] == axis_) {
      const int64_t divisor = atom.args[1].constant().value_or(0);
      is_single_ = is_single_ && (divisor_ == 0 || divisor_ == divisor);
      divisor_ = divisor;
    }
    for (const Expr& argument : atom.args) visit(argument);
  }

  const Expr& axis_;
  int64_t divisor_ = 0;
  bool is_single_ = true;
};

// Elements of the axis that a scatter does not tell apart, where its place counts blocks of them; else 1.
int64_t block_along(const TileGraph& graph, const Expr& offset, AxisId axis) {
  const Expr index = Expr::index(static_cast<int>(axis.index));
  const int64_t block = Divisor(index).of(offset);
  if (block <= 1) return 1;
  std::vector<Expr> extents = axis_extents(graph);
  extents[axis.index] = ceildiv(extents[axis.index], block);
  extents.emplace_back(block);
  const Expr inside = Expr::index(static_cast<int>(graph.axes.size()));
  const auto at = [&](const Expr& element) {
    return simplify(substitute_index(offset, static_cast<int>(axis.index), element), extents);
  };
  return at(index * block + inside) == at(index * block) ? block : 1;
}

// Axes that its places count blocks of are taken to be so many blocks long.
TileGraph in_blocks(TileGraph graph, TileStore& store, std::map<AxisId, int64_t>& blocks) {
  for (const AxisId axis : store.scatter->over) {
    const int64_t block = block_along(graph, store.offset, axis);
    if (block == 1) continue;
    blocks[axis] = block;
    graph.axes[axis.index].extent = ceildiv(graph[axis].extent, block);
    const Expr index = Expr::index(static_cast<int>(axis.index));
    store.offset = simplify(substitute_index(store.offset, static_cast<int>(axis.index), index * block),
                            axis_extents(graph));
  }
  return graph;
}

// By axis: within how many elements they meet.
std::map<AxisId, int64_t> meeting_axes(const TileGraph& whole, TileStore store) {
  std::map<AxisId, int64_t> blocks, meeting;
  const TileGraph graph = in_blocks(whole, store, blocks);
  for (const AxisId axis : store.scatter->over) {
    if (!whole[axis].extent.is_constant(1)) meeting[axis] = 0;
  }
  const auto digits = digits_of(graph, store);
  if (!digits || !are_told_apart(*digits)) return meeting;
  for (const Digit& digit : *digits) {
    if (!digit.axis) continue;
    meeting.erase(*digit.axis);
    if (blocks.contains(*digit.axis)) meeting[*digit.axis] = blocks[*digit.axis];
  }
  return meeting;
}

// With Assign the last one stays.
std::optional<Unsupported> check_order(const TileGraph& graph, const TileStore& store) {
  if (!store.scatter || store.scatter->mode != ScatterMode::Assign) return std::nullopt;
  std::vector<AxisId> meeting = store.scatter->over;
  const auto meets = meeting_axes(graph, store);
  std::erase_if(meeting, [&](AxisId axis) { return !meets.contains(axis); });
  const bool is_reduced = std::any_of(graph.values.begin(), graph.values.end(), [&](const TileValue& value) {
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    return reduce != nullptr && std::any_of(meeting.begin(), meeting.end(), [&](AxisId axis) {
             return std::binary_search(reduce->axes.begin(), reduce->axes.end(), axis);
           });
  });
  if (std::is_sorted(meeting.begin(), meeting.end()) && !is_reduced) return std::nullopt;
  return Unsupported{"cannot assign to %" + graph[store.buffer].name +
                     " in this region: it would be in another order than memory is walked"};
}

std::optional<Unsupported> check_before(const TileGraph& before) {
  for (const TileValue& value : before.values) {
    if (!std::holds_alternative<TileReduce>(value.op) && !std::holds_alternative<TileScan>(value.op))
      continue;
    return Unsupported{"cannot scatter into %" + before[before.stores[0].buffer].name + " in this region: %" +
                       value.name + ", which is there before, is reduced in it"};
  }
  return std::nullopt;
}

}  // namespace

std::vector<MeetingAxis> meeting_axes(const TileGraph& graph) {
  std::map<AxisId, int64_t> all;
  for (const TileStore& store : graph.stores) {
    if (!store.scatter) continue;
    for (const auto& [axis, within] : meeting_axes(graph, store)) {
      const auto [known, is_new] = all.try_emplace(axis, within);
      if (!is_new && known->second != within) known->second = 0;
    }
  }
  std::vector<MeetingAxis> meeting;
  meeting.reserve(all.size());
  for (const auto& [axis, within] : all) meeting.push_back({axis, within});
  return meeting;
}

bool scatters_in_blocks(const TileGraph& graph) {
  const std::vector<MeetingAxis> meeting = meeting_axes(graph);
  return std::any_of(meeting.begin(), meeting.end(), [](const MeetingAxis& axis) { return axis.within > 0; });
}

int64_t sharing_a_place(const TileGraph& graph, const TileStore& scatter, AxisId axis) {
  const bool is_told_by_data =
      std::any_of(scatter.scatter->at.begin(), scatter.scatter->at.end(), [&](const IndexTerm& term) {
        return std::binary_search(graph[term.value].axes.begin(), graph[term.value].axes.end(), axis);
      });
  if (is_told_by_data) return 1;
  const bool is_told = uses_index(scatter.offset, static_cast<int>(axis.index));
  return is_told ? block_along(graph, scatter.offset, axis) : 0;
}

int64_t least_task(const TileGraph& graph, AxisId axis) {
  for (const MeetingAxis& meeting : meeting_axes(graph)) {
    if (meeting.axis == axis) return std::max<int64_t>(1, meeting.within);
  }
  return 1;
}

bool makes_what_it_scatters_into(const TileGraph& graph) {
  return std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& store) {
    return store.scatter &&
           std::any_of(graph.stores.begin(), graph.stores.end(), [&](const TileStore& other) {
             return !other.scatter && other.buffer == store.buffer;
           });
  });
}

Result<std::vector<TileGraph>> launches_of_scatter(const TileGraph& graph) {
  std::set<BufferId> targets;
  for (const TileStore& store : graph.stores) {
    if (store.scatter) targets.insert(store.buffer);
  }
  const auto is_before = [&](const TileStore& store) {
    return !store.scatter && targets.contains(store.buffer);
  };
  TileGraph before = graph, writes = graph;
  std::erase_if(before.stores, [&](const TileStore& store) { return !is_before(store); });
  std::erase_if(writes.stores, is_before);
  before.name += "_before";
  writes.name += "_scatter";
  std::vector<TileGraph> launches;
  for (TileGraph* part : {&before, &writes}) {
    Result<TileGraph> ordered = order_axes(without_unneeded(std::move(*part)));
    if (!ordered) return ordered.unsupported();
    launches.push_back(coalesce_axes(*std::move(ordered)));
    for (const TileStore& store : launches.back().stores) {
      if (auto refusal = check_order(launches.back(), store)) return *std::move(refusal);
    }
  }
  if (auto refusal = check_before(launches[0])) return *std::move(refusal);
  return launches;
}

}  // namespace tilefuse
