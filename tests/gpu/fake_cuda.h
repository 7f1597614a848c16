// What the tests ask of the library that stands in for NVIDIA's driver (fake_cuda.cpp). They find these
// functions with dlsym, as the library under test finds the driver's.
#pragma once
#include <cstddef>

extern "C" {
// The calls since it was last asked, a line each.
const char* fake_cuda_calls();
// The next call of that name fails with that status.
void fake_cuda_fail(const char* call, int status);
void fake_cuda_capability(int major, int minor);
void fake_cuda_devices(int count);
// Of shared memory: what a block may have, and what the driver says of that (0: it does not know the
// question).
void fake_cuda_shared_bytes(int most, int said);
// Of the memory, and with it of the cache (0: it does not know the question).
void fake_cuda_memory_rate(int clock_khz, int bus_bits);
// Memory of somebody else's that kernels may be given, as if it had been allocated here.
void fake_cuda_memory_made(void* memory, size_t bytes);
void fake_cuda_memory_gone(void* memory, size_t bytes);
}
