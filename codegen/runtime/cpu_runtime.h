// The text of tilefuse_cpu.h with its parts, as the library carries it: a generated kernel is
//
//   #define TILEFUSE_LANES 16
//   <cpu_runtime_text()>
//   extern "C" void name(...) { ... }
//
// and likewise what the driver of a bundle is made of. Kernels for GPUs include theirs by its name, and the
// compiler is handed the text.
#pragma once
#include <string_view>

namespace tilefuse {
std::string_view cpu_runtime_text();
std::string_view cuda_runtime_text();
std::string_view bundle_runtime_text();
std::string_view bundle_processor_text();
}  // namespace tilefuse
