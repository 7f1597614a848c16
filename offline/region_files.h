// What a fused file says about its regions, as text files below extra/tilefuse/.
//
//   tilefuse.json              format, target, numerics, and per region its operator and the processor of its
//   object <operator>/graph.txt       the region as a graph of its own: what it means, and what its name is
//   the hash of <operator>/tiles.txt       its tile graph            <operator>/schedule.txt   its schedule
//   <operator>/kernel.cpp      its source                <operator>/program.json   how its kernels are
//   launched <operator>/kernel.so.b64   its machine code, in base64
//
// Machine code is code: it is loaded only where the caller trusts the file and where this processor is the
// one it was compiled for. Otherwise the region is made again from its graph, checked as any input is, with
// the stored schedule if that is legal. Without a compiler it runs with the framework's operators.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compile_options.h"
#include "codegen/module.h"
#include "codegen/pipeline.h"

namespace tilefuse {

using ExtraFiles = std::map<std::string, std::string>;  // by name below extra/tilefuse/

struct FileRegion {
  std::string op;  // torch.ops.tilefuse.<op>
  CompiledRegion compiled;
  std::optional<Module> module;  // absent: the framework's operators
  std::string how;               // "embedded", "compiled", or why it runs with the framework's operators
};

// The operator of a region: its words and the hash of its graph.
std::string region_operator(const std::string& name, const std::string& graph_text, bool eager_numerics);

// `objects[i]`: machine code of region i; empty: none.
ExtraFiles region_files(const PlannedGraph& planned, const CompileOptions& options,
                        const std::vector<std::string>& objects);

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
