#include "tests/gpu/ptx_block.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tilefuse {
namespace {

constexpr int64_t kMostInstructions = 10'000'000;  // of a run: a loop without an end is an error, too
// Of an address of the cluster: one more than the block's number in it; 0: the block of the thread itself.
constexpr int kRankBits = 24;

std::vector<size_t> warps_of(const PtxLaunch& launch, int rank) {
  std::vector<size_t> warps(static_cast<size_t>(launch.grid.threads / kLanes));
  std::iota(warps.begin(), warps.end(), static_cast<size_t>(rank) * warps.size());
  return warps;
}

int64_t shared_bytes(const PtxLaunch& launch) {
  const PtxProgram& program = launch.program;
  return program.given_at ? *program.given_at + launch.grid.shared_bytes : program.shared_bytes;
}

bool is_of_warpgroup(PtxKind kind) {
  return kind == PtxKind::FenceProducts || kind == PtxKind::BeginProduct || kind == PtxKind::CommitProducts ||
         kind == PtxKind::WaitForProducts;
}

}  // namespace

PtxBlock::PtxBlock(PtxLaunch& launch, PtxCluster& cluster, int rank, int64_t number)
    : launch_(launch),
      cluster_(cluster),
      rank_(rank),
      number_(number),
      shared_(shared_bytes(launch), cluster.order, warps_of(launch, rank)),
      registers_(launch.program.threads, launch.grid.threads / kLanes),
      group_orders_(static_cast<size_t>(launch.grid.threads / kLanes / kGroupWarps)),
      visits_(cluster.order.warps()) {
  for (int w = 0; w < launch.grid.threads / kLanes; ++w) warps_.push_back(new_warp(w));
}

void PtxBlock::take_turn() {
  if (has_ended_) return;
  do {
    for (Warp& warp : warps_) run_warp(warp);
  } while (passes_barrier());
}

bool PtxBlock::passes_barrier() {
  const auto count = [&](const auto& is) { return std::count_if(warps_.begin(), warps_.end(), is); };
  if (count([](const Warp& warp) { return warp.yields; }) > 0) return false;
  for (const GroupOrder& order : group_orders_) order.demand_even();
  if (count([](const Warp& warp) { return warp.meets; }) > 0) return false;
  const auto waiting = count([](const Warp& warp) { return warp.waits; });
  if (waiting == 0) {
    end();
    return false;
  }
  if (waiting != static_cast<std::ptrdiff_t>(warps_.size())) {
    throw GpuFault("a barrier is reached by " + std::to_string(waiting) + " of " +
                   std::to_string(warps_.size()) + " warps, the others have ended");
  }
  shared_.barrier();
  for (Warp& warp : warps_) warp.waits = false;
  return true;
}

void PtxBlock::end() {
  has_ended_ = true;
  boxes_.demand_waited_for(shared_);
  registers_.check();
  const WarpKnowledge known = cluster_.order.of_all(shared_.warps());
  for (size_t w = 0; w < visits_.size(); ++w) {
    if (visits_[w].event <= known.events[w]) continue;
    throw GpuFault("block " + std::to_string(number_) + " ends, and nobody has said that " + visits_[w].what +
                   " of warp " + std::to_string(w) + " of its cluster is done there");
  }
}

bool PtxBlock::is_at_meeting() const {
  return std::all_of(warps_.begin(), warps_.end(),
                     [](const Warp& warp) { return warp.meets || warp.groups.empty(); });
}

std::vector<size_t> PtxBlock::warps_to_meet() const {
  std::vector<size_t> warps;
  for (const Warp& warp : warps_) {
    if (warp.meets) warps.push_back(number_in_cluster(warp));
  }
  return warps;
}

void PtxBlock::meet_cluster() {
  shared_.cluster_barrier();
  for (Warp& warp : warps_) warp.meets = false;
}

std::string PtxBlock::waits() const {
  std::string text = "block " + std::to_string(number_) + ": no warp can go on";
  for (const Warp& warp : warps_) {
    const std::string name = "; warp " + std::to_string(warp.number);
    if (warp.yields)
      text += name + " waits at PTX line " + std::to_string(warp.waits_at->line) + " for " +
              barriers_.missing_of(warp.waited_for);
    if (warp.waits) text += name + " waits at a barrier of the block";
    if (warp.meets)
      text += name + " waits at PTX line " + std::to_string(warp.waits_at->line) + " for its cluster";
  }
  return text;
}

