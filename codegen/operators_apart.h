// What a region saves: the time and the bytes of the framework's operators in it, each run as a region alone.
//
// An operator is the nodes of one origin and source line. Predicted like regions are, by the closed form, and
// by the solver where there is a contraction.
#pragma once
#include "fusion/fusion_groups.h"
#include "fusion/region_prices.h"

namespace tilefuse {

struct OperatorsApart {
  double microseconds = 0;
  double bytes = 0;  // of inputs and outputs
};

// `groups`: of the whole graph, nothing merged. `fused_us`: of the region, which is the answer where it holds
// one operator only; where an operator has no price, `parts_us`, of the region's nodes one by one.
OperatorsApart operators_apart(const Graph& graph, const FusionGroups& groups, const RegionNodes& region,
                               RegionPrices& prices, bool eager_numerics, double fused_us, double parts_us);

}  // namespace tilefuse
