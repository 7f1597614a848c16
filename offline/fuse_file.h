// Fuses an exported program: .pt2 in, .pt2 out, with no torch.
//
//   FuseResult result = fuse_file("model.pt2", "fused.pt2", {.compile = options});
//   fuse_file("model.pt2", "fused.pt2", {.targets = {"x86-avx2", "x86-zen4"}});
//
// With targets the file holds kernels for each; regions are those of the richest one, whatever their order.
// Without, its kernels are for this processor alone. A program whose tensors are on a GPU gets kernels for
// GPUs in the same way, {"cuda-sm80", "cuda-sm90a"}; without targets for the architecture of the GPU that is
// here. A file that is fused already is copied as it is. A program that cannot be taken as a whole (sizes
// that depend on data, graphs inside of graphs) is copied, too, and `refusal` says why.
#pragma once
#include <string>
#include <vector>

#include "codegen/compile_options.h"

namespace tilefuse {

struct FuseOptions {
  CompileOptions compile;
  std::vector<std::string> targets = {};  // names or files of hardware profiles, each to be compiled for
  bool embed = true;                      // compile now, and put the machine code into the file
};

struct FuseResult {
  int regions = 0;      // distinct ones
  int launches = 0;     // nodes of the fused program that are regions
  int calls = 0;        // nodes that the framework runs
  std::string report;   // JSON, as explain shows it; empty where nothing was planned
  std::string refusal;  // why the file was only copied; empty: it was fused
  std::vector<std::string> warnings;
};

FuseResult fuse_file(const std::string& input, const std::string& output, const FuseOptions& options);

}  // namespace tilefuse
