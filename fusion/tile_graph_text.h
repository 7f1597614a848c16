// The lines of a tile graph's text form, each with what it shows: to_text joins them, verify annotates them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

struct TileGraphLine {
  std::string text;
  std::optional<TileValueId> value = std::nullopt;  // the one this line makes
  std::optional<size_t> store = std::nullopt;       // the store this line is
};

// Prints broken graphs too: an operand outside the table shows as "%?12".
std::vector<TileGraphLine> text_lines(const TileGraph& graph);

}  // namespace tilefuse
