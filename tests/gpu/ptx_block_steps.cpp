// What a block does with memory and with matrices.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <tuple>

#include "tests/gpu/bank_counter.h"
#include "tests/gpu/ptx_block.h"

namespace tilefuse {

void PtxBlock::load_parameter(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
  uint64_t value = 0;
  std::memcpy(&value, launch_.parameters.data() + instruction.offset,
              static_cast<size_t>(instruction.element_bytes));
  for_each_lane(lanes,
                [&](int lane) { warp.registers[size_t(instruction.results[0])][size_t(lane)] = value; });
}

// Lane 8 * i + r says where row r of matrix i is, 16 bytes; what a lane receives is its own read.
void PtxBlock::load_matrix(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
  demand_whole_warp(lanes);
  const Row addresses = warp.registers[size_t(instruction.operands[0])];
  BankCounter banks(kMatrixRowBytes);
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t row = static_cast<uint32_t>(addresses[size_t(lane)] + uint64_t(instruction.offset));
    if (row % kMatrixRowBytes != 0) throw GpuFault("a row of a matrix is not aligned");
    banks.take(lane, row);
  }
  for (size_t matrix = 0; matrix < instruction.results.size(); ++matrix) {
    Row& result = warp.registers[size_t(instruction.results[matrix])];
    for (int lane = 0; lane < kLanes; ++lane) {
      uint64_t pair = 0;
      for (int half = 0; half < 2; ++half) {
        const MatrixPlace place = loaded_place(lane, half, instruction.is_transposed);
        const uint64_t row = addresses[matrix * kMatrixRows + size_t(place.row)];
        const unsigned char* bytes =
            shared_.access({.thread = thread_of(warp, lane),
                            .address = static_cast<uint32_t>(row + uint64_t(instruction.offset)) +
                                       2 * uint64_t(place.column),
                            .bytes = 2});
        pair |= uint64_t{bytes[0]} << (16 * half) | uint64_t{bytes[1]} << (16 * half + 8);
      }
      result[size_t(lane)] = pair;
    }
  }
  launch_.run.bank_conflicts += banks.conflicts();
}

void PtxBlock::multiply(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
  demand_whole_warp(lanes);
  MatrixFragments fragments;
  const auto take = [&](auto& to, size_t first) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = warp.registers[size_t(instruction.operands[first + i])];
  };
  take(fragments.a, 0);
  take(fragments.b, 4);
  take(fragments.c, 6);
  const auto result = multiply_matrices(instruction.element, instruction.second_element, fragments);
  for (size_t i = 0; i < result.size(); ++i) warp.registers[size_t(instruction.results[i])] = result[i];
  ++launch_.run.matrix_products;
}

void PtxBlock::multiply_in_group(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
  demand_whole_warp(lanes);
  const auto group = static_cast<size_t>(warp.number / kGroupWarps);
  if (group >= group_orders_.size()) throw GpuFault("a warpgroup of less than four warps");
  if (instruction.kind == PtxKind::BeginProduct) return begin_product(warp, instruction);
  group_orders_[group].take(warp.number % kGroupWarps, instruction, {});
  if (instruction.kind == PtxKind::FenceProducts) return warp.products.fence();
  if (instruction.kind == PtxKind::CommitProducts) return warp.products.commit();
  warp.products.wait(instruction.groups_left, shared_);
}

void PtxBlock::begin_product(Warp& warp, const PtxInstruction& instruction) {
  const PtxGroupProduct& product = instruction.group_product;
  const int adds = instruction.operands.back(), second = *(instruction.operands.end() - 2);
  std::array<uint64_t, 2> factors = {0, warp.value_of_all_lanes(second)};
  if (!product.is_first_in_registers) factors[0] = warp.value_of_all_lanes(instruction.operands[0]);
  const int number = warp.number % kGroupWarps;
  group_orders_[size_t(warp.number / kGroupWarps)].take(number, instruction, factors);
  std::vector<GpuAccess> reads;
  GroupOperands operands{.sums = {},
                         .first = read_descriptor(factors[0]),
                         .second = read_descriptor(factors[1]),
                         .adds = warp.value_of_all_lanes(adds) != 0,
                         .chunk_at = [&](uint64_t address) {
                           reads.push_back({thread_of(warp, 0), address, kChunkBytes, false, false});
                           return shared_.begin_matrix_read(reads.back());
                         }};
  for (const int sum : instruction.results) operands.sums.push_back(warp.registers[size_t(sum)]);
  for (size_t i = 0; product.is_first_in_registers && i < 4; ++i)
    operands.first_in_registers[i] = warp.registers[size_t(instruction.operands[i])];
  const std::vector<LaneValues> sums = multiply_group(product, number, operands);
  warp.products.begin(instruction, std::move(reads));
  for (size_t i = 0; i < sums.size(); ++i) warp.registers[size_t(instruction.results[i])] = sums[i];
  ++launch_.run.group_products;
}

