// What the caller of compile may say, as one table from JSON; what it leaves open comes from the environment.
//
//   parse_compile_options(R"({"threads": 2, "numerics": "eager"})", read_environment())
//   parse_compile_options(R"({"thread": 2})", ...)
//     => UserError: unknown option 'thread'; did you mean 'threads'?
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "core/options.h"
#include "fusion/decompose_calls.h"

namespace tilefuse {

struct CompileOptions {
  int threads = 1;              // to plan for
  std::string target;           // name or file of the hardware profile; empty: this machine's
  bool eager_numerics = false;  // "numerics": "fast" or "eager"
  bool strict = false;          // a region that would fall back is a UserError
  int tune = 0;                 // compile and time the best n schedules of a region
  bool freeze = false;          // parameters are constants
  int fuse_limit = -1;          // stop after so many merges; -1: no limit
  std::string cache_dir;        // empty: the user's
  int64_t cache_limit_mb = 2048;
  std::string cxx;                 // empty: found
  std::string search_path;         // where
  std::string python;              // interpreter whose ziglang wheel may serve as the compiler
  std::vector<std::string> nvrtc;  // folders where NVIDIA's compiler may be
  std::string gpu_on_host;  // a driver whose device memory is the host's: runs graphs on the CPU; for tests
  ProductChoice products = ProductChoice::Auto;  // "auto", "library", "own"
  bool tf32 = false;  // not an option of the caller's: torch allows products of f32 on GPUs to be rounded
  std::map<std::string, Pins> pins;  // by region name
  SizeHints hints;                   // not an option of the caller's: the sizes of the capture
  std::set<DumpStage> dump;
  std::string dump_dir;
};

CompileOptions parse_compile_options(std::string_view json, const EnvironmentOptions& environment);

// The options that change what is compiled, as text: part of the plan cache's key.
std::string cache_key_text(const CompileOptions& options);

}  // namespace tilefuse
