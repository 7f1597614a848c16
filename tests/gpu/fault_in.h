// What the model of a GPU says against a run.
#pragma once
#include <string>

#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/ptx_program.h"

namespace tilefuse {

template <class Run>
std::string fault_in(const Run& run) {
  try {
    run();
  } catch (const GpuFault& fault) {
    return fault.what();
  } catch (const PtxError& error) {
    return error.what();
  }
  return "no fault";
}

}  // namespace tilefuse
