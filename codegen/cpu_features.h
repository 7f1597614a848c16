// What `-march=native` means on this machine, as text: part of every kernel's cache key, so that machines
// with different processors can share a cache directory.
#pragma once
#include <string>

namespace tilefuse {
std::string cpu_features();
std::string cpu_architecture();  // "x86_64": whose code runs here at all
bool cpu_has_avx512();  // the subset that kernels use: F, BW, DQ, VL, and the system saves its registers
}  // namespace tilefuse
