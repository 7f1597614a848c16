// What a fused file says about its regions, as text files below extra/tilefuse/.
//
//   tilefuse.json               format, numerics, the targets that there is code for, richest first, and per
//                               region its operator and the hashes of its machine code
//   <operator>/graph.txt        the region as a graph of its own: what it means, and what its name is the
//   hash of <operator>/tiles.txt        its tile graph and for each target in <operator>/<target>/
//     schedule.txt              its schedule
//     kernel.cpp                its source
//     program.json              how its kernels are launched
//     kernel.so.b64             its machine code, in base64
//
// On a GPU there is one source and one piece of machine code for each kernel of a region (gpu_file.h), and
// tilefuse.json says on which device the program's tensors are.
//
// Machine code is code: it is loaded only where the caller trusts the file, for the richest target that this
// machine is. Otherwise, and where the file has none for this machine, the region is made again from its
// graph, checked as any input is, with the stored schedule if that is legal. Without a compiler it runs with
// the framework's operators.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compile_options.h"
#include "codegen/executable.h"
#include "codegen/gpu_module.h"
#include "codegen/module.h"
#include "codegen/pipeline.h"
#include "offline/archive.h"
#include "offline/file_targets.h"

namespace tilefuse {

inline constexpr std::string_view kExtraFolder = "extra/tilefuse/";
inline constexpr const char* kReportEntry = "extra/tilefuse/report.json";

using ExtraFiles = std::map<std::string, std::string>;  // by name below kExtraFolder

// Of a file's entries; without the report, which is for readers. Empty: it is not fused.
ExtraFiles extra_files(const Archive& archive);

struct FileRegion {
  std::string op;  // torch.ops.tilefuse.<op>
  CompiledRegion compiled;
  std::optional<Module> module;  // absent, and no kernels of a GPU: the framework's operators
  // "embedded for x86-avx2"; "compiled", or "compiled: " and why not the code that the file has; or why it
  // runs with the framework's operators.
  std::string how;
  Place place = {};
  std::optional<GpuKernels> gpu = {};  // in place of the module, where the place is a GPU
};

// The operator of a region: its words and the hash of its graph. `gpu`: the device, where it runs on one.
std::string region_operator(const std::string& name, const std::string& graph_text, bool eager_numerics,
                            const std::string& gpu = {});

struct TargetRegions {
  FileTarget target;
  std::vector<LoweredRegion> regions;              // by region of the program
  std::vector<std::string> objects;                // the machine code of each; empty: none
  std::vector<std::vector<GpuImage>> images = {};  // the same for a GPU, by kernel
};

// `graphs`: of the regions. `targets`: the richest first. `gpu`: the device of a program on one.
ExtraFiles region_files(const std::vector<Graph>& graphs, const std::vector<TargetRegions>& targets,
                        bool eager_numerics, const std::string& gpu = {});

// `trusted`: the file comes from somebody whose programs the caller would run. `origin` starts the errors:
// "fused.pt2: entry extra/tilefuse/". UserError where a file is missing or is not what its operator's name
// says.
std::vector<FileRegion> load_regions(const ExtraFiles& files, const std::string& origin, bool trusted,
                                     const CompileOptions& options);

// The regions up to their sources, made again from their graphs: for who compiles them into something else.
struct RegionSources {
  std::vector<FileRegion> regions;  // without modules
  bool eager_numerics = false;
};
RegionSources lower_regions(const ExtraFiles& files, const std::string& origin,
                            const CompileOptions& options);

}  // namespace tilefuse
