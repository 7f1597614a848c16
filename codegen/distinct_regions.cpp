#include "codegen/distinct_regions.h"

#include <algorithm>

#include "core/structural_hash.h"

namespace tilefuse {
namespace {

constexpr size_t kHashDigits = 16;

void add_symbols(const std::vector<Expr>& exprs, std::vector<std::string>& symbols) {
  for (const Expr& expr : exprs) {
    for (const std::string& symbol : symbols_of(expr)) {
      if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) symbols.push_back(symbol);
    }
  }
}

// By first use.
std::string symbols_text(const Graph& graph, const RegionNodes& region) {
  std::vector<std::string> symbols;
  for (ValueId input : region.inputs) {
    add_symbols(graph[input].type.shape, symbols);
    if (graph[input].strides) add_symbols(*graph[input].strides, symbols);
  }
  for (NodeId node : region.nodes) {
    for (ValueId value : graph[node].results) add_symbols(graph[value].type.shape, symbols);
  }
  std::string text;
  for (const std::string& symbol : symbols) text += "," + symbol;
  return text;
}

std::string pins_text(const std::map<std::string, Pins>& pins, const std::string& region) {
  std::string text;
  const auto found = pins.find(region);
  if (found == pins.end()) return text;
  for (const auto& [decision, value] : found->second.decisions) {
    text.append(";").append(decision).append("=").append(value);
  }
  return text;
}

}  // namespace

DistinctRegions find_distinct_regions(const Graph& graph, const Partition& partition,
                                      const std::map<std::string, Pins>& pins) {
  DistinctRegions distinct;
  std::map<std::string, int> known;
  for (size_t r = 0; r < partition.regions.size(); ++r) {
    const Region& region = partition.regions[r];
    const std::string key = to_text(region.hash) + symbols_text(graph, region) + pins_text(pins, region.name);
    const auto [found, is_new] = known.try_emplace(key, int(distinct.representative.size()));
    distinct.region_of.push_back(found->second);
    if (!is_new) continue;
    distinct.representative.push_back(int(r));
    distinct.hash.push_back(to_text(hash_bytes(key)).substr(0, kHashDigits));
  }
  return distinct;
}

}  // namespace tilefuse
