#include "codegen/lower_to_kernel.h"

#include <algorithm>
#include <iterator>

#include "codegen/inline_values.h"
#include "codegen/insert_prefetches.h"
#include "codegen/kernel_header.h"
#include "codegen/launch_lowering.h"
#include "codegen/lower_pack.h"
#include "codegen/name_values.h"
#include "codegen/spell_reduce.h"
#include "core/match.h"
#include "core/result.h"
#include "fusion/contraction.h"
#include "fusion/lane_pairs.h"
#include "fusion/launches.h"
#include "fusion/matrix_tiles.h"
#include "fusion/panels.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr int64_t kTypicalSize = 2048;  // of a symbol, where only an order of magnitude matters

std::vector<Workspace> workspaces_of(const TileGraph& graph, const Schedule& schedule,
                                     const Structure& structure) {
  std::vector<Workspace> workspaces;
  if (schedule.split <= 1) return workspaces;
  Expr elements = schedule.split;
  for (const AxisId axis : structure.parallel) elements = elements * graph[axis].extent;
  for (const TileValueId id : structure.reductions) {
    const TileValue& v = graph[id];
    const auto* reduce = std::get_if<TileReduce>(&v.op);
    const ReduceSpelling spelling =
        reduce == nullptr ? ReduceSpelling{} : spell_reduce(reduce->kind, v, graph[v.operands[0]]);
    TILEFUSE_CHECK(spelling.types.size() == 1, "%" + v.name + " cannot be split");
    workspaces.push_back({spelling.types[0], elements});
  }
  return workspaces;
}

// The innermost parallel axis of the grid order that is not the lane axis; with accumulators in scratch, the
// innermost reduced one.
std::optional<AxisId> row_axis_of(const Schedule& schedule, const Structure& structure) {
  if (schedule.accumulate_in_scratch) return structure.reduced.back();
  if (schedule.rows <= 1) return std::nullopt;
  for (size_t i = schedule.grid.size(); i-- > 0;) {
    if (schedule.grid[i].axis != schedule.lane_axis) return schedule.grid[i].axis;
  }
  return std::nullopt;
}

double typical(const Expr& e) {
  return static_cast<double>(evaluate(e, {}, [](const std::string&) { return kTypicalSize; }));
}

// One carried value of an online walk after the other.
std::vector<Workspace> workspaces_of(const ExpandedOnline& online, const Schedule& schedule,
                                     const Structure& structure) {
  std::vector<Workspace> workspaces;
  if (schedule.split <= 1) return workspaces;
  Expr elements = schedule.split;
  for (const AxisId axis : structure.parallel) elements = elements * online.graph[axis].extent;
  for (const CarriedValue& carried : online.passes.front().carried) {
    workspaces.push_back({online.graph[carried.carry].dtype, elements});
  }
  return workspaces;
}

}  // namespace

LoweringFacts collect_lowering_facts(const TileGraph& graph, const Schedule& schedule) {
  Result<Structure> structure = analyze_structure(graph);
  TILEFUSE_CHECK(structure, "a region without a schedule is lowered: " + structure.unsupported().reason);
  const bool lanes_are_parallel = schedule.lane_axis && !structure->is_reduced(*schedule.lane_axis);
  return {.graph = graph,
          .schedule = schedule,
          .structure = *structure,
          .extents = axis_extents(graph),
          .symbols = symbols_in(graph),
          .workspaces = workspaces_of(graph, schedule, *structure),
          .row_axis = row_axis_of(schedule, *structure),
          .rows = schedule.accumulate_in_scratch ? kScratchRows : schedule.rows,
          .column_axis = schedule.columns > 1 ? column_axis(schedule) : std::nullopt,
          .columns = schedule.columns,
          .lanes_are_parallel = lanes_are_parallel,
          .dots = find_dots(graph, *structure, schedule),
          .in_tiles = walks_tiles(graph, *structure, schedule)};
}

namespace {

// An online walk on the expanded graph, whose first values are those of the region.
LoweringFacts collect_online_facts(const ExpandedOnline& expanded, const OnlineWalk& walk,
                                   const Schedule& schedule) {
  LoweringFacts facts{
      .graph = expanded.graph,
      .schedule = schedule,
      .structure = walk.structure,
      .extents = axis_extents(expanded.graph),
      .symbols = symbols_in(expanded.graph),
      .workspaces = workspaces_of(expanded, schedule, walk.structure),
      .row_axis = std::nullopt,
      .column_axis = std::nullopt,
      .lanes_are_parallel = schedule.lane_axis && !walk.structure.is_reduced(*schedule.lane_axis),
      .online = &expanded};
  facts.structure.level.resize(expanded.graph.values.size(), 0);
  return facts;
}

}  // namespace

namespace {

int lanes_of(const Schedule& schedule) {
  int lanes = schedule.lanes;
  for (const Schedule& nest : schedule.nests) lanes = std::max(lanes, nest.lanes);
  return lanes;
}

}  // namespace

