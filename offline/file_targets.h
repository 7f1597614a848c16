// The targets that a fused file has kernels for, and which of them this machine is.
//
//   {"name": "x86-avx2", "architecture": "x86_64", "instructions": ["avx2", "fma"]}
//   {"name": "x86-zen4", ..., "processor": "3f2a..."}     only for the very processor that compiled it
//   {"name": "cuda-sm80", "architecture": "sm_80", "instructions": []}      of a GPU
//
// A file lists the richest first. Its code runs where the processor has all of a target's instructions;
// code that was compiled for one processor, and names no target, runs on that one. That of a GPU runs on the
// devices that are no older; where its architecture ends in a letter, on those of that very number alone. A
// file has targets of one of the two kinds.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/cuda_driver.h"
#include "core/import/field.h"
#include "fusion/gpu_target.h"
#include "fusion/target.h"

namespace tilefuse {

struct FileTarget {
  std::string name, architecture;
  std::vector<std::string> instructions;
  std::string processor;  // empty: any that has the instructions
};

// Compiled here, for whoever has the target's instructions, or for this processor alone.
FileTarget file_target(const Target& target, bool is_for_any);
FileTarget file_target(const GpuTarget& target);
bool is_of_gpu(const FileTarget& target);
nlohmann::json to_json(const FileTarget& target);
FileTarget parse_file_target(const aten::Field& field);

// "lacks avx512f and avx512bw", "is aarch64, not x86_64"; empty: this machine has what the target's
// schedules count on.
std::string what_lacks(const FileTarget& target);
bool runs_here(const FileTarget& target);  // its machine code
// The same of a GPU's, machine code and schedules: "is sm_80".
std::string what_lacks(const FileTarget& target, const CudaDevice& device);

// Why none of a file's code runs here: "for x86-avx2 the processor lacks avx2 and fma; the code for x86-zen4
// was compiled on another processor".
std::string why_none_runs(const std::vector<FileTarget>& targets);

}  // namespace tilefuse
