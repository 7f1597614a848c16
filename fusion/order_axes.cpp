#include "fusion/order_axes.h"

#include <algorithm>
#include <cmath>

#include "fusion/replace_axes.h"

namespace tilefuse {
namespace {

// Stands for a size that is only known at run time; the order must not depend on a call's sizes.
constexpr int64_t kTypicalSize = 2048;

double estimate(const Expr& e) {
  return std::abs(static_cast<double>(evaluate(e, {}, [](const std::string&) { return kTypicalSize; })));
}

struct Access {
  double elements = 1;
  std::vector<std::pair<double, uint32_t>> walked;  // stride, axis; largest stride first
};

Access access_of(const TileGraph& graph, const Expr& offset, const std::vector<AxisId>& axes) {
  Access access;
  for (const AxisId axis : axes) {
    const double extent = estimate(graph[axis].extent);
    access.elements *= extent;
    const auto affine = affine_in(offset, static_cast<int>(axis.index));
    if (!affine || !indices_of(affine->coefficient).empty()) continue;
    if (affine->coefficient != 0) access.walked.emplace_back(estimate(affine->coefficient), axis.index);
  }
  std::stable_sort(access.walked.begin(), access.walked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return access;
}

std::vector<Access> accesses_by_size(const TileGraph& graph) {
  std::vector<Access> accesses;
  for (const TileStore& store : graph.stores) {
    std::vector<AxisId> axes;
    for (const int index : indices_of(store.offset)) axes.push_back({static_cast<uint32_t>(index)});
    accesses.push_back(access_of(graph, store.offset, axes));
  }
  for (const TileValue& value : graph.values) {
    const TileLoad* load = std::get_if<TileLoad>(&value.op);
    if (load != nullptr) accesses.push_back(access_of(graph, load->offset, value.axes));
  }
  std::stable_sort(accesses.begin(), accesses.end(),
                   [](const Access& a, const Access& b) { return a.elements > b.elements; });
  return accesses;
}

// Axes not placed yet go right before the next inner axis of the access that is, or last.
void place(const Access& access, std::vector<uint32_t>& order) {
  auto position = order.end();
  for (auto walked = access.walked.rbegin(); walked != access.walked.rend(); ++walked) {
    const auto found = std::find(order.begin(), order.end(), walked->second);
    position = found != order.end() ? found : order.insert(position, walked->second);
  }
}

// Those in some domain, reduction or store; what stood in for an index while the graph was made is in none.
std::vector<bool> used_axes(const TileGraph& graph) {
  std::vector<bool> used(graph.axes.size(), false);
  auto use = [&](const std::vector<AxisId>& axes) {
    for (const AxisId axis : axes) used[axis.index] = true;
  };
  for (const TileValue& value : graph.values) {
    use(value.axes);
    if (const TileReduce* reduce = std::get_if<TileReduce>(&value.op)) use(reduce->axes);
  }
  for (const TileStore& store : graph.stores) {
    for (const int index : indices_of(store.offset)) used[static_cast<size_t>(index)] = true;
    if (store.scatter) use(store.scatter->over);
  }
  return used;
}

AxisReplacement reordered(const TileGraph& graph, const std::vector<uint32_t>& order) {
  AxisReplacement replacement;
  replacement.expr.resize(graph.axes.size());
  replacement.renamed.resize(graph.axes.size());
  for (uint32_t position = 0; position < order.size(); ++position) {
    replacement.axes.push_back(graph.axes[order[position]]);
    replacement.expr[order[position]] = Expr::index(static_cast<int>(position));
    replacement.renamed[order[position]] = AxisId{position};
  }
  return replacement;
}

}  // namespace

Result<TileGraph> order_axes(const TileGraph& graph) {
  std::vector<uint32_t> order;
  for (const Access& access : accesses_by_size(graph)) place(access, order);
  const std::vector<bool> used = used_axes(graph);
  for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {  // in no affine access
    if (used[axis] && std::find(order.begin(), order.end(), axis) == order.end()) {
      order.insert(order.begin(), axis);
    }
  }
  TileGraph ordered = replace_axes(graph, reordered(graph, order));
  for (const TileValue& value : ordered.values) {
    const TileReduce* reduce = std::get_if<TileReduce>(&value.op);
    if (reduce != nullptr && !std::is_sorted(reduce->axes.begin(), reduce->axes.end())) {
      return Unsupported{"cannot lower %" + value.name +
                         " in one tile graph: it counts positions in another order than memory is walked"};
    }
  }
  return ordered;
}

}  // namespace tilefuse
