#include "tests/gpu/ptx_warpgroup.h"

#include <algorithm>
#include <bit>

namespace tilefuse {
namespace {

constexpr int kDepth = 16, kWarpRows = 16, kEight = 8;  // of elements of 16 bits
constexpr int kMostDepth = 32;
constexpr int kMatrixColumns = 8, kSumsOfMatrix = 4;  // of a lane

using Rows = std::vector<std::array<double, kMostDepth>>;

uint64_t bits_of(uint64_t word, int first, int count) { return word >> first & ((uint64_t{1} << count) - 1); }

// The bits of an address that say which chunk of a line it is are exchanged: as many as a line has.
uint64_t in_pattern(const SharedMatrix& matrix, uint64_t address) {
  const uint64_t line = (address >> 7) - matrix.base_offset;
  const auto chunks = static_cast<uint64_t>(matrix.line_bytes / kChunkBytes);
  return address ^ (line & (chunks - 1)) << 4;
}

// Rows of a factor in shared memory, of one instruction's depth. Elements of other sizes lie as those of 16
// bits that fill the same bytes.
Rows read_rows(MatrixElement element, const GroupOperands& from, const SharedMatrix& matrix, bool is_turned,
               int first, int count) {
  Rows rows(static_cast<size_t>(count));
  const int in_chunk = kChunkBytes / 4 * in_register(element), bytes_each = kChunkBytes / in_chunk;
  const int chunks = count * kDepth / kChunkElements;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int row = is_turned ? chunk / kDepth * kEight : chunk / 2;
    const int k = is_turned ? chunk % kDepth : chunk % 2 * kEight;
    const unsigned char* bytes = from.chunk_at(chunk_address(matrix, is_turned, first + row, k));
    for (int e = 0; e < in_chunk; ++e) {
      uint64_t bits = 0;
      for (int b = 0; b < bytes_each; ++b) bits |= uint64_t{bytes[bytes_each * e + b]} << (8 * b);
      rows[size_t(is_turned ? row + e : row)][size_t(is_turned ? k : k / kEight * in_chunk + e)] =
          matrix_number(element, bits);
    }
  }
  return rows;
}

Rows rows_in_registers(const PtxGroupProduct& product, const GroupOperands& from) {
  Rows rows(kWarpRows);
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const MatrixPlace at = place_in_a(product.element, lane, i);
      const uint64_t bits = from.first_in_registers[size_t(i / 2)][size_t(lane)] >> (16 * (i % 2)) & 0xffff;
      rows[size_t(at.row)][size_t(at.column)] = matrix_number(product.element, bits);
    }
  }
  return rows;
}

}  // namespace

SharedMatrix read_descriptor(uint64_t bits) {
  static constexpr std::array kLineBytes = {16, 128, 64, 32};
  const uint64_t unused =
      bits_of(bits, 14, 2) | bits_of(bits, 30, 2) | bits_of(bits, 46, 3) | bits_of(bits, 52, 10);
  if (unused != 0) throw GpuFault("a descriptor of a matrix has bits that mean nothing");
  return {.start = bits_of(bits, 0, 14) * kChunkBytes,
          .leading = bits_of(bits, 16, 14) * kChunkBytes,
          .stride = bits_of(bits, 32, 14) * kChunkBytes,
          .line_bytes = kLineBytes[bits >> 62],
          .base_offset = bits_of(bits, 49, 3)};
}

uint64_t chunk_address(const SharedMatrix& matrix, bool is_turned, int row, int k) {
  const auto number = [](int n) { return static_cast<uint64_t>(n); };
  const int of_line = matrix.line_bytes / kChunkBytes;
  const int line = is_turned ? k : row, chunk = (is_turned ? row : k) / kChunkElements;
  const uint64_t in_eight = number(line % kEight * matrix.line_bytes), next_eight = number(line / kEight);
  uint64_t offset = in_eight;
  if (matrix.line_bytes == kChunkBytes) {
    const uint64_t of_eight = is_turned ? matrix.leading : matrix.stride;
    const uint64_t of_chunk = is_turned ? matrix.stride : matrix.leading;
    return matrix.start + offset + next_eight * of_eight + number(chunk) * of_chunk;
  }
  offset += next_eight * matrix.stride;
  if (is_turned) {
    offset += number(chunk / of_line) * matrix.leading + number(chunk % of_line * kChunkBytes);
  } else {
    offset += number(chunk * kChunkBytes);
  }
  return in_pattern(matrix, matrix.start + offset);
}

