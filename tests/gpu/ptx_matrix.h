// Where the elements of small matrices lie in the registers of a warp, and products of such matrices: what
// mma.sync and ldmatrix do (PTX ISA, "Warp-level Matrix Instructions": "Matrix Fragments for mma.m16n8k16
// with floating point type", "... for mma.m16n8k8", "... for mma.m16n8k32", "ldmatrix").
//
// d = a * b + c: of 16 x 8 elements of f32, each the sum of 16 products (f16, bf16), 8 (tf32) or 32
// (floats of eight bits); of integers of eight bits in i32, which wraps. Hardware
// rounds in the middle of a sum in a way that is not documented, and was found to cut off (Fasi, Higham,
// Mikaitis, Pranesh: "Numerical behavior of NVIDIA tensor cores"); here the sum is in f64, then cut off once.
#pragma once
#include <array>
#include <cstdint>

namespace tilefuse {

constexpr int kMatrixLanes = 32;
constexpr int kMatrixRows = 8, kMatrixRowBytes = 16;  // of what ldmatrix loads: 8 x 8 elements of 16 bits

using LaneValues = std::array<uint64_t, kMatrixLanes>;  // a register of every lane
enum class MatrixElement : uint8_t { Bf16, F16, Tf32, S8, U8, E4M3, E5M2 };

int in_register(MatrixElement element);  // so many of 32 bits: 1, 2 or 4
bool is_integer(MatrixElement element);

// Of what an instruction has summed: towards zero.
float cut_to_float(double sum);

struct MatrixFragments {
  std::array<LaneValues, 4> a;  // four elements of 8 bits, two of 16 or one of tf32, in each
  std::array<LaneValues, 2> b;
  std::array<LaneValues, 4> c;
};
struct MatrixPlace {
  int row = 0, column = 0;
};

// The number that an element is, from its bits; GpuFault: it was not rounded to tf32.
double matrix_number(MatrixElement element, uint64_t bits);

// The elements of a lane, in the order of its registers, the low half of each first.
MatrixPlace place_in_a(MatrixElement element, int lane, int number);
MatrixPlace place_in_b(MatrixElement element, int lane, int number);
MatrixPlace place_in_c(int lane, int number);
// The low (0) or high (1) half of what a lane receives of an 8 x 8 matrix.
MatrixPlace loaded_place(int lane, int half, bool is_transposed);

std::array<LaneValues, 4> multiply_matrices(MatrixElement of_a, MatrixElement of_b,
                                            const MatrixFragments& fragments);

}  // namespace tilefuse
