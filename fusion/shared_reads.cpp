#include "fusion/shared_reads.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/contains.h"
#include "core/expr_algebra.h"
#include "fusion/structure.h"

namespace tilefuse {
namespace {

constexpr size_t kMostLoads = 128;      // of a buffer: a window of 11 x 11
constexpr int64_t kMostRowsAhead = 16;  // further ones are no neighbours

}  // namespace

SharedReads::SharedReads(const TileGraph& graph) {
  std::map<uint32_t, std::vector<TileValueId>> loads_of;  // by buffer
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    axes_.push_back(graph.values[v].axes);
    const auto* load = std::get_if<TileLoad>(&graph.values[v].op);
    if (load != nullptr) loads_of[load->buffer.index].push_back({v});
  }
  for (const auto& [buffer, loads] : loads_of) {
    if (loads.size() < 2 || loads.size() > kMostLoads) continue;
    for (const AxisId row : graph[loads.front()].axes) add_windows(graph, row, loads);
  }
}

// Those of one distance from the first, but for whole rows, stand in one window.
void SharedReads::add_windows(const TileGraph& graph, AxisId row, const std::vector<TileValueId>& loads) {
  const auto& first = std::get<TileLoad>(graph[loads.front()].op);
  const auto stride = stride_along(graph, first, row);
  const auto apart = stride ? stride->constant() : std::nullopt;
  if (!apart || *apart <= 0) return;
  std::map<int64_t, std::map<int64_t, TileValueId>> columns;  // rows ahead by what is left of the distance
  for (const TileValueId id : loads) {
    const auto& load = std::get<TileLoad>(graph[id].op);
    const auto distance = simplify(load.offset - first.offset).constant();
    if (!distance) continue;
    const int64_t left = ((*distance % *apart) + *apart) % *apart;
    columns[left].emplace((*distance - left) / *apart, id);
  }
  for (const auto& [left, places] : columns) {
    const int64_t ahead = places.rbegin()->first - places.begin()->first;
    if (places.size() < 2 || ahead > kMostRowsAhead) continue;
    Window& window = windows_.emplace_back(Window{row, {}, {}});
    for (const auto& [rows, id] : places) {
      window.loads.push_back(id);
      window.rows_ahead.push_back(rows);
    }
  }
}

bool SharedReads::any_along(AxisId row, AxisId lane) const {
  return std::any_of(windows_.begin(), windows_.end(), [&](const Window& window) {
    return window.row == row && contains(axes_[window.loads.front().index], lane);
  });
}

double SharedReads::share(TileValueId load, AxisId row, int64_t rows) const {
  for (const Window& window : windows_) {
    if (window.row != row) continue;
    if (std::find(window.loads.begin(), window.loads.end(), load) == window.loads.end()) continue;
    std::set<int64_t> read;
    for (const int64_t ahead : window.rows_ahead) {
      for (int64_t r = 0; r < rows; ++r) read.insert(ahead + r);
    }
    return double(read.size()) / double(rows * int64_t(window.loads.size()));
  }
  return 1;
}

}  // namespace tilefuse
