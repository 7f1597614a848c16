#include "tests/gpu/ptx_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <tuple>

#include "tests/gpu/bank_counter.h"
#include "tests/gpu/ptx_warpgroup.h"

namespace tilefuse {
namespace {

constexpr int kLanes = kMatrixLanes;
constexpr uint32_t kAllLanes = ~uint32_t{0};
constexpr int64_t kMostInstructions = 10'000'000;  // of a run: a loop without an end is an error, too

using Row = LaneValues;

struct Group {  // lanes at one place
  size_t at = 0;
  uint32_t lanes = 0;
};

struct Warp {
  std::vector<Row> registers;
  std::vector<Group> groups;
  int number = 0;
  uint32_t alive = kAllLanes;
  std::array<AsyncCopies, kLanes> copies;  // by lane
  WarpProducts products;
  bool waits = false;  // at a barrier
};

template <class F>
void for_each_lane(uint32_t lanes, const F& visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(std::countr_zero(lanes));
}

class Runner {
 public:
  Runner(const PtxProgram& program, const GpuGrid& grid, std::vector<GpuBuffer> buffers,
         const std::vector<int64_t>& sizes)
      : program_(program), grid_(grid), memory_(std::move(buffers)), shared_(0) {
    if (grid.threads % kLanes != 0) throw GpuFault("a block is no whole number of warps");
    if (const std::string why = why_refused(program, grid); !why.empty()) throw GpuFault(why);
    parameters_.resize(static_cast<size_t>(program.parameter_bytes));
    std::vector<uint64_t> values;
    for (const GpuBuffer& buffer : memory_.buffers()) values.push_back(buffer.address);
    for (const int64_t size : sizes) values.push_back(static_cast<uint64_t>(size));
    if (values.size() != program.parameter_offsets.size()) throw GpuFault("the kernel has other parameters");
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
    shared_ =
        SharedMemory(program_.given_at ? *program_.given_at + grid_.shared_bytes : program_.shared_bytes);
    std::vector<Warp> warps;
    for (int w = 0; w < grid_.threads / kLanes; ++w) warps.push_back(new_warp(w));
    group_orders_.assign(warps.size() / kGroupWarps, {});
    for (bool any_left = true; any_left;) {
      any_left = false;
      for (Warp& warp : warps) run_warp(warp);
      for (const GroupOrder& order : group_orders_) order.demand_even();
      const auto waiting =
          std::count_if(warps.begin(), warps.end(), [](const Warp& warp) { return warp.waits; });
      if (waiting == 0) return;
      if (waiting != static_cast<std::ptrdiff_t>(warps.size())) {
        throw GpuFault("a barrier is reached by " + std::to_string(waiting) + " of " +
                       std::to_string(warps.size()) + " warps, the others have ended");
      }
      shared_.barrier();
      for (Warp& warp : warps) warp.waits = false;
      any_left = true;
    }
  }

