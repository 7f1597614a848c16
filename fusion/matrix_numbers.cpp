#include "fusion/matrix_numbers.h"

namespace tilefuse {

double matrix_rate(const GpuTarget& target, MatrixNumbers numbers, ProductInstruction instruction) {
  if (instruction == ProductInstruction::Warpgroup)
    return numbers == MatrixNumbers::Half ? target.warpgroup_flops_per_cycle : 0;
  switch (numbers) {
    case MatrixNumbers::Half:
      return target.matrix_flops_per_cycle;
    case MatrixNumbers::Tf32:
    case MatrixNumbers::Tf32x3:
      return target.tf32_flops_per_cycle / info(numbers).products;
    case MatrixNumbers::Int8:
      return target.int8_flops_per_cycle;
    case MatrixNumbers::Float8:
      return target.float8_flops_per_cycle;
  }
  return 0;
}

}  // namespace tilefuse
