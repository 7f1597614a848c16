// The instruction sets that a hardware profile may name: one table says which flag the compiler wants for
// each, and how a processor tells that it has it.
//
//   compiler_flags({"avx2", "fma"})         {"-mavx2", "-mfma"}
//   missing_instructions({"avx2", "fma"})   {} where this processor, and its system, have both
//
// Code for a list of them runs wherever nothing of the list is missing.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

std::vector<std::string_view> instruction_set_names();
std::vector<std::string> compiler_flags(const std::vector<std::string>& sets);
// In the order given. What the table does not know, a file of a later version may name: it is missing.
std::vector<std::string> missing_instructions(const std::vector<std::string>& sets);

}  // namespace tilefuse
