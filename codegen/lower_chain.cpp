// Chains: the nests of a task, one after the other, and the loop over blocks that some of them stand in.
//
// A nest is lowered as a region of its own would be, but for its grid: it writes to the kernel of its task,
// and finds where the task begins under the names of size symbols.
#include "codegen/launch_lowering.h"
#include "core/contains.h"
#include "core/result.h"
#include "fusion/lane_pairs.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};

}  // namespace

LaunchLowering::LaunchLowering(const LoweringFacts& nest, LaunchLowering& task)
    : facts_(nest),
      graph_(nest.graph),
      schedule_(nest.schedule),
      structure_(nest.structure),
      ranges_(value_ranges(nest.graph)),
      part_(LaunchPart::Whole),
      kernel_(task.kernel_),
      scopes_(task.scopes_),
      scratch_bytes_(task.scratch_bytes_) {}

Code LaunchLowering::chain_tile_pointer(BufferId buffer) {
  const Buffer& tile = graph_[buffer];
  const size_t number = buffer.index - (graph_.buffers.size() - facts_.chain->tiles.size());
  const CodeType type{tile.dtype, CodeShape::Pointer};
  const Code start = integer(facts_.chain->tiles[number].offset);
  return scopes_.let(0, tile.name, type, {PointerCast{type, {reference(kScratch), start}}});
}

// Where the task begins, for the size symbols of its nests.
void LaunchLowering::remember_task() {
  for (const AxisTile& tile : schedule_.grid) {
    const Axis& axis = graph_[tile.axis];
    if (const auto single = bound_.find(tile.axis); single != bound_.end()) {
      scopes_.remember("size " + first_symbol(axis), {single->second.index, single->second.depth, false});
    } else if (const auto part = task_.find(tile.axis); part != task_.end()) {
      const auto& [first, last, depth] = std::tie(part->second.first, part->second.last, part->second.depth);
      scopes_.remember("size " + first_symbol(axis), {first, depth, false});
      if (is_multiple_of(axis.extent, tile.tile)) continue;
      const Code count = operate(CodeOperator::Sub, {last, first});
      scopes_.remember("size " + count_symbol(axis),
                       {scopes_.let(depth, count_symbol(axis), kIndexType, count), depth, false});
    }
  }
}

void LaunchLowering::run_nest() {
  pairs_lanes_ = lanes_stand_in_pairs(graph_, structure_, schedule_);
  scopes_.open();
  base_depth_ = scopes_.depth();
  scopes_.blank();
  parallel_loops(0);
  for (Stmt& stmt : scopes_.close()) scopes_.add(std::move(stmt));
}

LoweringFacts LaunchLowering::facts_of_nest(size_t number) const {
  const ChainNest& nest = facts_.chain->nests[number];
  LoweringFacts facts = collect_lowering_facts(nest.graph, schedule_.nests[number]);
  facts.symbols = facts_.symbols;
  facts.chain = facts_.chain;
  facts.nothing = nest.nothing;
  if (nest.phase == ChainNest::Phase::InLoop) facts.walked = &graph_[schedule_.block->axis];
  return facts;
}

void LaunchLowering::run_nests(ChainNest::Phase phase) {
  for (size_t n = 0; n < facts_.chain->nests.size(); ++n) {
    if (facts_.chain->nests[n].phase != phase) continue;
    const LoweringFacts facts = facts_of_nest(n);
    LaunchLowering lowering(facts, *this);
    if (const auto rows = packed_before_.find(n); rows != packed_before_.end())
      lowering.staged_rows_ = rows->second;
    lowering.run_nest();
    scratch_bytes_ = lowering.scratch_bytes_;
    checks_indices_ |= lowering.checks_indices_;
    streams_ |= lowering.streams_;
    uses_tiles_ |= lowering.uses_tiles_;
  }
}

// What nests in the loop pack of loads that are the same in every block.
void LaunchLowering::pack_before_blocks() {
  for (size_t n = 0; n < facts_.chain->nests.size(); ++n) {
    const LoweringFacts facts = facts_of_nest(n);
    LaunchLowering lowering(facts, *this);
    const std::vector<StagedLoad>& staged = facts.schedule.staged;
    const bool packs = std::any_of(staged.begin(), staged.end(),
                                   [&](const StagedLoad& load) { return lowering.is_packed_before(load); });
    if (!packs) continue;
    lowering.packs_only_ = true;
    lowering.run_nest();
    scratch_bytes_ = lowering.scratch_bytes_;
    packed_before_[n] = std::move(lowering.staged_rows_);
  }
}

// The number along an axis of the grid of a task. Where the walk begins or ends where the task lies, as under
// a triangular mask, tasks from both ends in turn give threads, which take neighbours, the same to do.
Code LaunchLowering::in_balance(AxisId axis, Code task, const Expr& count) {
  if (facts_.chain == nullptr || !facts_.chain->live) return task;
  const auto moves = [&](const Expr& end) { return contains(symbols_of(end), first_symbol(graph_[axis])); };
  const auto& [first, end] = *facts_.chain->live;
  return moves(first) == moves(end) ? task : call("from_both_ends", {std::move(task), index_code(count)});
}

void LaunchLowering::block_loop() {
  pack_before_blocks();
  const AxisTile& block = *schedule_.block;
  const Axis& axis = graph_[block.axis];
  const LoopRange range = whole_range(block.axis);
  Code first = range.first, end = range.last;
  if (const auto& live = facts_.chain->live) {
    const int outside = scopes_.depth();
    first = scopes_.let(outside, axis.name + "_first_live", kIndexType, index_code(live->first));
    end = scopes_.let(outside, axis.name + "_end_live", kIndexType, index_code(live->end));
  }
  const SymbolId start = scopes_.symbol("first_" + axis.name, kIndexType);
  scopes_.open();
  const int depth = scopes_.depth();
  scopes_.remember("size " + first_symbol(axis), {reference(start), depth, false});
  if (!is_multiple_of(axis.extent, block.tile)) {
    const Code left = operate(CodeOperator::Sub, {range.last, reference(start)});
    const Code whole = integer(block.tile);
    const Code count =
        operate(CodeOperator::Choose, {operate(CodeOperator::Less, {left, whole}), left, whole});
    scopes_.remember("size " + count_symbol(axis),
                     {scopes_.let(depth, count_symbol(axis), kIndexType, count), depth, false});
  }
  run_nests(ChainNest::Phase::InLoop);
  scopes_.add({For{start, first, end, block.tile, axis.name + ", in blocks", scopes_.close(), 1}, ""});
}

void LaunchLowering::run_chain() {
  scratch_bytes_ = facts_.chain->scratch_bytes;
  remember_task();
  run_nests(ChainNest::Phase::Before);
  if (schedule_.block) block_loop();
  run_nests(ChainNest::Phase::After);
}

}  // namespace tilefuse
