// Which processor this is, and which profile is the best for one: a profile with measured rates says on which
// processors they were measured, and is for no other.
//
//   target_name_for({"AuthenticAMD", 25, {"avx2", "fma", "avx512f", ...}})    "x86-zen4"
#pragma once
#include <string>
#include <vector>

namespace tilefuse {

struct Processor {
  std::string vendor;  // as CPUID spells it: "GenuineIntel"
  int family = 0;
  std::vector<std::string> instructions;  // of those that instruction_sets.h knows
};

// A model number is not asked for: virtual machines report one that is made up.
struct MeasuredOn {
  std::string vendor;
  int family = 0;
  std::vector<std::string> has;  // instruction sets that tell generations of one family apart
};

Processor host_processor();
std::string target_name_for(const Processor& processor);  // of the embedded profiles

}  // namespace tilefuse
