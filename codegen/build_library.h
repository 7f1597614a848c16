// Compiles the sources of a bundle, and links them with its weights into one shared library that needs the C
// library and nothing else.
#pragma once
#include <optional>
#include <string>

#include "codegen/bundle.h"
#include "codegen/module.h"

namespace tilefuse {

struct LibraryRequest {
  std::string output;        // "libmlp.so"
  std::string name;          // as of the bundle
  std::string header_file;   // as the driver includes it
  std::string weights_file;  // the bytes that go into the library; empty: none
};

// nullopt: the library is there.
std::optional<Unsupported> build_library(const BundleSources& sources, const LibraryRequest& request,
                                         const Toolchain& toolchain, const BuildOptions& options, int jobs);

}  // namespace tilefuse
