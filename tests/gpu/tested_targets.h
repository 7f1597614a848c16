// The GPUs for which every kernel of the tests is made: each instruction that a profile may have is one of
// theirs. The other profiles have a sample of kernels (cuda_profiles_test.cpp).
#pragma once
#include <string>
#include <vector>

namespace tilefuse {

inline std::vector<std::string> tested_targets() { return {"cuda-sm90a", "cuda-sm80"}; }

}  // namespace tilefuse