void PtxBlock::begin_copy(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
  const auto& [to, sizes, from] = std::tie(warp.registers[size_t(instruction.operands[0])],
                                           warp.registers[size_t(instruction.operands[1])],
                                           warp.registers[size_t(instruction.operands[2])]);
  std::set<uint64_t> sectors;
  BankCounter banks(instruction.element_bytes);
  for_each_lane(lanes, [&](int lane) {
    const int64_t thread = thread_of(warp, lane);
    const int bytes = instruction.element_bytes;
    const int size = static_cast<int>(sizes[size_t(lane)]);
    if (size < 0 || size > bytes) throw GpuFault("a copy of " + std::to_string(size) + " bytes");
    std::vector<unsigned char> copied(static_cast<size_t>(bytes));
    const uint64_t source = from[size_t(lane)] + static_cast<uint64_t>(instruction.offset);
    if (source % static_cast<uint64_t>(bytes) != 0) throw GpuFault("the source of a copy is not aligned");
    for (int i = 0; i < size; ++i) {
      copied[size_t(i)] = *launch_.memory.access(
          {.thread = thread_of_grid(thread), .address = source + uint64_t(i), .bytes = 1});
      sectors.insert((source + uint64_t(i)) / kGpuSectorBytes);
    }
    const GpuAccess store{thread, static_cast<uint32_t>(to[size_t(lane)]), bytes, true, false};
    banks.take(lane, store.address);
    warp.copies[size_t(lane)].begin(store, std::move(copied), shared_);
  });
  launch_.memory.count_sectors(sectors);
  launch_.run.bank_conflicts += banks.conflicts();
}

// Hardware leaves out what is not there; a kernel that asks for it has a place wrong.
void PtxBlock::prefetch(const Warp& warp, int lane, const PtxInstruction& instruction) {
  const uint64_t address = warp.registers[size_t(instruction.operands[0])][size_t(lane)];
  launch_.memory.access({.thread = thread_of_grid(thread_of(warp, lane)),
                         .address = address + static_cast<uint64_t>(instruction.offset),
                         .bytes = 1});
}

void PtxBlock::access(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
  const bool is_store = instruction.kind == PtxKind::Store;
  const std::vector<int>& elements = is_store ? instruction.operands : instruction.results;
  const size_t count = is_store ? elements.size() - 1 : elements.size();
  const auto element = static_cast<size_t>(instruction.element_bytes);
  const Row& addresses = warp.registers[size_t(instruction.operands.back())];
  std::set<uint64_t> sectors;
  BankCounter banks(static_cast<int>(count * element));
  for_each_lane(lanes, [&](int lane) {
    const uint64_t address = addresses[size_t(lane)] + static_cast<uint64_t>(instruction.offset);
    const int64_t thread = thread_of(warp, lane);
    GpuAccess wanted{thread, address, static_cast<int>(count * element), is_store, instruction.is_read_only};
    std::array<unsigned char, 16> stored{};  // the widest access
    if (is_store) {
      for (size_t i = 0; i < count; ++i)
        std::memcpy(&stored.at(i * element), &warp.registers[size_t(elements[i])][size_t(lane)], element);
      wanted.stored = stored.data();
    }
    const unsigned char* loaded = nullptr;
    unsigned char* bytes = nullptr;
    if (instruction.space == PtxSpace::Global) {
      wanted.thread = thread_of_grid(thread);
      loaded = bytes = launch_.memory.access(wanted);
      for (uint64_t at = address; at < address + count * element; ++at) sectors.insert(at / kGpuSectorBytes);
    } else {
      wanted.address = static_cast<uint32_t>(address);
      banks.take(lane, wanted.address);
      if (instruction.space == PtxSpace::Shared) loaded = bytes = shared_.access(wanted);
      if (instruction.space == PtxSpace::Cluster) loaded = load_of_cluster(wanted);
    }
    for (size_t i = 0; i < count; ++i) {
      if (is_store) {
        std::memcpy(bytes + i * element, &stored.at(i * element), element);
      } else {
        uint64_t& value = warp.registers[size_t(elements[i])][size_t(lane)];
        value = 0;
        std::memcpy(&value, loaded + i * element, element);
        const int unused = 64 - 8 * static_cast<int>(element);
        if (instruction.extends_sign)
          value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
      }
    }
  });
  launch_.memory.count_sectors(sectors);
  launch_.run.bank_conflicts += banks.conflicts();
}

const unsigned char* PtxBlock::load_of_cluster(const GpuAccess& load) {
  const Place place = place_in_cluster(load.thread, load.address, "a load");
  GpuAccess there = load;
  there.address = place.address;
  if (&place.block == this) return shared_.access(there);
  ++launch_.run.remote_loads;
  return place.block.shared_.load_of_cluster(there);
}

}  // namespace tilefuse
