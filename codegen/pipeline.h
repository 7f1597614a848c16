// The whole compiler: captured JSON in, an executable with its kernels loaded out. pipeline.cpp lists the
// stages in order.
//
//   Result<CompiledGraph> compiled = compile_captured(json, options, {facts, identity});
//   Unsupported: the graph as a whole stays with the framework, for this reason.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compile_options.h"
#include "codegen/executable.h"
#include "codegen/gpu_module.h"
#include "codegen/kernel_target.h"
#include "codegen/lower_region.h"
#include "codegen/module.h"
#include "codegen/plan.h"
#include "codegen/stage_times.h"

namespace tilefuse {

struct Framework {
  CallFactsOf facts;
  std::string identity;  // name and version: part of the plan cache's key
};

struct CompiledGraph {
  std::string key;  // 32 hexadecimal digits of what was captured, the options and the versions
  Executable executable;
  // By region of the executable, absent where it is refused: for a processor, or for a GPU.
  std::vector<std::optional<Module>> modules;
  std::vector<std::optional<GpuKernels>> gpu_kernels;
  std::string report;                   // JSON
  std::vector<std::string> warnings;    // what runs with the framework because something broke
  std::vector<std::string> notes;       // what else the user should know, once
  std::vector<std::string> unmet_pins;  // regions that are none because of their pins
  std::string cache_refusal;            // why the next process will compile this anew; empty: it will not
  bool cached = false;                  // the plan came from the cache
};

std::string plan_key(std::string_view graph_json, const CompileOptions& options, const Framework& framework);

Result<CompiledGraph> compile_captured(std::string_view graph_json, CompileOptions options,
                                       const Framework& framework, const BuildProgress& progress = {});

// The stages behind import, with no plan cache: what tests run from a graph's text.
CompiledGraph compile_graph(const Graph& graph, const CompileOptions& options, const Framework& framework,
                            const Toolchain& toolchain, KernelCache& cache,
                            const BuildProgress& progress = {}, StageTimes times = {});

// The same for a GPU.
CompiledGraph compile_gpu_graph(const Graph& graph, const CompileOptions& options, const Framework& framework,
                                const FoundGpu& gpu, KernelCache& cache, StageTimes times = {});

// Stages up to source, planned as if everything had been built.
struct PlannedGraph {
  Executable executable;
  std::vector<LoweredRegion> regions;  // by region of the executable
  std::vector<Graph> region_graphs;    // each as a graph of its own
  std::string report;                  // JSON
  std::vector<std::string> warnings;   // what is not as it should be because something broke
  KernelTarget target;
};
// A graph on a GPU is planned for the profile of one that the options name, or for the newest.
PlannedGraph plan_graph(const Graph& graph, const CompileOptions& options, const Framework& framework);
PlannedGraph plan_graph(const Graph& graph, const KernelTarget& target, const CompileOptions& options,
                        const Framework& framework);
// The same regions for another target, pins and all; what it does not allow is refused there.
std::vector<LoweredRegion> lower_for(const KernelTarget& target, const PlannedGraph& planned,
                                     const CompileOptions& options);
// The report alone.
Result<std::string> explain_captured(std::string_view graph_json, CompileOptions options,
                                     const Framework& framework);

}  // namespace tilefuse