  // Until a barrier or the end.
  void run_warp(Warp& warp) {
    while (!warp.groups.empty() && !warp.waits) {
      const size_t next = next_group(warp);
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

  // The one furthest behind, joined with those at the same place.
  static size_t next_group(Warp& warp) {
    size_t next = 0;
    for (size_t i = 1; i < warp.groups.size(); ++i) {
      if (warp.groups[i].at < warp.groups[next].at) next = i;
    }
    for (size_t i = warp.groups.size(); i-- > 0;) {
      if (i == next || warp.groups[i].at != warp.groups[next].at) continue;
      warp.groups[next].lanes |= warp.groups[i].lanes;
      warp.groups.erase(warp.groups.begin() + static_cast<std::ptrdiff_t>(i));
      if (i < next) --next;
    }
    return next;
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
        return branch(warp, number, lanes, instruction.target);
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
        return;
      case PtxKind::Shuffle:
        return shuffle(warp, lanes, instruction);
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
        return compute(warp, lanes, instruction);
      case PtxKind::LoadParameter:
        return load_parameter(warp, lanes, instruction);
      case PtxKind::Load:
      case PtxKind::Store:
        return access(warp, lanes, instruction);
    }
  }

  static void branch(Warp& warp, size_t number, uint32_t lanes, size_t target) {
    Group& group = warp.groups[number];
    group.lanes &= ~lanes;
    const bool all_go = group.lanes == 0;
    if (all_go) {
      group = {target, lanes};
    } else if (lanes != 0) {
      warp.groups.push_back({target, lanes});
    }
  }

  static void compute(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
    Row& result = warp.registers[size_t(instruction.results[0])];
    for_each_lane(lanes, [&](int lane) {
      std::array<uint64_t, 4> operands{};
      for (size_t i = 0; i < instruction.operands.size(); ++i) {
        operands[i] = warp.registers[size_t(instruction.operands[i])][size_t(lane)];
      }
      result[size_t(lane)] = instruction.operation.compute(operands.data());
    });
  }

  void load_parameter(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
    uint64_t value = 0;
    std::memcpy(&value, parameters_.data() + instruction.offset,
                static_cast<size_t>(instruction.element_bytes));
    for_each_lane(lanes,
                  [&](int lane) { warp.registers[size_t(instruction.results[0])][size_t(lane)] = value; });
  }

  static void shuffle(Warp& warp, uint32_t lanes, const PtxInstruction& instruction) {
    if (lanes == 0) return;
    const Row from = warp.registers[size_t(instruction.operands[0])];
    const Row& distance = warp.registers[size_t(instruction.operands[1])];
    const Row& width = warp.registers[size_t(instruction.operands[2])];
    const Row& members = warp.registers[size_t(instruction.operands[3])];
    for_each_lane(lanes, [&](int lane) {
      if (static_cast<uint32_t>(members[size_t(lane)]) != lanes) {
        throw GpuFault("a shuffle of lanes that are not all there");
      }
      if (width[size_t(lane)] != kLanes - 1) throw GpuFault("a shuffle of other than whole warps");
      const auto source = static_cast<size_t>(lane) ^ (distance[size_t(lane)] & 31);
      if ((lanes >> source & 1) == 0) throw GpuFault("a shuffle from a lane that is not there");
      warp.registers[size_t(instruction.results[0])][size_t(lane)] = static_cast<uint32_t>(from[source]);
      if (instruction.results.size() > 1) warp.registers[size_t(instruction.results[1])][size_t(lane)] = 1;
    });
  }

  static void demand_whole_warp(uint32_t lanes) {
    if (lanes == kAllLanes) return;
    throw GpuFault("a matrix instruction of " + std::to_string(std::popcount(lanes)) + " of 32 lanes");
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
    const auto result = multiply_matrices(instruction.element, fragments);
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

  static uint64_t value_of_all_lanes(const Warp& warp, int number) {
    const Row& values = warp.registers[size_t(number)];
    if (std::any_of(values.begin(), values.end(), [&](uint64_t value) { return value != values[0]; }))
      throw GpuFault("an operand of a product differs between lanes");
    return values[0];
  }

  void begin_product(Warp& warp, const PtxInstruction& instruction) {
    const PtxGroupProduct& product = instruction.group_product;
    const int adds = instruction.operands.back(), second = *(instruction.operands.end() - 2);
    std::array<uint64_t, 2> factors = {0, value_of_all_lanes(warp, second)};
    if (!product.is_first_in_registers) factors[0] = value_of_all_lanes(warp, instruction.operands[0]);
    const int number = warp.number % kGroupWarps;
    group_orders_[size_t(warp.number / kGroupWarps)].take(number, instruction, factors);
    std::vector<GpuAccess> reads;
    GroupOperands operands{.sums = {},
                           .first = read_descriptor(factors[0]),
                           .second = read_descriptor(factors[1]),
                           .adds = value_of_all_lanes(warp, adds) != 0,
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
        uint64_t& value = warp.registers[size_t(elements[i])][size_t(lane)];
        if (is_store) {
          std::memcpy(bytes + i * element, &value, element);
        } else {
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
  GpuRun run_;
};

// "Maximum amount of shared memory per thread block", CUDA C++ Programming Guide, table of technical
// specifications per compute capability.
int64_t most_shared_bytes(const std::string& architecture) {
  static const std::map<std::string, int64_t> kKiB = {{"sm_80", 163},  {"sm_86", 99},  {"sm_87", 163},
                                                      {"sm_89", 99},   {"sm_90", 227}, {"sm_90a", 227},
                                                      {"sm_100", 227}, {"sm_120", 99}};
  const auto found = kKiB.find(architecture);
  if (found == kKiB.end()) throw GpuFault("no device of " + architecture + " is known");
  return found->second << 10;
}

}  // namespace

std::string why_refused(const PtxProgram& program, const GpuGrid& grid) {
  constexpr int64_t kWithoutAsking = 48 << 10;
  const std::string given =
      "the launch gives " + std::to_string(grid.shared_bytes) + " bytes of shared memory";
  const int64_t all = program.given_at.value_or(program.shared_bytes) + grid.shared_bytes;
  if (grid.shared_bytes > 0 && !program.given_at) return given + " that the kernel has no name for";
  if (all <= kWithoutAsking) return "";
  if (all > most_shared_bytes(program.target)) {
    return given + ", " + std::to_string(all) + " in all, and a block of " + program.target +
           " has at most " + std::to_string(most_shared_bytes(program.target));
  }
  if (grid.shared_bytes > grid.most_shared_bytes) {
    return given + ", and the function was set to take " + std::to_string(grid.most_shared_bytes);
  }
  return "";
}

GpuRun run_ptx(const PtxProgram& program, const GpuGrid& grid, std::vector<GpuBuffer> buffers,
               const std::vector<int64_t>& sizes) {
  return Runner(program, grid, std::move(buffers), sizes).run();
}

}  // namespace tilefuse
