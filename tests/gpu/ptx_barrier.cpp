#include "tests/gpu/ptx_barrier.h"

#include <algorithm>

namespace tilefuse {
namespace {

constexpr int64_t kMostBytes = (1 << 20) - 1;                                 // "Tx-count operation"
constexpr int64_t kAllRegisters = 65536, kMostRegisters = 256, kGranule = 8;  // of a block; of a thread
constexpr int kLanes = 32, kGroupOfWarps = 4;
constexpr int kLineBytes = 128, kChunkBytes = 16, kPatternBytes = 1024;

std::string name_of(uint64_t address) { return "the barrier at byte " + std::to_string(address); }

// A part of a box, 16 bytes, which are next to each other in shared memory, too.
template <class Fn>
void for_each_part(const BoxCopies::Box& box, const Fn& visit) {
  for (size_t first = 0; first < box.bytes.size(); first += kChunkBytes) {
    const int line = static_cast<int>(first / kLineBytes),
              chunk = static_cast<int>(first % kLineBytes) / kChunkBytes;
    visit(first, GpuAccess{box.thread, box_chunk_address(box.to, line, chunk), kChunkBytes, true, false});
  }
}

}  // namespace

void SharedBarriers::begin(int64_t thread, uint64_t address, int64_t arrivals, int64_t epoch) {
  if (address % 8 != 0) throw GpuFault("a barrier is not aligned");
  if (arrivals < 1 || arrivals > kMostBytes)
    throw GpuFault("a barrier of " + std::to_string(arrivals) + " threads");
  Barrier barrier;
  barrier.thread = thread;
  barrier.epoch = epoch;
  barrier.arrivals = barrier.missing = arrivals;
  const bool is_new = barriers_.emplace(address, std::move(barrier)).second;
  if (!is_new) throw GpuFault(name_of(address) + " is begun again");
}

void SharedBarriers::show(int64_t thread, int64_t epoch) {
  for (auto& [address, barrier] : barriers_) {
    if (barrier.thread == thread && !barrier.shown_in) barrier.shown_in = epoch;
  }
}

const SharedBarriers::Barrier& SharedBarriers::at(uint64_t address, int64_t thread,
                                                  const SharedMemory& shared) const {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) throw GpuFault("there is no barrier at byte " + std::to_string(address));
  const Barrier& barrier = found->second;
  if (barrier.thread != thread && !shared.is_over(barrier.thread, barrier.epoch, thread))
    throw GpuFault("race: " + name_of(address) + " is used while thread " + std::to_string(barrier.thread) +
                   " begins it");
  const bool is_shown = barrier.shown_in && shared.is_over(barrier.thread, *barrier.shown_in, thread);
  if (!shared.has(thread) && !is_shown)
    throw GpuFault(name_of(address) +
                   " is used by another block without fence.mbarrier_init behind its begin");
  return barrier;
}

void SharedBarriers::end_phase(uint64_t address, Barrier& barrier) {
  if (barrier.missing > 0) return;
  if (barrier.missing_bytes < 0)
    throw GpuFault(name_of(address) + " counts " + std::to_string(-barrier.missing_bytes) +
                   " bytes more than were expected");
  if (barrier.missing_bytes > 0) return;
  barrier.missing = barrier.arrivals;
  ++barrier.phase;
  barrier.of_last_phase = std::move(barrier.told);
  barrier.told = {};
  barrier.had_others = barrier.has_others;
  barrier.has_others = false;
}

void SharedBarriers::arrive(int64_t thread, uint64_t address, int64_t expected_bytes, SharedMemory& shared) {
  at(address, thread, shared);
  Barrier& barrier = barriers_.at(address);
  if (expected_bytes < 0 || barrier.missing_bytes + expected_bytes > kMostBytes)
    throw GpuFault("a barrier waits for " + std::to_string(expected_bytes) + " bytes");
  if (barrier.missing == 0) throw GpuFault(name_of(address) + " has more arrivals than it was begun with");
  shared.order().tell(thread, barrier.told);
  barrier.has_others |= !shared.has(thread);
  --barrier.missing;
  barrier.missing_bytes += expected_bytes;
  end_phase(address, barrier);
}

bool SharedBarriers::wait(const Wait& wait, SharedMemory& shared) {
  const Barrier& barrier = at(wait.address, wait.thread, shared);
  if (wait.parity > 1) throw GpuFault("a parity of " + std::to_string(wait.parity));
  if (static_cast<uint64_t>(barrier.phase % 2) == wait.parity) return false;
  if (barrier.had_others && !wait.is_of_cluster)
    throw GpuFault("a wait in the scope of a block for arrivals of another one");
  WarpKnowledge& known = shared.order().of(wait.thread);
  known.join(barrier.of_last_phase);
  known.phases[shared.name_in_cluster(wait.address)] = barrier.phase;
  return true;
}

