#include "tests/gpu/ptx_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>

#include "tests/gpu/bank_counter.h"
#include "tests/gpu/ptx_barrier.h"
#include "tests/gpu/ptx_warp.h"
#include "tests/gpu/ptx_warpgroup.h"

namespace tilefuse {
namespace {

constexpr int64_t kMostInstructions = 10'000'000;  // of a run: a loop without an end is an error, too

class Runner {
 public:
  Runner(const PtxProgram& program, const GpuGrid& grid, std::vector<GpuBuffer> buffers,
         const std::vector<int64_t>& sizes, const std::vector<TensorMapLayout>& maps)
      : program_(program), grid_(grid), memory_(std::move(buffers)), shared_(0, 0), maps_(maps) {
    if (grid.threads % kLanes != 0) throw GpuFault("a block is no whole number of warps");
    if (const std::string why = why_refused(program, grid); !why.empty()) throw GpuFault(why);
    parameters_.resize(static_cast<size_t>(program.parameter_bytes));
    std::vector<uint64_t> values;
    for (const GpuBuffer& buffer : memory_.buffers()) values.push_back(buffer.address);
    for (const int64_t size : sizes) values.push_back(static_cast<uint64_t>(size));
    if (values.size() != program.parameter_offsets.size() || maps.size() != program.tensor_map_offsets.size())
      throw GpuFault("the kernel has other parameters");
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(parameters_.data() + program.parameter_offsets[i], &values[i], sizeof values[i]);
    }
  }

  GpuRun run() {
    for (block_ = 0; block_ < grid_.blocks; ++block_) run_block();
    check_outputs();
    run_.buffers = memory_.buffers();
    run_.missed_sectors = memory_.missed_sectors();
    run_.touched_sectors = memory_.touched_sectors();
    return std::move(run_);
  }

 private:
  Warp new_warp(int number) const {
    Warp warp;
    warp.number = number;
    warp.registers.resize(static_cast<size_t>(program_.registers));
    warp.groups = {{0, kAllLanes}};
    warp.products = WarpProducts(program_.has_group_products ? program_.registers : 0);
    for (const PtxConstant& constant : program_.constants)
      warp.registers[size_t(constant.reg)].fill(constant.value);
    for (const PtxSpecial& special : program_.specials) {
      for (int lane = 0; lane < kLanes; ++lane) {
        warp.registers[size_t(special.reg)][size_t(lane)] =
            special_value(special.what, number * kLanes + lane);
      }
    }
    return warp;
  }

  uint64_t special_value(PtxSpecial::What what, int thread) const {
    switch (what) {
      case PtxSpecial::What::ThreadX:
        return static_cast<uint64_t>(thread);
      case PtxSpecial::What::BlockX:
        return static_cast<uint64_t>(block_);
      case PtxSpecial::What::BlockThreadsX:
        return static_cast<uint64_t>(grid_.threads);
      case PtxSpecial::What::BlocksX:
        return static_cast<uint64_t>(grid_.blocks);
    }
    return 0;
  }

  void run_block() {
    const int warp_count = grid_.threads / kLanes;
    shared_ = SharedMemory(
        program_.given_at ? *program_.given_at + grid_.shared_bytes : program_.shared_bytes, warp_count);
    barriers_ = SharedBarriers();
    boxes_ = BoxCopies();
    registers_ = WarpRegisters(program_.threads, warp_count);
    std::vector<Warp> warps;
    for (int w = 0; w < warp_count; ++w) warps.push_back(new_warp(w));
    group_orders_.assign(warps.size() / kGroupWarps, {});
    for (;;) {
      const int64_t before = events_;
      for (Warp& warp : warps) run_warp(warp);
      const auto count = [&](const auto& is) { return std::count_if(warps.begin(), warps.end(), is); };
      if (count([](const Warp& warp) { return warp.yields; }) > 0) {
        if (events_ == before && !boxes_.end_oldest(shared_, barriers_)) throw GpuFault(deadlock(warps));
        continue;
      }
      for (const GroupOrder& order : group_orders_) order.demand_even();
      const auto waiting = count([](const Warp& warp) { return warp.waits; });
      if (waiting == 0) break;
      if (waiting != static_cast<std::ptrdiff_t>(warps.size())) {
        throw GpuFault("a barrier is reached by " + std::to_string(waiting) + " of " +
                       std::to_string(warps.size()) + " warps, the others have ended");
      }
      shared_.barrier();
      for (Warp& warp : warps) warp.waits = false;
    }
    if (boxes_.end_oldest(shared_, barriers_)) throw GpuFault("a block ends while a box is under way");
    registers_.check();
  }

