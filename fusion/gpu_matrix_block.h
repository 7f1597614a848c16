// What kernels on matrix instructions have in common, whatever they multiply (gpu_product.h, gpu_chain.h): a
// block copies pieces of its factors ahead, in stages, while its warps multiply what has arrived.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/text_cursor.h"
#include "fusion/gpu_occupancy.h"
#include "fusion/matrix_instruction.h"
#include "fusion/schedule.h"

namespace tilefuse {

inline constexpr int kMatrixRows = 16;  // of the matrices of one instruction, and its steps
inline constexpr int kGroupStep = 64;   // along k, of pieces that warpgroups multiply: lines of 128 bytes
inline constexpr int kFewestGroupStages = 3;  // of which two are being multiplied
inline constexpr int kChunkElements = 8;      // of 16 bits, in the 16 bytes that a thread copies at a time
// With a warpgroup that copies by tensor maps: bytes of the two barriers of a stage, rows and columns of the
// smallest piece (lines of 128 bytes), most warpgroups beside it; registers of a thread that multiplies, and
// of all threads at the launch, where there are two of them.
inline constexpr int kTurnBarrierBytes = 16;  // of two groups that take turns
inline constexpr int kStageBarrierBytes = 16, kBulkLine = 64, kMostBulkGroups = 2;
inline constexpr int kBulkRegisters = 232, kBulkLaunchRegisters = 168;
// Of a warp that gathers results: 16 x 64 sums, and registers of a thread for those of its places.
inline constexpr int kGatheredColumns = 64, kGatheredBytes = 16 * kGatheredColumns * 4;
inline constexpr int kGatheredRegisters = 48;
// Of a chain: barriers of a stage, two for each of its pieces, and of the rows; registers of a thread that
// multiplies, where there are two warpgroups of them.
inline constexpr int kChainStageBarrierBytes = 32, kChainRowsBarrierBytes = 16, kBulkChainRegisters = 240;
inline constexpr double kFactorBytes = 2;  // of an element that is multiplied
// To load, narrow and keep an element that is not copied as it is.
inline constexpr double kLoneInstructions = 6;

// Of the bytes that a block shares, those that the launch gives: all where a kernel may not declare so many.
inline int64_t given_at_launch(int64_t shared_bytes) {
  return shared_bytes > kDeclaredSharedBytes ? shared_bytes : 0;
}

// What a grid of such blocks does.
struct MatrixWalk {
  double blocks = 0;                         // of the grid
  double steps = 0;                          // of a block, a piece of the factors each
  double step_cycles = 0;                    // of the multiprocessor, for one step of a block
  double end_cycles = 0;                     // and for what stands behind the steps
  double result_cycles = 0;                  // the same; only another block multiplies meanwhile, ...
  bool takes_turns = false;                  // ... or other warps of the block
  int stages = 2;                            // pieces that are there or on their way
  double memory_bytes = 0, cache_bytes = 0;  // moved by all blocks
  double cache_gbs = 0;                      // 0: as the threads of a block copy
  bool meets_in_steps = true;                // all threads of a block, at a barrier
  double meeting_us = 0;                     // of blocks with each other, beside the steps
};
// Blocks that a multiprocessor has at a time.
double blocks_side_by_side(double blocks, const BlockResources& block, const GpuTarget& target);
// Of the launch, in microseconds.
std::vector<CostTerm> matrix_cost(const MatrixWalk& walk, const BlockResources& block,
                                  const GpuTarget& target);

// Collects what a schedule does that no device or kernel allows.
class BlockChecker {
 public:
  void demand(bool holds, std::string finding) {
    if (!holds) findings_.push_back(std::move(finding));
  }
  void demand_powers_of_two(const std::vector<int>& numbers);
  void demand_stages(int stages, const std::string& what);  // "blocks", "pieces"
  void demand_resources(const BlockResources& block, const GpuTarget& target);
  const std::vector<std::string>& findings() const { return findings_; }

 private:
  std::vector<std::string> findings_;
};

// The text form of such a schedule, around what is its own.
class BlockScheduleReader {
 public:
  BlockScheduleReader(std::string_view text, const TileGraph& graph) : cursor_(text), graph_(graph) {}

 protected:
  // "schedule NAME for TARGET {"
  template <class Schedule>
  void head(Schedule& schedule) {
    cursor_.expect("schedule");
    schedule.tile_graph = cursor_.identifier();
    cursor_.expect("for");
    schedule.target = cursor_.until("{");
    cursor_.expect("{");
  }
  // A choice by its name; `otherwise` says which there are.
  template <class Choice>
  Choice one_of(std::initializer_list<Choice> choices, const std::string& otherwise) {
    for (const Choice known : choices) {
      if (cursor_.accept(name_of(known))) return known;
    }
    cursor_.fail("expected " + otherwise);
  }
  int along(AxisId axis);  // "64 row"
  ProductInstruction instruction();
  ProductCopies copies();
  void expect_value(TileValueId id, const std::string& otherwise);  // "%y"
  void end();                                                       // "cost ... }"

  TextCursor cursor_;
  const TileGraph& graph_;
};

}  // namespace tilefuse
