// Makes a C library of an exported program, fused before or not: .pt2 in, .so and .h out, with no torch.
//
//   bundle_file("fused.pt2", {.output = "libmodel.so", .header = "model.h", .name = "model", .compile =
//   options});
//
// Nothing in the file is run: the kernels are generated from the graphs in it, and compiled here. A program
// that torch's operators would have to help with is a UserError that names each of them.
#pragma once
#include <string>
#include <vector>

#include "codegen/compile_options.h"

namespace tilefuse {

struct BundleOptions {
  std::string output, header;
  std::string weights;  // a file for the weights, beside the library; empty: they go into it
  std::string name;     // of the functions; empty: that of the output, "model" of "libmodel.so"
  CompileOptions compile;
};

struct BundleResult {
  std::string name;
  int regions = 0, launches = 0;
  uint64_t weights_bytes = 0;
};

BundleResult bundle_file(const std::string& input, const BundleOptions& options);

}  // namespace tilefuse
