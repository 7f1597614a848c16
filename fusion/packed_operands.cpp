#include "fusion/packed_operands.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/contains.h"
#include "fusion/contraction.h"
#include "fusion/dots.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

// What a value is made of.
struct Source {
  bool reads_inputs_only = true;
  std::vector<TileValueId> loads;
};
Source source_of(const TileGraph& graph, TileValueId value) {
  Source source;
  std::vector<TileValueId> open = {value};
  std::set<TileValueId> seen;
  while (!open.empty()) {
    const TileValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const auto* load = std::get_if<TileLoad>(&graph[id].op);
    if (load != nullptr) source.loads.push_back(id);
    const bool is_scratch = load != nullptr && graph[load->buffer].role == Buffer::Role::Scratch;
    if (is_scratch || std::holds_alternative<TileReduce>(graph[id].op)) source.reads_inputs_only = false;
    for (const TileValueId operand : operands_of(graph[id])) open.push_back(operand);
  }
  return source;
}

class PackFinder {
 public:
  PackFinder(const TileGraph& graph, const std::vector<AxisId>& shared, std::optional<AxisId> lanes,
             DotKind dots)
      : graph_(graph), shared_(shared), lanes_(lanes), dots_(dots) {}
  std::vector<PackedOperand> run();

 private:
  const Source& source(TileValueId value);
  bool is_contiguous(TileValueId load, AxisId axis) const;
  bool has_vectors(const Source& source, const std::vector<AxisId>& result) const;
  bool stays_through_task(TileValueId operand, TileValueId sum) const;
  bool is_plain(TileValueId operand) const;
  bool is_reused(TileValueId operand, TileValueId sum) const;
  std::optional<AxisId> contiguous_axis(const Source& source) const;
  void turn(TileValueId sum, const std::vector<TileValueId>& factors);
  void compute_once(TileValueId sum, const std::vector<TileValueId>& factors);
  void align(TileValueId operand, TileValueId with);

  const TileGraph& graph_;
  const std::vector<AxisId>& shared_;
  std::optional<AxisId> lanes_;
  DotKind dots_;
  std::map<TileValueId, AxisId> packed_;
  std::map<TileValueId, Source> sources_;
};

const Source& PackFinder::source(TileValueId value) {
  const auto known = sources_.find(value);
  return known != sources_.end() ? known->second
                                 : sources_.emplace(value, source_of(graph_, value)).first->second;
}

bool PackFinder::is_contiguous(TileValueId load, AxisId axis) const {
  const auto stride = stride_along(graph_, std::get<TileLoad>(graph_[load].op), axis);
  return stride && stride->is_constant(1);
}

// Vectors along an axis of the result are read as they lie, or as an earlier nest has laid them.
bool PackFinder::has_vectors(const Source& source, const std::vector<AxisId>& result) const {
  if (!source.reads_inputs_only) return true;
  return std::any_of(source.loads.begin(), source.loads.end(), [&](TileValueId load) {
    return std::any_of(result.begin(), result.end(), [&](AxisId axis) { return is_contiguous(load, axis); });
  });
}

bool PackFinder::stays_through_task(TileValueId operand, TileValueId sum) const {
  const std::vector<AxisId>& reduced = std::get<TileReduce>(graph_[sum].op).axes;
  const std::vector<AxisId>& axes = graph_[operand].axes;
  const bool is_reduced =
      std::any_of(axes.begin(), axes.end(), [&](AxisId a) { return contains(reduced, a); });
  return is_reduced && std::all_of(axes.begin(), axes.end(), [&](AxisId axis) {
           return contains(shared_, axis) || contains(reduced, axis);
         });
}

bool PackFinder::is_plain(TileValueId operand) const {
  const auto* load = std::get_if<TileLoad>(&graph_[operand].op);
  const DType dtype = graph_[operand].dtype;
  return load != nullptr && load->guard.empty() && load->gathered.empty() && info(dtype).compute == dtype;
}

// Along an axis of the result that is more than one element.
bool PackFinder::is_reused(TileValueId operand, TileValueId sum) const {
  const std::vector<AxisId>& result = graph_[sum].axes;
  return std::any_of(result.begin(), result.end(), [&](AxisId axis) {
    return !contains(graph_[operand].axes, axis) && !graph_[axis].extent.is_constant(1);
  });
}

