// In which numbers tensor cores multiply the factors of a product, a decision where there are several:
//
//   half      both in 16 bits; the only ones of chains
//   tf32      floats rounded to 11 bits, where the user allows that, or where both factors have no more
//   tf32x3    floats as sums of two such numbers: three products, which lose next to nothing
//   int8      whole numbers of eight bits, with sums in 32 bits that wrap
//   float8    floats of eight bits; the others widen them to 16
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "fusion/gpu_target.h"
#include "fusion/matrix_instruction.h"

namespace tilefuse {

enum class MatrixNumbers : uint8_t { Half, Tf32, Tf32x3, Int8, Float8 };

struct MatrixNumbersInfo {
  MatrixNumbers numbers;
  std::string_view name;
  int bytes;      // of an element
  int products;   // that are made of each
  int ready;      // instructions that make an element of a fragment ready, counted in machine code
  bool is_timed;  // on a device
};
inline constexpr std::array<MatrixNumbersInfo, 5> kMatrixNumbers = {{
    {MatrixNumbers::Half, "half", 2, 1, 0, true},
    {MatrixNumbers::Tf32, "tf32", 4, 1, 3, false},
    {MatrixNumbers::Tf32x3, "tf32x3", 4, 3, 8, false},
    {MatrixNumbers::Int8, "int8", 1, 1, 0, false},
    {MatrixNumbers::Float8, "float8", 1, 1, 0, false},
}};
constexpr const MatrixNumbersInfo& info(MatrixNumbers numbers) {
  return kMatrixNumbers.at(static_cast<size_t>(numbers));
}

constexpr int kInstructionBytes = 32;  // of k, whatever the numbers
constexpr int instruction_depth(MatrixNumbers numbers) { return kInstructionBytes / info(numbers).bytes; }

// What a predicted time counts as beside others: of numbers that no device has timed, with a margin for what
// is estimated of them, so that they are chosen where they should win clearly.
constexpr double kMarginOfUntimed = 1.25;
constexpr double judged_us(double cost_us, MatrixNumbers numbers) {
  return cost_us * (info(numbers).is_timed ? 1 : kMarginOfUntimed);
}

// Of warpgroups, whether a thread adds the sums of each step to those that it holds, as instructions keep too
// few bits of them, or cut off too much.
constexpr bool adds_steps_apart(MatrixNumbers numbers, ProductInstruction instruction) {
  return instruction == ProductInstruction::Warpgroup &&
         (numbers == MatrixNumbers::Float8 || numbers == MatrixNumbers::Tf32x3);
}
// What shared memory has of each factor: of warpgroups, which take apart nothing, wholes and rests.
constexpr int parts_of_factor(MatrixNumbers numbers, ProductInstruction instruction) {
  return instruction == ProductInstruction::Warpgroup && numbers == MatrixNumbers::Tf32x3 ? 2 : 1;
}

// Operations a cycle and multiprocessor, the products of one counted as one; 0: the device has none.
double matrix_rate(const GpuTarget& target, MatrixNumbers numbers, ProductInstruction instruction);

}  // namespace tilefuse
