#include "tests/gpu/gpu_memory.h"

#include <algorithm>
#include <limits>

namespace tilefuse {
namespace {

constexpr uint64_t kFirstAddress = uint64_t{1} << 32, kApart = uint64_t{1} << 28;
constexpr int64_t kNobody = -1;

std::string what(const GpuAccess& access) {
  return std::string(access.is_store ? "a store" : "a load") + " of " + std::to_string(access.bytes) +
         " bytes";
}

std::string at(const GpuAccess& access, uint64_t byte) {
  return " at byte " + std::to_string(byte) + ", thread " + std::to_string(access.thread);
}

void check_alignment(const GpuAccess& access) {
  if (access.address % static_cast<uint64_t>(access.bytes) == 0) return;
  throw GpuFault(what(access) + " is not aligned");
}

}  // namespace

GlobalMemory::GlobalMemory(std::vector<GpuBuffer> buffers) : buffers_(std::move(buffers)) {
  uint64_t address = kFirstAddress;
  for (GpuBuffer& buffer : buffers_) {
    buffer.address = address;
    if (buffer.is_output) buffer.writer.assign(buffer.bytes.size(), kNobody);
    address += kApart + buffer.bytes.size() / kApart * kApart;
  }
}

unsigned char* GlobalMemory::access(const GpuAccess& access) {
  const auto size = static_cast<uint64_t>(access.bytes);
  const auto found = std::find_if(buffers_.begin(), buffers_.end(), [&](const GpuBuffer& buffer) {
    return access.address >= buffer.address && access.address < buffer.address + kApart;
  });
  const size_t number = static_cast<size_t>(found - buffers_.begin());
  if (found == buffers_.end()) throw GpuFault(what(access) + " is in no buffer");
  const uint64_t first = access.address - found->address;
  if (first + size > found->bytes.size()) {
    throw GpuFault(what(access) + " is outside buffer " + std::to_string(number) + ": byte " +
                   std::to_string(first) + " of " + std::to_string(found->bytes.size()));
  }
  check_alignment(access);
  for (uint64_t i = first; i < first + size; ++i) {
    if (!found->is_output && access.is_store) throw GpuFault(what(access) + " writes to an input");
    if (!found->is_output) continue;
    int64_t& writer = found->writer[i];
    if (!access.is_store) {
      if (access.is_read_only) throw GpuFault(what(access) + " takes an output for read-only");
      if (writer == kNobody) throw GpuFault(what(access) + " reads what nobody wrote");
      if (writer != access.thread) throw GpuFault(what(access) + " reads what another thread wrote");
      continue;
    }
    // A thread may write what it wrote already: that changes nothing, in whatever order.
    const bool is_again =
        writer == access.thread && access.stored != nullptr && access.stored[i - first] == found->bytes[i];
    if (writer != kNobody && !is_again) throw GpuFault(what(access) + " writes what was written already");
    writer = access.thread;
  }
  return found->bytes.data() + first;
}

void GlobalMemory::count_sectors(const std::set<uint64_t>& sectors) {
  for (const uint64_t sector : sectors) {
    take_from_cache(sector);
    for (GpuBuffer& buffer : buffers_) {
      const uint64_t first = buffer.address / kGpuSectorBytes;
      if (sector >= first && sector < first + kApart / kGpuSectorBytes) ++buffer.sectors;
    }
  }
}

void GlobalMemory::take_from_cache(uint64_t sector) {
  if (const auto found = cached_.find(sector); found != cached_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return;
  }
  ++missed_sectors_;
  touched_.insert(sector);
  recent_.push_front(sector);
  cached_[sector] = recent_.begin();
  if (cached_.size() <= kCacheSectors) return;
  cached_.erase(recent_.back());
  recent_.pop_back();
}

SharedMemory::SharedMemory(int64_t bytes, WarpOrder& order, std::vector<size_t> warps)
    : bytes_(static_cast<size_t>(bytes)),
      cells_(static_cast<size_t>(bytes)),
      meetings_(order.warps()),
      ended_in_(order.warps(), std::numeric_limits<int64_t>::max()),
      order_(order),
      warps_(std::move(warps)) {}

void SharedMemory::barrier() {
  ++epoch_;
  order_.meet(warps_);
}

void SharedMemory::check_bounds(const GpuAccess& access) const {
  if (access.address + static_cast<uint64_t>(access.bytes) > bytes_.size()) {
    throw GpuFault(what(access) + " is outside the shared memory: byte " + std::to_string(access.address) +
                   " of " + std::to_string(bytes_.size()));
  }
  check_alignment(access);
}

void SharedMemory::take_store(Cell& cell, const GpuAccess& access, uint64_t byte) const {
  if (cell.copier >= 0)
    throw GpuFault("race: a thread writes where a copy is under way to" + at(access, byte));
  if (cell.matrix_readers > 0)
    throw GpuFault("race: a thread writes what a product of a warpgroup that is under way reads" +
                   at(access, byte));
  if (cell.box_phase >= 0) demand_phase(cell, access, byte);
  demand_others_are_done(access, byte);
  if (cell.writer != access.thread && !is_over(cell.writer, cell.written_in, access.thread) &&
      !has_met(cell.writer, cell.written_at, access))
    throw GpuFault("race: two threads write" + at(access, byte) + " and thread " +
                   std::to_string(cell.writer));
  if (!is_over(cell.reader, cell.read_in, access.thread) &&
      (cell.has_readers || cell.reader != access.thread) &&
      (cell.has_warps || !has_met(cell.reader, cell.read_at, access)))
    throw GpuFault("race: a thread writes what another one reads" + at(access, byte));
}

void SharedMemory::take_load(Cell& cell, const GpuAccess& access, uint64_t byte) const {
  if (cell.copier >= 0)
    throw GpuFault("race: a thread reads where a copy is under way to" + at(access, byte));
  if (cell.written_in < 0)
    throw GpuFault(what(access) + " reads shared memory that nobody wrote" + at(access, byte));
  if (cell.box_phase >= 0) demand_phase(cell, access, byte);
  if (cell.box_phase < 0 && cell.writer != access.thread &&
      !is_over(cell.writer, cell.written_in, access.thread) && !has_met(cell.writer, cell.written_at, access))
    throw GpuFault("race: a thread reads what thread " + std::to_string(cell.writer) + " writes" +
                   at(access, byte));
  const bool is_again = cell.read_in == epoch_;
  cell.has_readers = is_again && (cell.has_readers || cell.reader != access.thread);
  cell.has_warps =
      is_again && (cell.has_warps || WarpOrder::warp_of(cell.reader) != WarpOrder::warp_of(access.thread));
  cell.read_at = meetings_[WarpOrder::warp_of(access.thread)];
  cell.reader = access.thread;
  cell.read_in = epoch_;
}

unsigned char* SharedMemory::access(const GpuAccess& access) {
  check_bounds(access);
  if (!access.is_store) remember_read(access);
  for (uint64_t i = access.address; i < access.address + static_cast<uint64_t>(access.bytes); ++i) {
    Cell& cell = cells_[i];
    if (!access.is_store) {
      take_load(cell, access, i);
      continue;
    }
    take_store(cell, access, i);
    write(cell, access.thread);
  }
  return bytes_.data() + access.address;
}

const unsigned char* SharedMemory::load_of_cluster(const GpuAccess& load) {
  check_bounds(load);
  for (uint64_t i = load.address; i < load.address + static_cast<uint64_t>(load.bytes); ++i) {
    const Cell& cell = cells_[i];
    if (cell.copier >= 0)
      throw GpuFault("race: a thread of another block reads where a copy is under way to" + at(load, i));
    if (cell.written_in < 0)
      throw GpuFault(what(load) + " reads shared memory of another block that nobody wrote" + at(load, i));
    if (cell.box_phase >= 0) {
      demand_phase(cell, load, i);
    } else if (!is_over(cell.writer, cell.written_in, load.thread)) {
      throw GpuFault("race: a thread of another block reads what thread " + std::to_string(cell.writer) +
                     " writes" + at(load, i));
    }
    ReadsByWarp& by_warp = reads_of_others_[i];
    by_warp.resize(order_.warps());
    by_warp[WarpOrder::warp_of(load.thread)] = order_.now(load.thread);
  }
  return bytes_.data() + load.address;
}

void SharedMemory::begin_copy(const GpuAccess& store) {
  check_bounds(store);
  for (uint64_t i = store.address; i < store.address + static_cast<uint64_t>(store.bytes); ++i) {
    take_store(cells_[i], store, i);
    cells_[i].copier = store.thread;
  }
}

unsigned char* SharedMemory::end_copy(const GpuAccess& store) {
  for (uint64_t i = store.address; i < store.address + static_cast<uint64_t>(store.bytes); ++i) {
    cells_[i].copier = -1;
    write(cells_[i], store.thread);
  }
  return bytes_.data() + store.address;
}

void SharedMemory::write(Cell& cell, int64_t thread) {
  cell.writer = thread;
  cell.written_in = epoch_;
  cell.written_at = meetings_[WarpOrder::warp_of(thread)];
  cell.write = writes_++;
  cell.box_phase = -1;
}

// That what a thread wrote is seen by what goes through the async proxy.
void SharedMemory::demand_fence(const Cell& cell, const std::string& reader, const GpuAccess& access,
                                uint64_t byte) const {
  const auto fences = fences_.find(cell.writer);
  if (fences != fences_.end()) {
    const auto first = std::partition_point(fences->second.begin(), fences->second.end(),
                                            [&](const Fence& fence) { return fence.writes <= cell.write; });
    if (first != fences->second.end() && is_over(cell.writer, first->epoch, access.thread)) return;
  }
  throw GpuFault(reader + " what thread " + std::to_string(cell.writer) +
                 " wrote without a fence of the async proxy" + at(access, byte));
}

void SharedMemory::demand_phase(const Cell& cell, const GpuAccess& access, uint64_t byte) const {
  if (order_.of(access.thread).phases_of(name_in_cluster(cell.box_barrier)) > cell.box_phase) return;
  throw GpuFault("race: a thread that has not waited for a box touches it" + at(access, byte));
}

void SharedMemory::demand_others_are_done(const GpuAccess& store, uint64_t byte) const {
  if (reads_of_others_.empty()) return;
  const auto reads = reads_of_others_.find(byte);
  if (reads == reads_of_others_.end()) return;
  const std::vector<int64_t>& known = order_.of(store.thread).events;
  for (size_t w = 0; w < known.size(); ++w) {
    if (reads->second[w] <= known[w]) continue;
    throw GpuFault("race: what warp " + std::to_string(w) + " of another block reads is written" +
                   at(store, byte));
  }
}

void SharedMemory::remember_read(const GpuAccess& access) {
  if (!watches_reads_) return;
  ReadsByWarp& by_warp = reads_[access.address / kBoxPart];
  by_warp.resize(order_.warps());
  by_warp[WarpOrder::warp_of(access.thread)] = order_.now(access.thread);
}

void SharedMemory::begin_box(const GpuAccess& store) {
  check_bounds(store);
  const WarpKnowledge& known = order_.of(store.thread);
  if (const auto reads = reads_.find(store.address / kBoxPart); reads != reads_.end()) {
    for (size_t w = 0; w < reads->second.size(); ++w) {
      if (reads->second[w] <= known.events[w]) continue;
      throw GpuFault("race: a box comes where warp " + std::to_string(w) +
                     " reads, and nobody has said that it is done" + at(store, store.address));
    }
  }
  for (uint64_t i = store.address; i < store.address + static_cast<uint64_t>(store.bytes); ++i) {
    Cell& cell = cells_[i];
    if (cell.copier >= 0) throw GpuFault("race: a box comes where a copy is under way to" + at(store, i));
    demand_others_are_done(store, i);
    if (cell.matrix_readers > 0)
      throw GpuFault("race: a box comes where a product of a warpgroup that is under way reads" +
                     at(store, i));
    if (cell.box_phase >= 0) {
      demand_phase(cell, store, i);
    } else if (cell.written_in >= 0) {
      demand_fence(cell, "a box goes over", store, i);
    }
    cell.copier = store.thread;
  }
}

unsigned char* SharedMemory::end_box(const GpuAccess& store, uint64_t barrier, int64_t phase) {
  for (uint64_t i = store.address; i < store.address + static_cast<uint64_t>(store.bytes); ++i) {
    cells_[i].copier = -1;
    write(cells_[i], store.thread);
    cells_[i].box_barrier = barrier;
    cells_[i].box_phase = phase;
  }
  reads_.erase(store.address / kBoxPart);
  return bytes_.data() + store.address;
}

void SharedMemory::take_matrix_read(const Cell& cell, const GpuAccess& access, uint64_t byte) const {
  if (cell.copier >= 0)
    throw GpuFault("race: a product of a warpgroup reads where a copy is under way to" + at(access, byte));
  if (cell.written_in < 0)
    throw GpuFault("a product of a warpgroup reads shared memory that nobody wrote" + at(access, byte));
  if (cell.box_phase >= 0) return demand_phase(cell, access, byte);
  if (!is_over(cell.writer, cell.written_in, access.thread))
    throw GpuFault("race: a product of a warpgroup reads what thread " + std::to_string(cell.writer) +
                   " writes" + at(access, byte));
  demand_fence(cell, "a product of a warpgroup reads", access, byte);
}

const unsigned char* SharedMemory::begin_matrix_read(const GpuAccess& load) {
  check_bounds(load);
  for (uint64_t i = load.address; i < load.address + static_cast<uint64_t>(load.bytes); ++i) {
    take_matrix_read(cells_[i], load, i);
    ++cells_[i].matrix_readers;
  }
  return bytes_.data() + load.address;
}

void SharedMemory::end_matrix_read(const GpuAccess& load) {
  remember_read(load);
  for (uint64_t i = load.address; i < load.address + static_cast<uint64_t>(load.bytes); ++i) {
    --cells_[i].matrix_readers;
    cells_[i].reader = load.thread;
    cells_[i].has_readers = cells_[i].has_warps = true;  // the threads of the group
    cells_[i].read_in = epoch_;
  }
}

void AsyncCopies::begin(const GpuAccess& store, std::vector<unsigned char> bytes, SharedMemory& shared) {
  shared.begin_copy(store);
  open_.push_back({store, std::move(bytes)});
}

void AsyncCopies::commit() {
  groups_.push_back(std::move(open_));
  open_.clear();
}

void AsyncCopies::wait(size_t most_left, SharedMemory& shared) {
  for (; groups_.size() > most_left; groups_.pop_front()) {
    for (const Copy& copy : groups_.front()) {
      std::copy(copy.bytes.begin(), copy.bytes.end(), shared.end_copy(copy.store));
    }
  }
}

}  // namespace tilefuse