LaunchLowering::LaunchLowering(const LoweringFacts& facts, LaunchPart part, std::string kernel_name)
    : facts_(facts),
      graph_(facts.graph),
      schedule_(facts.schedule),
      structure_(facts.structure),
      ranges_(value_ranges(facts.graph)),
      part_(part),
      own_(std::make_unique<Build>(new_kernel(std::move(kernel_name), lanes_of(facts.schedule)))),
      kernel_(own_->kernel),
      scopes_(own_->scopes) {}

void LaunchLowering::run() {
  pairs_lanes_ = lanes_stand_in_pairs(graph_, structure_, schedule_);
  bind_grid();
  if (streams_) scopes_.add({Effect{call("stream_fence", {})}, ""});
  if (uses_tiles_) scopes_.add({Effect{call("close_tiles", {})}, ""});
  kernel_.body = scopes_.close();
  if (uses_tiles_) kernel_.body.insert(kernel_.body.begin(), {Effect{call("open_tiles", {})}, ""});
}

namespace {

Expr elements_of(const std::vector<Expr>& shape) {
  Expr elements = 1;
  for (const Expr& size : shape) elements = elements * size;
  return elements;
}

// Of what a kernel finds in a slot: workspaces are written by a launch just before, packs are of any size.
std::optional<int64_t> bytes_of(const LoweringFacts& facts, int64_t slot) {
  const auto buffers = int64_t(facts.graph.buffers.size());
  if (slot >= buffers)
    return slot < buffers + int64_t(facts.workspaces.size()) ? std::optional(0) : std::nullopt;
  const Buffer& buffer = facts.graph.buffers[static_cast<size_t>(slot)];
  const auto elements = elements_of(buffer.shape).constant();
  return elements ? std::optional(*elements * size_in_bytes(buffer.dtype)) : std::nullopt;
}

class ProgramLowering {
 public:
  ProgramLowering(const TileGraph& graph, const Schedule& schedule, std::vector<std::string> symbols)
      : graph_(graph), schedule_(schedule), symbols_(std::move(symbols)) {}
  KernelProgram run();

 private:
  void set_facts(const LoweringFacts& facts);
  Launch lower(const LoweringFacts& facts, LaunchPart part, const std::string& suffix);
  void add_launch(const LoweringFacts& facts, LaunchPart part, const std::string& suffix);
  void add_packs(const LoweringFacts& facts);
  void add_launches(const LoweringFacts& walk, const LoweringFacts& merge);
  void lower_online();
  void lower_chain();
  void lower_launches();

