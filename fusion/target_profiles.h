// The profiles of configs/targets, embedded in the library; the table itself is written by the build from the
// files that fusion/CMakeLists.txt lists.
#pragma once
#include <string_view>
#include <vector>

namespace tilefuse {

struct EmbeddedProfile {
  std::string_view name;  // "x86-zen4"
  std::string_view json;
};

const std::vector<EmbeddedProfile>& embedded_profiles();  // of processors, the most specific first
const std::vector<EmbeddedProfile>& embedded_gpu_profiles();

}  // namespace tilefuse
