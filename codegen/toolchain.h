// The C++ compiler that builds kernels: found, asked who it is, and described so that a cache can tell what
// it makes from what another compiler, version or processor would.
//
//   Result<Toolchain> toolchain = find_toolchain({.cxx = options.cxx}, cache);
//   toolchain->command     {"/usr/bin/g++"}
//   toolchain->version     "g++ (Debian 12.2.0-14) 12.2.0"
//
// Order: the compiler asked for, and then no other; else c++, g++, clang++ on the search path, and the
// ziglang wheel of the given Python. Who answers `--version` is taken. The answer is kept in the cache under
// the program's path, size and time, so that a warm start runs no program at all.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel_cache.h"
#include "core/result.h"

namespace tilefuse {

struct ToolchainRequest {
  std::string cxx;          // a program, with arguments after spaces; empty: look for one
  std::string search_path;  // folders with colons between, as PATH; empty: the system's default
  std::string python;       // interpreter whose ziglang wheel may serve; empty: none
};

struct Toolchain {
  std::vector<std::string> command;  // how to call it; command[0] is an absolute path
  std::string version;               // the first line of --version
  std::string identity;              // command, file facts, version, processor: for cache keys
  bool is_clang = false;
};

Result<Toolchain> find_toolchain(const ToolchainRequest& request, KernelCache& cache);

// All but the files. Contraction (a * b + c with one rounding) is off for eager's numerics. `instructions`:
// what the code may use (instruction_sets.h); absent: whatever this processor has.
std::vector<std::string> compile_flags(const Toolchain& toolchain, bool eager_numerics,
                                       const std::optional<std::vector<std::string>>& instructions = {});

}  // namespace tilefuse
