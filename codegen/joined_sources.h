// Several kernels in one translation unit: starting a compiler and a linker and reading the runtime header
// take as long as compiling a small kernel.
//
//   for (const std::vector<size_t>& group : groups_to_join(sources, jobs)) {
//     const JoinedSource joined = join_sources(sources, group);
//     // in the library made of joined.text, `softmax` of sources[group[i]] is called "softmax" +
//     joined.suffixes[i]
//   }
//
// Only sources that begin alike, up to the runtime header, are joined.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

inline constexpr std::string_view kRuntimeInclude = "#include \"tilefuse_cpu.h\"\n";

struct JoinedSource {
  std::string text;
  std::vector<std::string> suffixes;  // of exported names, by place in the group
};

// Every source once: as many groups as there are jobs, more where groups would become large; of about equal
// size.
std::vector<std::vector<size_t>> groups_to_join(const std::vector<std::string>& sources, int jobs);

JoinedSource join_sources(const std::vector<std::string>& sources, const std::vector<size_t>& group);

}  // namespace tilefuse
