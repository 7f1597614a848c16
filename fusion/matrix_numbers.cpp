#include "fusion/matrix_numbers.h"

namespace tilefuse {

double matrix_rate(const GpuTarget& target, MatrixNumbers numbers, ProductInstruction instruction) {
  const bool is_in_groups = instruction == ProductInstruction::Warpgroup;
  switch (numbers) {
    case MatrixNumbers::Half:
      return is_in_groups ? target.warpgroup_flops_per_cycle : target.matrix_flops_per_cycle;
    case MatrixNumbers::Tf32:
    case MatrixNumbers::Tf32x3:
      return (is_in_groups ? target.warpgroup_tf32_flops_per_cycle : target.tf32_flops_per_cycle) /
             info(numbers).products;
    case MatrixNumbers::Int8:
      return is_in_groups ? target.warpgroup_int8_flops_per_cycle : target.int8_flops_per_cycle;
    case MatrixNumbers::Float8:
      return is_in_groups ? target.warpgroup_float8_flops_per_cycle : target.float8_flops_per_cycle;
  }
  return 0;
}

}  // namespace tilefuse
