#include "tests/gpu/ptx_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/ptx_operations.h"

namespace tilefuse {
namespace {

constexpr size_t kM = 16, kMostDepth = 32;

bool is_tf32(MatrixElement element) { return element == MatrixElement::Tf32; }
bool is_byte(MatrixElement element) {
  return is_integer(element) || element == MatrixElement::E4M3 || element == MatrixElement::E5M2;
}

// By the tables of the formats: one number without a mantissa's leading 1 below the least exponent.
double number_of_eight_bits(MatrixElement element, uint64_t bits) {
  if (element == MatrixElement::U8) return static_cast<double>(bits);
  if (element == MatrixElement::S8) return static_cast<int8_t>(bits);
  const int mantissa_bits = element == MatrixElement::E4M3 ? 3 : 2,
            bias = element == MatrixElement::E4M3 ? 7 : 15;
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << (7 - mantissa_bits)) - 1);
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  const bool is_last = exponent == (1 << (7 - mantissa_bits)) - 1;
  if (element == MatrixElement::E5M2 && is_last) return mantissa == 0 ? sign * INFINITY : NAN;
  if (element == MatrixElement::E4M3 && is_last && mantissa == 7) return NAN;
  const double fraction = std::ldexp(mantissa, -mantissa_bits) + (exponent == 0 ? 0 : 1);
  return sign * std::ldexp(fraction, std::max(exponent, 1) - bias);
}

// Of a register, which has one element of 32 bits, two of 16 or four of 8.
template <size_t kRegisters>
double element_of(MatrixElement element, const std::array<LaneValues, kRegisters>& registers, int lane,
                  int number) {
  const auto at = static_cast<size_t>(lane), i = static_cast<size_t>(number);
  const auto together = static_cast<size_t>(in_register(element)), bits = 32 / together;
  return matrix_number(element,
                       registers[i / together][at] >> (bits * (i % together)) & ((uint64_t{1} << bits) - 1));
}

}  // namespace

bool is_integer(MatrixElement element) {
  return element == MatrixElement::S8 || element == MatrixElement::U8;
}
int in_register(MatrixElement element) { return is_tf32(element) ? 1 : is_byte(element) ? 4 : 2; }

float cut_to_float(double sum) {
  const auto nearest = static_cast<float>(sum);
  return std::isfinite(nearest) && std::abs(double(nearest)) > std::abs(sum) ? std::nextafter(nearest, 0.0F)
                                                                             : nearest;
}

double matrix_number(MatrixElement element, uint64_t bits) {
  if (is_byte(element)) return number_of_eight_bits(element, bits);
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
  if (is_byte(element)) return {group + 8 * (number / 4 % 2), 4 * in_group + number % 4 + 16 * (number / 8)};
  return {group + 8 * (number / 2 % 2), 2 * in_group + number % 2 + 8 * (number / 4)};
}

MatrixPlace place_in_b(MatrixElement element, int lane, int number) {
  const int group = lane / 4, in_group = lane % 4;
  if (is_tf32(element)) return {in_group + 4 * number, group};
  if (is_byte(element)) return {4 * in_group + number % 4 + 16 * (number / 4), group};
  return {2 * in_group + number % 2 + 8 * (number / 2), group};
}

MatrixPlace place_in_c(int lane, int number) {
  return {lane / 4 + 8 * (number / 2), 2 * (lane % 4) + number % 2};
}

MatrixPlace loaded_place(int lane, int half, bool is_transposed) {
  const MatrixPlace place{lane / 4, 2 * (lane % 4) + half};
  return is_transposed ? MatrixPlace{place.column, place.row} : place;
}

std::array<LaneValues, 4> multiply_matrices(MatrixElement of_a, MatrixElement of_b,
                                            const MatrixFragments& fragments) {
  const int elements = in_register(of_a), k = 8 * elements;
  std::array<std::array<double, kMostDepth>, kM> a{};
  std::array<std::array<double, 8>, kMostDepth> b{};
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    for (int i = 0; i < 4 * elements; ++i) {
      const MatrixPlace at = place_in_a(of_a, lane, i);
      a[size_t(at.row)][size_t(at.column)] = element_of(of_a, fragments.a, lane, i);
    }
    for (int i = 0; i < 2 * elements; ++i) {
      const MatrixPlace at = place_in_b(of_b, lane, i);
      b[size_t(at.row)][size_t(at.column)] = element_of(of_b, fragments.b, lane, i);
    }
  }
  std::array<LaneValues, 4> result{};
  for (int lane = 0; lane < kMatrixLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const MatrixPlace at = place_in_c(lane, i);
      const auto before = static_cast<uint32_t>(fragments.c[size_t(i)][size_t(lane)]);
      double sum =
          is_integer(of_a) ? double(static_cast<int32_t>(before)) : double(std::bit_cast<float>(before));
      for (int j = 0; j < k; ++j) sum += a[size_t(at.row)][size_t(j)] * b[size_t(j)][size_t(at.column)];
      result[size_t(i)][size_t(lane)] = is_integer(of_a) ? static_cast<uint32_t>(static_cast<int64_t>(sum))
                                                         : std::bit_cast<uint32_t>(cut_to_float(sum));
    }
  }
  return result;
}

}  // namespace tilefuse