Warp PtxBlock::new_warp(int number) const {
  Warp warp;
  warp.number = number;
  warp.registers.resize(static_cast<size_t>(launch_.program.registers));
  warp.groups = {{0, kAllLanes}};
  warp.products = WarpProducts(launch_.program.has_group_products ? launch_.program.registers : 0);
  for (const PtxConstant& constant : launch_.program.constants)
    warp.registers[size_t(constant.reg)].fill(constant.value);
  for (const PtxSpecial& special : launch_.program.specials) {
    for (int lane = 0; lane < kLanes; ++lane) {
      warp.registers[size_t(special.reg)][size_t(lane)] = special_value(special.what, number * kLanes + lane);
    }
  }
  return warp;
}

uint64_t PtxBlock::special_value(PtxSpecial::What what, int thread) const {
  switch (what) {
    case PtxSpecial::What::ThreadX:
      return static_cast<uint64_t>(thread);
    case PtxSpecial::What::BlockX:
      return static_cast<uint64_t>(number_);
    case PtxSpecial::What::BlockThreadsX:
      return static_cast<uint64_t>(launch_.grid.threads);
    case PtxSpecial::What::BlocksX:
      return static_cast<uint64_t>(launch_.grid.blocks);
    case PtxSpecial::What::BlockOfCluster:
      return static_cast<uint64_t>(rank_);
  }
  return 0;
}

// Until a barrier, a meeting of the cluster, a barrier in shared memory whose phase has not ended, or the
// end.
void PtxBlock::run_warp(Warp& warp) {
  warp.yields = false;
  while (!warp.groups.empty() && !warp.waits && !warp.meets && !warp.yields) {
    const size_t next = warp.next_group(launch_.program.instructions);
    const PtxInstruction& instruction = launch_.program.instructions.at(warp.groups[next].at);
    try {
      step(warp, next, instruction);
    } catch (const GpuFault& fault) {
      throw GpuFault("block " + std::to_string(number_) + ", warp " + std::to_string(warp.number) +
                     ", PTX line " + std::to_string(instruction.line) + " `" + instruction.text +
                     "`: " + fault.what());
    }
    if (++launch_.run.instructions > kMostInstructions) throw GpuFault("the kernel does not end");
  }
}

void PtxBlock::step(Warp& warp, size_t number, const PtxInstruction& instruction) {
  Group& group = warp.groups[number];
  uint32_t lanes = group.lanes;
  if (instruction.predicate >= 0) {
    uint32_t holds = 0;
    const Row& predicate = warp.registers[size_t(instruction.predicate)];
    for (int lane = 0; lane < kLanes; ++lane) holds |= uint32_t{predicate[size_t(lane)] != 0} << lane;
    lanes &= instruction.negated ? ~holds : holds;
  }
  ++group.at;
  if (launch_.program.has_group_products && lanes != 0 && !is_of_warpgroup(instruction.kind))
    warp.products.touch(instruction);
  switch (instruction.kind) {
    case PtxKind::Branch:
      return warp.branch(number, lanes, instruction.target);
    case PtxKind::Exit:
      return exit(warp, number, lanes);
    case PtxKind::Trap:
      if (lanes != 0) throw GpuFault("the kernel stops itself");
      return;
    case PtxKind::Barrier:
    case PtxKind::ArriveAtCluster:
    case PtxKind::MeetCluster:
      return wait_for_others(warp, lanes, instruction);
    case PtxKind::MapAddress:
      return for_each_lane(lanes, [&](int lane) { map_address(warp, lane, instruction); });
    case PtxKind::Prefetch:
      return for_each_lane(lanes, [&](int lane) { prefetch(warp, lane, instruction); });
    case PtxKind::MeetWarp:
      demand_whole_warp(lanes);
      return shared_.warp_barrier(number_in_cluster(warp));
    case PtxKind::BeginBarrier:
    case PtxKind::ShowBarriers:
    case PtxKind::Arrive:
    case PtxKind::TestPhase:
    case PtxKind::CopyBox:
      return for_each_lane(lanes, [&](int lane) { step_of_boxes(warp, lane, instruction); });
    case PtxKind::SetRegisters:
      demand_whole_warp(lanes);
      return registers_.set(warp.number, instruction);
    case PtxKind::Shuffle:
      return warp.shuffle(lanes, instruction);
    case PtxKind::LoadMatrix:
      return load_matrix(warp, lanes, instruction);
    case PtxKind::MultiplyMatrices:
      return multiply(warp, lanes, instruction);
    case PtxKind::BeginCopy:
      return begin_copy(warp, lanes, instruction);
    case PtxKind::CommitCopies:
      return for_each_lane(lanes, [&](int lane) { warp.copies[size_t(lane)].commit(); });
    case PtxKind::WaitForCopies:
      return for_each_lane(
          lanes, [&](int lane) { warp.copies[size_t(lane)].wait(instruction.groups_left, shared_); });
    case PtxKind::FenceAsyncProxy:
      return for_each_lane(lanes, [&](int lane) { shared_.fence_of_async_proxy(thread_of(warp, lane)); });
    case PtxKind::FenceProducts:
    case PtxKind::BeginProduct:
    case PtxKind::CommitProducts:
    case PtxKind::WaitForProducts:
      return multiply_in_group(warp, lanes, instruction);
    case PtxKind::Compute:
      return warp.compute(lanes, instruction);
    case PtxKind::LoadParameter:
      return load_parameter(warp, lanes, instruction);
    case PtxKind::Load:
    case PtxKind::Store:
      return access(warp, lanes, instruction);
  }
}

