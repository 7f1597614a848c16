// How many vectors a cycle a processor does of one instruction, timed in registers: what cannot be told from
// the time of a kernel, in which others wait beside it.
//
//   std::map<std::string, double> rates = instruction_rates(processor, 64);   {"permute": 2.0, "store": 0.99,
//   ...}
//
// Rates of vectors of `vector_bytes` (64 or 32) a cycle, by name:
//   fma           a product added to each f32 (vfmadd231ps)
//   permute       a vector from any elements of another (vpermps)
//   store         to one line of L1
//   narrow_bf16   16 f32 to bf16 (vcvtneps2bf16)                            where the processor has it
//   dot_bf16      two products of bf16 added to each f32 (vdpbf16ps)        where the processor has it
//   dot_i8        four products of bytes added to each i32 (vpdpbusd)       where the processor has it
// A cycle is an addition of two registers, timed beside. Empty where the processor is of another kind, or its
// instructions are not for such vectors.
#pragma once
#include <map>
#include <string>

#include "fusion/processor.h"

namespace tilefuse {

double additions_per_ns();  // dependent additions of two registers: cycles a nanosecond; 0: not an x86-64
std::map<std::string, double> instruction_rates(const Processor& processor, int vector_bytes);

}  // namespace tilefuse
