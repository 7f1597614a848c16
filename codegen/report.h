// What explain shows of one compiled graph, as JSON (configs/explain.schema.json): regions with what they
// fuse, their user's source lines, tile graph, schedule, cost and source; the typed reason of every edge not
// fused; the instructions; the time of each stage.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "codegen/distinct_regions.h"
#include "codegen/lower_region.h"

namespace tilefuse {

struct ReportFacts {
  const Graph& graph;
  const Partition& partition;
  const DistinctRegions& distinct;
  const std::vector<LoweredRegion>& regions;  // by distinct region
  const Executable& executable;
  const StageTimes& times;
  std::string target;
  int threads = 1;
  SizeHints hints;
  std::set<std::string> faults;  // what broke in the engine, a line each
};

// "a fusion could not be weighed: internal error: ...".
std::string not_weighed(const std::string& fault);

std::string report_json(const ReportFacts& facts);

// The name of a region's operator in the framework: its words and its hash.
std::string operator_name(const CompiledRegion& region);

}  // namespace tilefuse
