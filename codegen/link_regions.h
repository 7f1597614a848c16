// Plans a graph whose regions were cut out and compiled before: each is a Call of its own operator.
//
//   %y = call tilefuse::layer_norm_gelu_0f3a(%x, %w)      runs as the region that was compiled under that
//   name
//
// A Call whose operands are not exactly those that its region was compiled for stays a Call, and the operator
// checks them when it runs.
#pragma once
#include <map>
#include <string>

#include "codegen/plan.h"

namespace tilefuse {

struct LinkedGraph {
  Executable executable;
  std::vector<std::string> operators;  // by region of the executable
};

// regions: by operator, "layer_norm_gelu_0f3a".
LinkedGraph link_regions(const Graph& graph, const std::map<std::string, CompiledRegion>& regions,
                         const CallFactsOf& facts, const Place& place = {});

}  // namespace tilefuse