void PtxBlock::exit(Warp& warp, size_t number, uint32_t lanes) {
  Group& group = warp.groups[number];
  warp.alive &= ~lanes;
  group.lanes &= ~lanes;
  if (group.lanes == 0) warp.groups.erase(warp.groups.begin() + static_cast<std::ptrdiff_t>(number));
  if (warp.groups.empty()) shared_.end_warp(number_in_cluster(warp));
}

// A meeting of the cluster is one of those threads that have not ended; all that a warp has then.
void PtxBlock::wait_for_others(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
  const bool is_of_cluster = instruction.kind != PtxKind::Barrier;
  const uint32_t wanted = is_of_cluster ? warp.alive : kAllLanes;
  if (lanes != wanted) {
    throw GpuFault(std::string(is_of_cluster ? "the meeting of a cluster" : "the barrier") +
                   " is reached by " + std::to_string(std::popcount(lanes)) + " of " +
                   std::to_string(std::popcount(wanted)) + " lanes");
  }
  if (instruction.kind == PtxKind::ArriveAtCluster) return;
  (is_of_cluster ? warp.meets : warp.waits) = true;
  warp.waits_at = &instruction;
  ++launch_.events;
}

void PtxBlock::step_of_boxes(Warp& warp, int lane, const PtxInstruction& instruction) {
  const int64_t thread = thread_of(warp, lane);
  const auto operand = [&](size_t i) {
    return warp.registers[size_t(instruction.operands.at(i))][size_t(lane)];
  };
  const auto place = [&](size_t i) { return uint64_t{static_cast<uint32_t>(operand(i))}; };
  const auto number = [&](size_t i) { return int64_t{static_cast<int32_t>(operand(i))}; };
  if (instruction.kind == PtxKind::TestPhase) return test_phase(warp, lane, instruction);
  ++launch_.events;
  if (instruction.kind == PtxKind::BeginBarrier) {
    shared_.access({thread, place(0), SharedBarriers::kBytes, true, false});
    shared_.watch_reads();
    barriers_.begin(thread, place(0), number(1), shared_.epoch());
  } else if (instruction.kind == PtxKind::ShowBarriers) {
    barriers_.show(thread, shared_.epoch());
  } else if (instruction.kind == PtxKind::CopyBox) {
    copy_box(warp, lane, instruction);
  } else if (instruction.is_of_cluster) {
    const Place there = place_in_cluster(thread, place(0), "an arrival");
    there.block.barriers_.arrive(thread, there.address, 0, there.block.shared_);
  } else {
    barriers_.arrive(thread, place(0), instruction.operands.size() > 1 ? number(1) : 0, shared_);
  }
}

