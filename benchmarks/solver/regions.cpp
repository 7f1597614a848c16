#include "benchmarks/solver/regions.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/result.h"
#include "fusion/chain.h"
#include "fusion/contraction.h"
#include "fusion/launches.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

bool has_unit(const Access& access) {
  return std::any_of(access.along.begin(), access.along.end(),
                     [](const AxisAccess& along) { return along.kind == AxisAccess::Kind::Unit; });
}

// Two accesses that vary along the same axes are contiguous along different ones.
bool moves_data(const RegionFacts& facts) {
  for (const Access& a : facts.accesses) {
    for (const Access& b : facts.accesses) {
      if (!has_unit(a) || !has_unit(b)) continue;
      for (size_t axis = 0; axis < a.along.size(); ++axis) {
        const bool differ =
            a.along[axis].kind == AxisAccess::Kind::Unit && b.along[axis].kind == AxisAccess::Kind::Strided;
        if (differ) return true;
      }
    }
  }
  return false;
}

std::string family_of(const TileGraph& graph) {
  if (takes_launches(graph)) {
    const Result<std::vector<TileGraph>> launches = launches_of(graph);
    return launches ? family_of((*launches)[kMainLaunch]) : "refused";
  }
  const Result<RegionFacts> facts = collect_region_facts(graph, {});
  if (!facts) return find_chain_axes(graph) ? "chain" : "refused";
  if (has_contraction(graph)) return "product";
  if (!facts->structure.reductions.empty()) return "reduction";
  return moves_data(*facts) ? "transpose" : "map";
}

}  // namespace

std::vector<BenchmarkRegion> read_regions(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError("cannot read " + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<BenchmarkRegion> regions;
  for (size_t at = text.find("tile_graph "); at != std::string::npos;) {
    const size_t next = text.find("\ntile_graph ", at);
    TileGraph graph = parse_tile_graph(text.substr(at, next == std::string::npos ? next : next - at));
    const std::string family = family_of(graph);
    regions.push_back({family, std::move(graph)});
    at = next == std::string::npos ? next : next + 1;
  }
  return regions;
}

}  // namespace tilefuse
