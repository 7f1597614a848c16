#include "tools/stages.h"

#include <algorithm>

#include "core/graph.h"
#include "core/nearest_name.h"
#include "core/result.h"
#include "core/structural_hash.h"
#include "fusion/structure.h"
#include "fusion/whole_graph_region.h"

namespace tilefuse {
namespace {

std::string run_graph(const StageOptions&, const std::string& input) {
  const Graph graph = parse_graph(input);
  verify(graph, "parse_graph");
  return to_text(graph);
}

std::string run_hash(const StageOptions&, const std::string& input) {
  return to_text(structural_hash(parse_graph(input))) + "\n";
}

// The whole graph as one region.
std::string run_tiles(const StageOptions&, const std::string& input) {
  const Graph graph = parse_graph(input);
  const Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
  return tiles ? to_text(*tiles) : "unsupported: " + tiles.unsupported().reason + "\n";
}

std::string run_structure(const StageOptions&, const std::string& input) {
  const TileGraph tiles = parse_tile_graph(input);
  const Result<Structure> structure = analyze_structure(tiles);
  return structure ? to_text(*structure, tiles) : "unsupported: " + structure.unsupported().reason + "\n";
}

// The item with that name, or a UserError that names the nearest.
template <class Item>
const Item& named(const std::vector<Item>& items, const std::string& name, const std::string& what) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.name == name; });
  if (found != items.end()) return *found;
  std::vector<std::string_view> names;
  names.reserve(items.size());
  for (const Item& item : items) names.push_back(item.name);
  const auto nearest = nearest_name(name, names);
  throw UserError("there is no " + what + " '" + name + "'" +
                  (nearest ? "; did you mean '" + *nearest + "'?" : std::string()));
}

}  // namespace

const std::vector<Stage>& stages() {
  static const std::vector<Stage> table = {
      {"graph", "parse, verify and print a graph", {}, run_graph},
      {"hash", "the structural hash of a graph", {}, run_hash},
      {"tiles", "the tile graph of a graph taken as one region", {}, run_tiles},
      {"structure", "the loop nest that a tile graph needs", {}, run_structure},
  };
  return table;
}

std::string run_stage(const std::string& name, const StageOptions& options, const std::string& input) {
  const Stage& stage = named(stages(), name, "stage");
  for (const auto& [option, value] : options) named(stage.options, option, "option of stage " + name);
  return stage.run(options, input);
}

}  // namespace tilefuse
