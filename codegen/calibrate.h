// Measures this machine and writes a hardware profile, in the form of configs/targets/*.json.
//
//   Result<std::string> profile = calibrate(toolchain, cache);      about twenty seconds
//   Target target = parse_target(*profile, "host");
//
// What is timed are kernels as we generate them: functions on data in L1, sums and copies of data in every
// level of memory, rows walked side by side; and single instructions in registers (instruction_rates.h). What
// these cannot tell (registers, launches of the framework's threads) is taken from the embedded profile of
// this kind of processor; every number says which it is. Unsupported: the compiler builds no kernels.
#pragma once
#include <string>

#include "codegen/module.h"

namespace tilefuse {
Result<std::string> calibrate(const Toolchain& toolchain, KernelCache& cache);
}
