#include "tests/gpu/ptx_warp.h"

#include <algorithm>
#include <utility>

namespace tilefuse {

size_t Warp::next_group(const std::vector<PtxInstruction>& instructions) {
  const auto place = [&](const Group& group) {
    const bool waits = group.lanes != kAllLanes && instructions.at(group.at).kind == PtxKind::Barrier;
    return std::pair(waits, group.at);
  };
  size_t next = 0;
  for (size_t i = 1; i < groups.size(); ++i) {
    if (place(groups[i]) < place(groups[next])) next = i;
  }
  for (size_t i = groups.size(); i-- > 0;) {
    if (i == next || groups[i].at != groups[next].at) continue;
    groups[next].lanes |= groups[i].lanes;
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
    if (i < next) --next;
  }
  return next;
}

void Warp::branch(size_t number, uint32_t lanes, size_t target) {
  Group& group = groups[number];
  group.lanes &= ~lanes;
  const bool all_go = group.lanes == 0;
  if (all_go) {
    group = {target, lanes};
  } else if (lanes != 0) {
    groups.push_back({target, lanes});
  }
}

void Warp::compute(uint32_t lanes, const PtxInstruction& instruction) {
  Row& result = registers[size_t(instruction.results[0])];
  for_each_lane(lanes, [&](int lane) {
    std::array<uint64_t, 4> operands{};
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      operands[i] = registers[size_t(instruction.operands[i])][size_t(lane)];
    }
    result[size_t(lane)] = instruction.operation.compute(operands.data());
  });
}

// The lane that one reads from; itself, where there is none so far below.
size_t source_lane(PtxShuffle shuffle, int lane, uint64_t operand) {
  const auto by = static_cast<int>(operand & 31);
  if (shuffle == PtxShuffle::Index) return static_cast<size_t>(by);
  if (shuffle == PtxShuffle::Up) return static_cast<size_t>(lane >= by ? lane - by : lane);
  return static_cast<size_t>(lane ^ by);
}

void Warp::shuffle(uint32_t lanes, const PtxInstruction& instruction) {
  if (lanes == 0) return;
  const Row from = registers[size_t(instruction.operands[0])];
  const Row& distance = registers[size_t(instruction.operands[1])];
  const Row& width = registers[size_t(instruction.operands[2])];
  const Row& members = registers[size_t(instruction.operands[3])];
  for_each_lane(lanes, [&](int lane) {
    if (static_cast<uint32_t>(members[size_t(lane)]) != lanes) {
      throw GpuFault("a shuffle of lanes that are not all there");
    }
    const uint64_t whole = instruction.shuffle == PtxShuffle::Up ? 0 : kLanes - 1;
    if (width[size_t(lane)] != whole) throw GpuFault("a shuffle of other than whole warps");
    const size_t source = source_lane(instruction.shuffle, lane, distance[size_t(lane)]);
    if ((lanes >> source & 1) == 0) throw GpuFault("a shuffle from a lane that is not there");
    registers[size_t(instruction.results[0])][size_t(lane)] = static_cast<uint32_t>(from[source]);
    const bool is_beyond =
        instruction.shuffle == PtxShuffle::Up && source == size_t(lane) && (distance[size_t(lane)] & 31) != 0;
    if (instruction.results.size() > 1)
      registers[size_t(instruction.results[1])][size_t(lane)] = is_beyond ? 0 : 1;
  });
}

uint64_t Warp::value_of_all_lanes(int number) const {
  const Row& values = registers[size_t(number)];
  if (std::any_of(values.begin(), values.end(), [&](uint64_t value) { return value != values[0]; }))
    throw GpuFault("an operand of a product differs between lanes");
  return values[0];
}

void demand_whole_warp(uint32_t lanes) {
  if (lanes == kAllLanes) return;
  throw GpuFault("a matrix instruction of " + std::to_string(std::popcount(lanes)) + " of 32 lanes");
}

}  // namespace tilefuse