void PtxBlock::test_phase(Warp& warp, int lane, const PtxInstruction& instruction) {
  const auto operand = [&](size_t i) {
    return warp.registers[size_t(instruction.operands.at(i))][size_t(lane)];
  };
  const uint64_t barrier = static_cast<uint32_t>(operand(0));
  const uint64_t parity = static_cast<uint32_t>(operand(1));
  const bool has_ended =
      barriers_.wait({thread_of(warp, lane), barrier, parity, instruction.is_of_cluster}, shared_);
  warp.registers[size_t(instruction.results[0])][size_t(lane)] = has_ended ? 1 : 0;
  if (has_ended) {
    ++launch_.events;
    return;
  }
  warp.yields = true;
  warp.waited_for = barrier;
  warp.waits_at = &instruction;
}

void PtxBlock::copy_box(Warp& warp, int lane, const PtxInstruction& instruction) {
  const auto operand = [&](size_t i) {
    return warp.registers[size_t(instruction.operands.at(i))][size_t(lane)];
  };
  const uint64_t to = static_cast<uint32_t>(operand(0)), barrier = static_cast<uint32_t>(operand(2));
  std::vector<int64_t> at;
  const size_t end = instruction.operands.size() - (instruction.is_multicast ? 1 : 0);
  for (size_t i = 3; i < end; ++i) at.push_back(static_cast<int32_t>(operand(i)));
  const auto& offsets = launch_.program.tensor_map_offsets;
  const auto found =
      std::find(offsets.begin(), offsets.end(), static_cast<int64_t>(operand(1) ^ kParameterSpace));
  if (found == offsets.end()) throw GpuFault("there is no tensor map at that address");
  const TensorMapLayout& map = launch_.maps[size_t(found - offsets.begin())];
  if (map.box.size() != at.size()) throw GpuFault("a tensor map of other dimensions");
  const auto own = uint32_t{1} << rank_;
  const uint32_t mask = instruction.is_multicast ? static_cast<uint16_t>(operand(end)) : own;
  if (mask == 0 || mask >> cluster_.blocks.size() != 0)
    throw GpuFault("a box comes to blocks of the mask " + std::to_string(mask) + ", of a cluster of " +
                   std::to_string(cluster_.blocks.size()));
  const int64_t thread = thread_of(warp, lane);
  const std::vector<unsigned char> bytes = read_box(map, at, thread_of_grid(thread), launch_.memory);
  for (PtxBlock& block : cluster_.blocks) {
    if ((mask >> block.rank_ & 1) == 0) continue;
    if (&block != this) block.demand_is_there("a box");
    block.boxes_.begin({thread, to, barrier, bytes}, block.shared_, block.barriers_);
  }
  ++launch_.run.boxes;
  launch_.run.multicast_boxes += instruction.is_multicast ? 1 : 0;
}

void PtxBlock::map_address(Warp& warp, int lane, const PtxInstruction& instruction) const {
  const auto operand = [&](size_t i) {
    return static_cast<uint32_t>(warp.registers[size_t(instruction.operands[i])][size_t(lane)]);
  };
  if (operand(1) >= cluster_.blocks.size())
    throw GpuFault("there is no block " + std::to_string(operand(1)) + " in a cluster of " +
                   std::to_string(cluster_.blocks.size()));
  if (operand(0) >> kRankBits != 0) throw GpuFault("an address that is not of the block's shared memory");
  warp.registers[size_t(instruction.results[0])][size_t(lane)] = (operand(1) + 1) << kRankBits | operand(0);
}

PtxBlock::Place PtxBlock::place_in_cluster(int64_t thread, uint64_t address, const char* what) {
  const uint64_t rank = address >> kRankBits;
  if (rank > cluster_.blocks.size()) throw GpuFault("an address of no block of the cluster");
  PtxBlock& block = rank == 0 ? *this : cluster_.blocks[rank - 1];
  if (&block != this) {
    block.demand_is_there(what);
    block.visits_[WarpOrder::warp_of(thread)] = {cluster_.order.now(thread), what};
  }
  return {block, address & ((uint64_t{1} << kRankBits) - 1)};
}

void PtxBlock::demand_is_there(const char* what) const {
  const std::string name = std::string(what) + " at block " + std::to_string(number_);
  if (has_ended_) throw GpuFault(name + ", which has ended");
  if (!shared_.has_met_cluster()) throw GpuFault("race: " + name + " before its cluster has met");
}

}  // namespace tilefuse
