#include "tests/gpu/ptx_matrix.h"

#include <bit>

#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/ptx_operations.h"

namespace tilefuse {
namespace {

constexpr size_t kM = 16;

bool is_tf32(MatrixElement element) { return element == MatrixElement::Tf32; }
int depth(MatrixElement element) { return is_tf32(element) ? 8 : 16; }

// Of a register, which has one element of 32 bits or two of 16.
template <size_t kRegisters>
double element_of(MatrixElement element, const std::array<LaneValues, kRegisters>& registers, int lane,
                  int number) {
  const auto at = static_cast<size_t>(lane), i = static_cast<size_t>(number);
  if (is_tf32(element)) return matrix_number(element, registers[i][at] & 0xffffffff);
  return matrix_number(element, registers[i / 2][at] >> (16 * (i % 2)) & 0xffff);
}

}  // namespace

double matrix_number(MatrixElement element, uint64_t bits) {
  static const PtxOperation kWiden = *find_operation("cvt.f32.f16");
  if (element == MatrixElement::F16) bits = kWiden.compute(&bits);
  if (element == MatrixElement::Bf16) bits <<= 16;
  if (is_tf32(element) && (bits & 0x1fff) != 0)
    throw GpuFault("a matrix instruction takes a number that was not rounded to tf32");
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

MatrixPlace place_in_a(MatrixElement element, int lane, int number) {
  const int group = lane / 4, in_group = lane % 4;
  if (is_tf32(element)) return {group + 8 * (number % 2), in_group + 4 * (number / 2)};
  return {group + 8 * (number / 2 % 2), 2 * in_group + number % 2 + 8 * (number / 4)};
}

MatrixPlace place_in_b(MatrixElement element, int lane, int number) {
  const int group = lane / 4, in_group = lane % 4;
  if (is_tf32(element)) return {in_group + 4 * number, group};
  return {2 * in_group + number % 2 + 8 * (number / 2), group};
}

MatrixPlace place_in_c(int lane, int number) {
  return {lane / 4 + 8 * (number / 2), 2 * (lane % 4) + number % 2};
}

MatrixPlace loaded_place(int lane, int half, bool is_transposed) {
  const MatrixPlace place{lane / 4, 2 * (lane % 4) + half};
  return is_transposed ? MatrixPlace{place.column, place.row} : place;
}

std::array<LaneValues, 4> multiply_matrices(MatrixElement element, const MatrixFragments& fragments) {
  const int elements = is_tf32(element) ? 1 : 2, k = depth(element);
  std::array<std::array<double, kM>, kM> a{}, b{};
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    for (int i = 0; i < 4 * elements; ++i) {
      const MatrixPlace at = place_in_a(element, lane, i);
      a[size_t(at.row)][size_t(at.column)] = element_of(element, fragments.a, lane, i);
    }
    for (int i = 0; i < 2 * elements; ++i) {
      const MatrixPlace at = place_in_b(element, lane, i);
      b[size_t(at.row)][size_t(at.column)] = element_of(element, fragments.b, lane, i);
    }
  }
  std::array<LaneValues, 4> result{};
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const MatrixPlace at = place_in_c(lane, i);
      const auto before = static_cast<uint32_t>(fragments.c[size_t(i)][size_t(lane)]);
      double sum = std::bit_cast<float>(before);
      for (int j = 0; j < k; ++j) sum += a[size_t(at.row)][size_t(j)] * b[size_t(j)][size_t(at.column)];
      result[size_t(i)][size_t(lane)] = std::bit_cast<uint32_t>(static_cast<float>(sum));
    }
  }
  return result;
}

}  // namespace tilefuse
