// Operands that are packed once: what the kernel that packs one is made of, and what the host has to know.
//
//   stage %w along k, 16 lanes, unroll 4      grid of the pack: j = 64; tiles of 64 x k elements
#pragma once
#include "codegen/launch_lowering.h"
#include "codegen/region_program.h"
#include "fusion/schedule.h"
#include "fusion/structure.h"

namespace tilefuse {

// A tile for each panel of the one operand that it stages.
Schedule pack_schedule(const TileGraph& graph, const Structure& structure, const Schedule& schedule,
                       const StagedLoad& staged);

// Without its launch.
Pack pack_of(const LoweringFacts& packing);

}  // namespace tilefuse
