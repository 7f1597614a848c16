// What the instructions of PTX compute that touch no memory and no other thread: one lane at a time.
//
//   find_operation("add.s32")   -> two operands, their sum modulo 2^32
//   find_operation("add.s33")   -> nothing
//
// A register holds 64 bits; of an operand only those of its type count. Functions that hardware computes
// approximately (ex2, lg2, rcp, rsqrt, tanh) are exact here, then rounded: results are compared with a
// tolerance.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tilefuse {

struct PtxOperation {
  int operands = 0;
  std::function<uint64_t(const uint64_t* operands)> compute;
};

// nullopt: the interpreter does not know it, and a program that holds it cannot be run.
std::optional<PtxOperation> find_operation(const std::string& opcode);

}  // namespace tilefuse