  const TileGraph& graph_;
  const Schedule& schedule_;
  std::vector<std::string> symbols_;  // of the region
  KernelProgram program_;
};

void ProgramLowering::set_facts(const LoweringFacts& facts) {
  program_.launches.name = graph_.name;
  program_.launches.workspaces = facts.workspaces;
  for (const std::string& symbol : facts.symbols) program_.launches.sizes.push_back(Expr::symbol(symbol));
}

Launch ProgramLowering::lower(const LoweringFacts& facts, LaunchPart part, const std::string& suffix) {
  LaunchLowering lowering(facts, part, to_function_name(graph_.name + suffix));
  lowering.run();
  Kernel kernel = lowering.take_kernel();
  const std::string ops = part == LaunchPart::Pack ? "pack" : fused_ops(graph_);
  kernel.header = {"fused     " + ops, "schedule  " + decisions_of(to_text(facts.schedule, graph_)),
                   "target    " + schedule_.target};
  verify(kernel, "lower_to_kernel");
  kernel = inline_values(std::move(kernel));
  // Sums of products read weights, which other layers have pushed out of caches since they were read last.
  // What other walks read was written just before as a rule, and what is not is a stream from its beginning
  // on.
  if (has_contraction(facts.graph) && part != LaunchPart::Pack) {
    const BytesOfSlot bytes_of_slot = [&](int64_t slot) { return bytes_of(facts, slot); };
    kernel = insert_prefetches(std::move(kernel), bytes_of_slot);
  }
  kernel = name_values(std::move(kernel));
  verify(kernel, "name_values");
  const double alone_us = schedule_.alone_us > 0 ? schedule_.alone_us : schedule_.cost_us;
  const double share = alone_us / std::max(1.0, typical(lowering.tiles()));
  Launch launch{.symbol = kernel.name,
                .tiles = lowering.tiles(),
                .scratch_bytes = lowering.scratch_bytes(),
                .tile_us = schedule_.cost_us > 0 ? share : 1.0};
  program_.launches.checks_indices |= lowering.checks_indices();
  program_.kernels.push_back(std::move(kernel));
  return launch;
}

void ProgramLowering::add_launch(const LoweringFacts& facts, LaunchPart part, const std::string& suffix) {
  program_.launches.launches.push_back(lower(facts, part, suffix));
}

// Each operand that is packed once, by a kernel of its own.
void ProgramLowering::add_packs(const LoweringFacts& facts) {
  if (!packs_panels(facts.structure, schedule_)) return;
  for (const StagedLoad& staged : schedule_.staged) {
    if (!is_packed_once(graph_, facts.structure, staged.load)) continue;
    const Schedule schedule = pack_schedule(graph_, facts.structure, schedule_, staged);
    LoweringFacts packing = collect_lowering_facts(graph_, schedule);
    packing.symbols = symbols_;
    packing.workspaces = facts.workspaces;  // of a split sum: packs stand behind them
    packing.first_pack = static_cast<int>(program_.launches.packs.size());
    packing.dots = facts.dots;
    packing.in_tiles = facts.in_tiles;
    Pack pack = pack_of(packing);
    pack.position = static_cast<int>(graph_.buffers.size() + facts.workspaces.size()) + packing.first_pack;
    pack.launch = lower(packing, LaunchPart::Pack, "_pack_" + graph_[staged.load].name);
    program_.launches.packs.push_back(std::move(pack));
  }
}

void ProgramLowering::add_launches(const LoweringFacts& walk, const LoweringFacts& merge) {
  set_facts(walk);
  if (schedule_.split <= 1) return add_launch(walk, LaunchPart::Whole, "");
  add_launch(walk, LaunchPart::Partial, "_parts");
  add_launch(merge, LaunchPart::Combine, "_combine");
}

void ProgramLowering::lower_online() {
  const Result<Structure> structure = analyze_structure(graph_);
  TILEFUSE_CHECK(structure, "a region without a schedule is lowered: " + structure.unsupported().reason);
  const Result<OnlineWalk> walk = plan_online_walk(graph_, *structure);
  TILEFUSE_CHECK(walk, "an online walk of " + graph_.name + " is lowered: " + walk.unsupported().reason);
  const ExpandedOnline step = expand_online(graph_, walk->derived, OnlineStep::Block);
  const ExpandedOnline merge = expand_online(graph_, walk->derived, OnlineStep::Merge);
  add_launches(collect_online_facts(step, *walk, schedule_), collect_online_facts(merge, *walk, schedule_));
}

void ProgramLowering::lower_chain() {
  const Result<ChainAxes> axes = find_chain_axes(graph_);
  TILEFUSE_CHECK(axes, "a region without a schedule is lowered: " + axes.unsupported().reason);
  const Result<Chain> chain = make_chain(graph_, *axes, schedule_);
  TILEFUSE_CHECK(chain, "a chain of " + graph_.name + " is lowered: " + chain.unsupported().reason);
  LoweringFacts facts{.graph = graph_,
                      .schedule = schedule_,
                      .structure = {},
                      .extents = axis_extents(graph_),
                      .symbols = symbols_in(graph_),
                      .workspaces = {},
                      .row_axis = std::nullopt,
                      .column_axis = std::nullopt,
                      .chain = &*chain};
  add_launches(facts, facts);
}

// Kernels of graphs that have the same buffers, and take the sizes of the whole region.
void ProgramLowering::lower_launches() {
  const Result<std::vector<TileGraph>> launches = launches_of(graph_);
  TILEFUSE_CHECK(launches, "a region without launches is lowered: " + launches.unsupported().reason);
  for (size_t n = 0; n < launches->size(); ++n) {
    KernelProgram part = ProgramLowering((*launches)[n], schedule_.nests[n], symbols_).run();
    RegionProgram& all = program_.launches;
    all.sizes = part.launches.sizes;
    all.checks_indices |= part.launches.checks_indices;
    TILEFUSE_CHECK(part.launches.workspaces.empty(), "one of several launches is split");
    TILEFUSE_CHECK(all.packs.empty() || part.launches.packs.empty(), "two launches pack constants");
    if (all.packs.empty()) all.packs = std::move(part.launches.packs);
    std::move(part.launches.launches.begin(), part.launches.launches.end(), std::back_inserter(all.launches));
    std::move(part.kernels.begin(), part.kernels.end(), std::back_inserter(program_.kernels));
  }
  for (const Buffer& buffer : launches->front().buffers) {
    if (buffer.role != Buffer::Role::Workspace) continue;
    program_.launches.workspaces.push_back({buffer.dtype, elements_of(buffer.shape)});
  }
  // One length of vectors in one source; a scalar kernel has none of its own.
  for (Kernel& kernel : program_.kernels) kernel.lanes = lanes_of(schedule_);
  program_.launches.name = graph_.name;
}

KernelProgram ProgramLowering::run() {
  if (takes_launches(graph_)) {
    lower_launches();
  } else if (!schedule_.nests.empty()) {
    lower_chain();
  } else if (schedule_.walk == Walk::Online) {
    lower_online();
  } else {
    LoweringFacts facts = collect_lowering_facts(graph_, schedule_);
    facts.symbols = symbols_;
    add_packs(facts);
    add_launches(facts, facts);
  }
  return std::move(program_);
}

}  // namespace

KernelProgram lower_to_kernel(const TileGraph& graph, const Schedule& schedule) {
  return ProgramLowering(graph, schedule, symbols_in(graph)).run();
}

}  // namespace tilefuse