  std::string deadlock(const std::vector<Warp>& warps) const {
    std::string text = "block " + std::to_string(block_) + ": no warp can go on";
    for (const Warp& warp : warps) {
      const std::string name = "; warp " + std::to_string(warp.number);
      if (warp.yields)
        text += name + " waits at PTX line " + std::to_string(warp.waits_at->line) + " for " +
                barriers_.missing_of(warp.waited_for);
      if (warp.waits) text += name + " waits at a barrier of the block";
    }
    return text;
  }

  // Until a barrier, one in shared memory whose phase has not ended, or the end.
  void run_warp(Warp& warp) {
    warp.yields = false;
    while (!warp.groups.empty() && !warp.waits && !warp.yields) {
      const size_t next = warp.next_group();
      const PtxInstruction& instruction = program_.instructions.at(warp.groups[next].at);
      try {
        step(warp, next, instruction);
      } catch (const GpuFault& fault) {
        throw GpuFault("block " + std::to_string(block_) + ", warp " + std::to_string(warp.number) +
                       ", PTX line " + std::to_string(instruction.line) + " `" + instruction.text +
                       "`: " + fault.what());
      }
      if (++run_.instructions > kMostInstructions) throw GpuFault("the kernel does not end");
    }
  }

  void step(Warp& warp, size_t number, const PtxInstruction& instruction) {
    Group& group = warp.groups[number];
    uint32_t lanes = group.lanes;
    if (instruction.predicate >= 0) {
      uint32_t holds = 0;
      const Row& predicate = warp.registers[size_t(instruction.predicate)];
      for (int lane = 0; lane < kLanes; ++lane) holds |= uint32_t{predicate[size_t(lane)] != 0} << lane;
      lanes &= instruction.negated ? ~holds : holds;
    }
    ++group.at;
    if (program_.has_group_products && lanes != 0 && !is_of_warpgroup(instruction.kind))
      warp.products.touch(instruction);
    switch (instruction.kind) {
      case PtxKind::Branch:
        return warp.branch(number, lanes, instruction.target);
      case PtxKind::Exit:
        warp.alive &= ~lanes;
        group.lanes &= ~lanes;
        if (group.lanes == 0) warp.groups.erase(warp.groups.begin() + static_cast<std::ptrdiff_t>(number));
        return;
      case PtxKind::Trap:
        if (lanes != 0) throw GpuFault("the kernel stops itself");
        return;
      case PtxKind::Barrier:
        if (lanes != kAllLanes) {
          throw GpuFault("the barrier is reached by " + std::to_string(std::popcount(lanes)) +
                         " of 32 lanes");
        }
        warp.waits = true;
        ++events_;
        return;
      case PtxKind::Prefetch:
        return for_each_lane(lanes, [&](int lane) { prefetch(warp, lane, instruction); });
      case PtxKind::MeetWarp:
        demand_whole_warp(lanes);
        return shared_.warp_barrier(warp.number);
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
        return for_each_lane(lanes,
                             [&](int lane) { shared_.fence_of_async_proxy(warp.number * kLanes + lane); });
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

  // Of a thread.
  void step_of_boxes(Warp& warp, int lane, const PtxInstruction& instruction) {
    const int64_t thread = warp.number * kLanes + lane;
    const auto operand = [&](size_t i) {
      return warp.registers[size_t(instruction.operands.at(i))][size_t(lane)];
    };
    const auto place = [&](size_t i) { return uint64_t{static_cast<uint32_t>(operand(i))}; };
    const auto number = [&](size_t i) { return int64_t{static_cast<int32_t>(operand(i))}; };
    ++events_;
    if (instruction.kind == PtxKind::BeginBarrier) {
      shared_.access({thread, place(0), SharedBarriers::kBytes, true, false});
      barriers_.begin(thread, place(0), number(1), shared_.epoch());
    } else if (instruction.kind == PtxKind::ShowBarriers) {
      barriers_.show(thread);
    } else if (instruction.kind == PtxKind::Arrive) {
      barriers_.arrive(thread, place(0), instruction.operands.size() > 1 ? number(1) : 0, shared_);
    } else if (instruction.kind == PtxKind::CopyBox) {
      copy_box(thread, {place(0), operand(1), place(2)},
               {number(3), number(4), instruction.operands.size() > 5 ? number(5) : 0});
    } else {
      const bool has_ended = barriers_.wait(thread, place(0), place(1), shared_);
      warp.registers[size_t(instruction.results[0])][size_t(lane)] = has_ended ? 1 : 0;
      if (has_ended) return;
      --events_;
      warp.yields = true;
      warp.waited_for = place(0);
      warp.waits_at = &instruction;
    }
  }

  struct BoxPlaces {
    uint64_t to, map, barrier;
  };
  void copy_box(int64_t thread, const BoxPlaces& places, const std::vector<int64_t>& at) {
    const auto& offsets = program_.tensor_map_offsets;
    const auto found =
        std::find(offsets.begin(), offsets.end(), static_cast<int64_t>(places.map ^ kParameterSpace));
    if (found == offsets.end()) throw GpuFault("there is no tensor map at that address");
    const TensorMapLayout& map = maps_[size_t(found - offsets.begin())];
    boxes_.begin(
        {thread, places.to, places.barrier, read_box(map, at, thread + block_ * grid_.threads, memory_)},
        shared_, barriers_);
    ++run_.boxes;
  }

  void load_parameter(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
    uint64_t value = 0;
    std::memcpy(&value, parameters_.data() + instruction.offset,
                static_cast<size_t>(instruction.element_bytes));
    for_each_lane(lanes,
                  [&](int lane) { warp.registers[size_t(instruction.results[0])][size_t(lane)] = value; });
  }

  // Lane 8 * i + r says where row r of matrix i is, 16 bytes; what a lane receives is its own read.
  void load_matrix(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
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
              shared_.access({.thread = warp.number * kLanes + lane,
                              .address = static_cast<uint32_t>(row + uint64_t(instruction.offset)) +
                                         2 * uint64_t(place.column),
                              .bytes = 2});
          pair |= uint64_t{bytes[0]} << (16 * half) | uint64_t{bytes[1]} << (16 * half + 8);
        }
        result[size_t(lane)] = pair;
      }
    }
    run_.bank_conflicts += banks.conflicts();
  }