void WarpProducts::touch(const PtxInstruction& instruction) {
  ++now_;
  for (const std::vector<int>& touched : {instruction.operands, instruction.results}) {
    for (const int number : touched) {
      Register& reg = registers_[size_t(number)];
      if (is_under_way(reg)) throw GpuFault("a register of a product that is under way is touched");
      reg.touched_at = now_;
    }
  }
}

void WarpProducts::begin(const PtxInstruction& instruction, std::vector<GpuAccess> reads) {
  const PtxGroupProduct& product = instruction.group_product;
  const auto demand_fence = [&](const Register& reg) {
    if (reg.touched_at <= fenced_at_) return;
    throw GpuFault("a product is begun without wgmma.fence behind what touched its registers");
  };
  for (const int number : instruction.results) {
    Register& reg = registers_[size_t(number)];
    if (!is_under_way(reg)) demand_fence(reg);
    if (is_under_way(reg) && reg.columns != product.columns)
      throw GpuFault("sums of a product that is under way are those of one of another shape");
    reg.group = committed_;
    reg.columns = product.columns;
  }
  for (size_t i = 0; product.is_first_in_registers && i < 4; ++i) {
    Register& reg = registers_[size_t(instruction.operands[i])];
    if (is_under_way(reg) && reg.columns != 0)
      throw GpuFault("a factor of a product is the sums of one that is under way");
    if (!is_under_way(reg)) demand_fence(reg);
    reg.group = committed_;
    reg.columns = 0;
  }
  open_.insert(open_.end(), reads.begin(), reads.end());
}

void WarpProducts::commit() {
  groups_.push_back(std::move(open_));
  open_.clear();
  ++committed_;
}

void WarpProducts::wait(size_t most_left, SharedMemory& shared) {
  for (; groups_.size() > most_left; groups_.pop_front()) {
    for (const GpuAccess& read : groups_.front()) shared.end_matrix_read(read);
    ++done_;
  }
}

void GroupOrder::take(int warp, const PtxInstruction& instruction, std::array<uint64_t, 2> factors) {
  const Event event{&instruction, factors};
  const size_t number = executed_[size_t(warp)]++;
  if (number == events_.size()) events_.push_back(event);
  if (events_[number].instruction != &instruction) {
    throw GpuFault("the warps of a warpgroup part: another one is at PTX line " +
                   std::to_string(events_[number].instruction->line));
  }
  if (events_[number] != event)
    throw GpuFault("the warps of a warpgroup have different descriptors of a matrix");
}

void GroupOrder::demand_even() const {
  for (const size_t executed : executed_) {
    if (executed == events_.size()) continue;
    throw GpuFault("the warps of a warpgroup part: not all of them reach PTX line " +
                   std::to_string(events_[executed].instruction->line));
  }
}

std::vector<LaneValues> multiply_group(const PtxGroupProduct& product, int warp,
                                       const GroupOperands& operands) {
  const auto first = product.is_first_in_registers
                         ? rows_in_registers(product, operands)
                         : read_rows(product.element, operands, operands.first, product.turns_first,
                                     warp * kWarpRows, kWarpRows);
  const auto second =
      read_rows(product.second_element, operands, operands.second, product.turns_second, 0, product.columns);
  const auto depth = static_cast<size_t>(kDepth / 2 * in_register(product.element));
  const double sign = product.negates_first != product.negates_second ? -1 : 1;
  std::vector<LaneValues> result(operands.sums.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const int matrix = static_cast<int>(i) / kSumsOfMatrix, of_matrix = static_cast<int>(i) % kSumsOfMatrix;
    for (int lane = 0; lane < kMatrixLanes; ++lane) {
      const MatrixPlace at = place_in_c(lane, of_matrix);
      const auto before = static_cast<uint32_t>(operands.sums[i][size_t(lane)]);
      const auto& row = first[size_t(at.row)];
      const auto& column = second[size_t(matrix * kMatrixColumns + at.column)];
      double sum = 0;
      for (size_t k = 0; k < depth; ++k) sum += row[k] * column[k];
      result[i][size_t(lane)] =
          is_integer(product.element)
              ? static_cast<uint32_t>(static_cast<int64_t>(sum)) + (operands.adds ? before : 0)
              : std::bit_cast<uint32_t>(
                    cut_to_float(sign * sum + (operands.adds ? double(std::bit_cast<float>(before)) : 0)));
    }
  }
  return result;
}

}  // namespace tilefuse