void SharedBarriers::bytes_came(uint64_t address, int64_t bytes) {
  Barrier& barrier = barriers_.at(address);
  barrier.missing_bytes -= bytes;
  if (barrier.missing_bytes < -kMostBytes) throw GpuFault(name_of(address) + " counts too many bytes");
  end_phase(address, barrier);
}

int64_t SharedBarriers::phase_of_copy(int64_t thread, uint64_t address, const SharedMemory& shared) const {
  const Barrier& barrier = at(address, thread, shared);
  if (!barrier.shown_in)
    throw GpuFault(name_of(address) + " counts a copy without fence.mbarrier_init behind its begin");
  return barrier.phase;
}

std::string SharedBarriers::missing_of(uint64_t address) const {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) return name_of(address);
  const Barrier& barrier = found->second;
  const std::string arrivals = name_of(address) + ", phase " + std::to_string(barrier.phase) + ", where " +
                               std::to_string(barrier.missing) + " of " + std::to_string(barrier.arrivals) +
                               " arrivals";
  if (barrier.missing_bytes >= 0)
    return arrivals + " and " + std::to_string(barrier.missing_bytes) + " bytes are missing";
  return arrivals + " are missing and " + std::to_string(-barrier.missing_bytes) +
         " bytes came that nobody expects yet";
}

void BoxCopies::begin(Box box, SharedMemory& shared, const SharedBarriers& barriers) {
  if (box.to % kPatternBytes != 0) throw GpuFault("a box begins at no multiple of eight lines");
  const int64_t phase = barriers.phase_of_copy(box.thread, box.barrier, shared);
  for_each_part(box, [&](size_t, const GpuAccess& store) { shared.begin_box(store); });
  under_way_.push_back({std::move(box), phase});
}

bool BoxCopies::end_oldest(SharedMemory& shared, SharedBarriers& barriers) {
  if (under_way_.empty()) return false;
  const UnderWay came = std::move(under_way_.front());
  under_way_.pop_front();
  for_each_part(came.box, [&](size_t first, const GpuAccess& store) {
    std::copy_n(came.box.bytes.begin() + static_cast<std::ptrdiff_t>(first), kChunkBytes,
                shared.end_box(store, came.box.barrier, came.phase));
  });
  last_phases_[came.box.barrier] = came.phase;
  barriers.bytes_came(came.box.barrier, static_cast<int64_t>(came.box.bytes.size()));
  return true;
}

void BoxCopies::demand_waited_for(const SharedMemory& shared) const {
  const WarpKnowledge known = shared.order().of_all(shared.warps());
  const bool has_waited = std::all_of(last_phases_.begin(), last_phases_.end(), [&](const auto& last) {
    return known.phases_of(shared.name_in_cluster(last.first)) > last.second;
  });
  if (!under_way_.empty() || !has_waited) throw GpuFault("a block ends while a box is under way");
}

WarpRegisters::WarpRegisters(int64_t threads, int warps) {
  const int64_t of_thread =
      threads == 0 ? 0 : std::min(kMostRegisters, kAllRegisters / threads) / kGranule * kGranule;
  of_warps_.assign(static_cast<size_t>(warps), of_thread);
}

void WarpRegisters::set(int warp, const PtxInstruction& instruction) {
  int64_t& registers = of_warps_.at(static_cast<size_t>(warp));
  if (registers == 0)
    throw GpuFault("registers are set in a kernel that is compiled for any number of threads");
  if (instruction.takes_registers ? instruction.registers < registers : instruction.registers > registers)
    throw GpuFault("a warp with " + std::to_string(registers) + " registers takes less, or leaves more");
  registers = instruction.registers;
  is_set_ = true;
}

void WarpRegisters::check() const {
  if (!is_set_) return;
  int64_t all = 0;
  for (size_t w = 0; w < of_warps_.size(); ++w) {
    all += of_warps_[w] * kLanes;
    if (of_warps_[w] != of_warps_[w / kGroupOfWarps * kGroupOfWarps])
      throw GpuFault("the warps of a warpgroup have different numbers of registers");
  }
  if (all > kAllRegisters)
    throw GpuFault("the warps of a block take " + std::to_string(all) + " registers, of " +
                   std::to_string(kAllRegisters));
}

}  // namespace tilefuse