  void multiply(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
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
    ++run_.matrix_products;
  }

  static bool is_of_warpgroup(PtxKind kind) {
    return kind == PtxKind::FenceProducts || kind == PtxKind::BeginProduct ||
           kind == PtxKind::CommitProducts || kind == PtxKind::WaitForProducts;
  }

  void multiply_in_group(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
    demand_whole_warp(lanes);
    const auto group = static_cast<size_t>(warp.number / kGroupWarps);
    if (group >= group_orders_.size()) throw GpuFault("a warpgroup of less than four warps");
    if (instruction.kind == PtxKind::BeginProduct) return begin_product(warp, instruction);
    group_orders_[group].take(warp.number % kGroupWarps, instruction, {});
    if (instruction.kind == PtxKind::FenceProducts) return warp.products.fence();
    if (instruction.kind == PtxKind::CommitProducts) return warp.products.commit();
    warp.products.wait(instruction.groups_left, shared_);
  }

  void begin_product(Warp& warp, const PtxInstruction& instruction) {
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
                             reads.push_back({warp.number * kLanes, address, kChunkBytes, false, false});
                             return shared_.begin_matrix_read(reads.back());
                           }};
    for (const int sum : instruction.results) operands.sums.push_back(warp.registers[size_t(sum)]);
    for (size_t i = 0; product.is_first_in_registers && i < 4; ++i)
      operands.first_in_registers[i] = warp.registers[size_t(instruction.operands[i])];
    const std::vector<LaneValues> sums = multiply_group(product, number, operands);
    warp.products.begin(instruction, std::move(reads));
    for (size_t i = 0; i < sums.size(); ++i) warp.registers[size_t(instruction.results[i])] = sums[i];
    ++run_.group_products;
  }

  void begin_copy(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
    const auto& [to, sizes, from] = std::tie(warp.registers[size_t(instruction.operands[0])],
                                             warp.registers[size_t(instruction.operands[1])],
                                             warp.registers[size_t(instruction.operands[2])]);
    std::set<uint64_t> sectors;
    BankCounter banks(instruction.element_bytes);
    for_each_lane(lanes, [&](int lane) {
      const int thread = warp.number * kLanes + lane, bytes = instruction.element_bytes;
      const int size = static_cast<int>(sizes[size_t(lane)]);
      if (size < 0 || size > bytes) throw GpuFault("a copy of " + std::to_string(size) + " bytes");
      std::vector<unsigned char> copied(static_cast<size_t>(bytes));
      const uint64_t source = from[size_t(lane)] + static_cast<uint64_t>(instruction.offset);
      if (source % static_cast<uint64_t>(bytes) != 0) throw GpuFault("the source of a copy is not aligned");
      for (int i = 0; i < size; ++i) {
        copied[size_t(i)] = *memory_.access(
            {.thread = thread + block_ * grid_.threads, .address = source + uint64_t(i), .bytes = 1});
        sectors.insert((source + uint64_t(i)) / kGpuSectorBytes);
      }
      const GpuAccess store{thread, static_cast<uint32_t>(to[size_t(lane)]), bytes, true, false};
      banks.take(lane, store.address);
      warp.copies[size_t(lane)].begin(store, std::move(copied), shared_);
    });
    memory_.count_sectors(sectors);
    run_.bank_conflicts += banks.conflicts();
  }

  // Hardware leaves out what is not there; a kernel that asks for it has a place wrong.
  void prefetch(const Warp& warp, int lane, const PtxInstruction& instruction) {
    const uint64_t address = warp.registers[size_t(instruction.operands[0])][size_t(lane)];
    memory_.access({.thread = block_ * grid_.threads + warp.number * kLanes + lane,
                    .address = address + static_cast<uint64_t>(instruction.offset),
                    .bytes = 1});
  }

  void access(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
    const bool is_store = instruction.kind == PtxKind::Store;
    const std::vector<int>& elements = is_store ? instruction.operands : instruction.results;
    const size_t count = is_store ? elements.size() - 1 : elements.size();
    const auto element = static_cast<size_t>(instruction.element_bytes);
    const Row& addresses = warp.registers[size_t(instruction.operands.back())];
    std::set<uint64_t> sectors;
    BankCounter banks(static_cast<int>(count * element));
    for_each_lane(lanes, [&](int lane) {
      const uint64_t address = addresses[size_t(lane)] + static_cast<uint64_t>(instruction.offset);
      const int thread = warp.number * kLanes + lane;
      GpuAccess wanted{thread, address, static_cast<int>(count * element), is_store,
                       instruction.is_read_only};
      std::array<unsigned char, 16> stored{};  // the widest access
      if (is_store) {
        for (size_t i = 0; i < count; ++i)
          std::memcpy(&stored.at(i * element), &warp.registers[size_t(elements[i])][size_t(lane)], element);
        wanted.stored = stored.data();
      }
      unsigned char* bytes = nullptr;
      if (instruction.space == PtxSpace::Shared) {
        wanted.address = static_cast<uint32_t>(address);
        banks.take(lane, wanted.address);
        bytes = shared_.access(wanted);
      } else {
        wanted.thread += block_ * grid_.threads;
        bytes = memory_.access(wanted);
        for (uint64_t at = address; at < address + count * element; ++at)
          sectors.insert(at / kGpuSectorBytes);
      }
      for (size_t i = 0; i < count; ++i) {
        if (is_store) {
          std::memcpy(bytes + i * element, &stored.at(i * element), element);
        } else {
          uint64_t& value = warp.registers[size_t(elements[i])][size_t(lane)];
          value = 0;
          std::memcpy(&value, bytes + i * element, element);
          const int unused = 64 - 8 * static_cast<int>(element);
          if (instruction.extends_sign)
            value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
        }
      }
    });
    memory_.count_sectors(sectors);
    run_.bank_conflicts += banks.conflicts();
  }

  void check_outputs() const {
    for (size_t b = 0; b < memory_.buffers().size(); ++b) {
      const GpuBuffer& buffer = memory_.buffers()[b];
      if (!buffer.is_output) continue;
      const auto missing = std::find(buffer.writer.begin(), buffer.writer.end(), -1);
      if (missing == buffer.writer.end()) continue;
      throw GpuFault("nobody writes byte " + std::to_string(missing - buffer.writer.begin()) + " of buffer " +
                     std::to_string(b));
    }
  }

  const PtxProgram& program_;
  GpuGrid grid_;
  GlobalMemory memory_;
  SharedMemory shared_;
  std::vector<unsigned char> parameters_;
  int64_t block_ = 0;
  std::vector<GroupOrder> group_orders_;  // of the block's warpgroups
  const std::vector<TensorMapLayout>& maps_;
  SharedBarriers barriers_;
  BoxCopies boxes_;
  WarpRegisters registers_;
  int64_t events_ = 0;  // that may let a warp go on which waits
  GpuRun run_;
};

}  // namespace

GpuRun run_ptx(const PtxProgram& program, const GpuGrid& grid, std::vector<GpuBuffer> buffers,
               const std::vector<int64_t>& sizes, const std::vector<TensorMapLayout>& maps) {
  return Runner(program, grid, std::move(buffers), sizes, maps).run();
}

}  // namespace tilefuse
