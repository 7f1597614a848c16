// What the parts of a launch's lowering know of a region from the start.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/region_program.h"
#include "fusion/chain.h"
#include "fusion/dots.h"
#include "fusion/expand_online.h"
#include "fusion/schedule.h"
#include "fusion/structure.h"

namespace tilefuse {

struct LoweringFacts {
  const TileGraph& graph;
  const Schedule& schedule;
  Structure structure;
  std::vector<Expr> extents;
  std::vector<std::string> symbols;   // in the order of `sizes`
  std::vector<Workspace> workspaces;  // with split > 1: one per reduction, [part][parallel axes]
  std::optional<AxisId> row_axis;     // of which `rows` elements go side by side
  int rows = 1;
  std::optional<AxisId> column_axis;  // of which `columns` go side by side, around the rows
  int columns = 1;
  bool lanes_are_parallel = false;
  int first_pack = 0;                      // number of the first operand that is packed once
  std::vector<Dot> dots = {};              // by reduction, where all are summed several elements at a time
  bool in_tiles = false;                   // and of rows of matrix tiles
  const ExpandedOnline* online = nullptr;  // an online walk; `graph` is the expanded one
  const Chain* chain = nullptr;            // the region's, or the one that `graph` is a nest of
  std::vector<Expr> nothing = {};          // of a nest: where its walk takes in nothing
  const Axis* walked = nullptr;            // of a nest in a loop over blocks: the axis that is cut
};

enum class LaunchPart : uint8_t {
  Whole,    // the region in one launch
  Partial,  // reductions of one part of the outermost reduced axis, into workspaces
  Combine,  // the parts, in order, and what follows them
  Pack,     // the panels of a constant, for all calls
};

LoweringFacts collect_lowering_facts(const TileGraph& graph, const Schedule& schedule);  // of plain walks
bool starts_from_panel(const LoweringFacts& facts, TileValueId panel);                   // some sum (dots.h)

}  // namespace tilefuse