// Of the load that varies the most.
std::optional<AxisId> PackFinder::contiguous_axis(const Source& source) const {
  std::optional<AxisId> found;
  size_t most = 0;
  for (const TileValueId load : source.loads) {
    for (const AxisId axis : graph_[load].axes) {
      if (!is_contiguous(load, axis) || graph_[load].axes.size() <= most) continue;
      found = axis;
      most = graph_[load].axes.size();
    }
  }
  return found;
}

void PackFinder::turn(TileValueId sum, const std::vector<TileValueId>& factors) {
  const std::vector<AxisId>& result = graph_[sum].axes;
  for (const TileValueId factor : factors) {
    if (has_vectors(source(factor), result) || packed_.contains(factor)) return;
  }
  for (const TileValueId factor : factors) {
    if (!stays_through_task(factor, sum)) continue;
    const std::vector<AxisId>& axes = graph_[factor].axes;
    const auto last =
        std::find_if(axes.rbegin(), axes.rend(), [&](AxisId axis) { return contains(shared_, axis); });
    if (last == axes.rend()) continue;
    packed_.emplace(factor, lanes_ && contains(axes, *lanes_) ? *lanes_ : *last);
    return;
  }
}

void PackFinder::compute_once(TileValueId sum, const std::vector<TileValueId>& factors) {
  for (const TileValueId factor : factors) {
    const Source& made_of = source(factor);
    if (!made_of.reads_inputs_only || packed_.contains(factor) || is_plain(factor)) continue;
    if (has_vectors(made_of, graph_[sum].axes) || !is_reused(factor, sum)) continue;
    if (const auto last = contiguous_axis(made_of)) packed_.emplace(factor, *last);
  }
}

// `with` was made by other nests, its vectors along the lanes.
void PackFinder::align(TileValueId operand, TileValueId with) {
  const AxisId lanes = *lanes_;
  const std::vector<AxisId>& axes = graph_[operand].axes;
  if (!contains(axes, lanes) || !contains(graph_[with].axes, lanes) || packed_.contains(operand)) return;
  const Source& made_of = source(operand);
  if (!made_of.reads_inputs_only || source(with).reads_inputs_only) return;
  const bool is_across = std::any_of(made_of.loads.begin(), made_of.loads.end(), [&](TileValueId load) {
    const std::vector<AxisId>& own = graph_[load].axes;
    return contains(own, lanes) && std::any_of(own.begin(), own.end(), [&](AxisId axis) {
             return !contains(shared_, axis) && contains(graph_[with].axes, axis) &&
                    is_contiguous(load, axis);
           });
  });
  if (is_across) packed_.emplace(operand, lanes);
}

std::vector<PackedOperand> PackFinder::run() {
  std::set<TileValueId> products;
  std::set<AxisId> walked;  // by a reduction
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (const auto* reduce = std::get_if<TileReduce>(&graph_.values[v].op)) {
      walked.insert(reduce->axes.begin(), reduce->axes.end());
    }
    const auto contraction = contraction_of(graph_, {v});
    if (!contraction) continue;
    products.insert(contraction->product);
    if (dots_ != DotKind::None && dots_of_sum(graph_, {v}) == dots_) continue;  // its nest packs them
    const std::vector<TileValueId>& factors = graph_[contraction->product].operands;
    turn({v}, factors);
    compute_once({v}, factors);
  }
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const TileValue& value = graph_.values[v];
    // Scores, on their way to a reduction over what they vary along beside the shared axes.
    const bool is_walked = std::any_of(value.axes.begin(), value.axes.end(), [&](AxisId axis) {
      return walked.contains(axis) && !contains(shared_, axis);
    });
    const bool meets = std::holds_alternative<TileMap>(value.op) && !products.contains({v});
    if (!lanes_ || !meets || !is_walked) continue;
    for (const TileValueId operand : value.operands) {
      for (const TileValueId with : value.operands) align(operand, with);
    }
  }
  std::vector<PackedOperand> found;
  found.reserve(packed_.size());
  for (const auto& [value, contiguous] : packed_) found.push_back({value, contiguous});
  return found;
}

}  // namespace

std::vector<PackedOperand> packed_operands(const TileGraph& graph, const std::vector<AxisId>& shared,
                                           std::optional<AxisId> lanes, DotKind dots) {
  return PackFinder(graph, shared, lanes, dots).run();
}

}  // namespace tilefuse
