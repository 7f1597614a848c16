// What stands in the comment above a kernel.
#pragma once
#include <string>

#include "fusion/tile_graph.h"

namespace tilefuse {

std::string fused_ops(
    const TileGraph& graph);  // in order: "reduce.max, sub, exp"; "copy" where there is none
// The lines of a schedule's text form, joined: "rows 1; split 1". Its cost is no fact of the kernel.
std::string decisions_of(const std::string& schedule_text);

}  // namespace tilefuse
