// How much of a law is asked: `make test` asks a part, always the same one; `make test-gpu-full` sets
// TILEFUSE_GPU_FULL and asks all.
#pragma once
#include <cstdlib>

namespace tilefuse {

// A number of seeds or draws, every how many-th case, or a bound of what these must find.
inline int sampled(int part, int all) { return std::getenv("TILEFUSE_GPU_FULL") == nullptr ? part : all; }

}  // namespace tilefuse
