// Sets of groups that may gain as one region though no two of them do: scores, the statistics of their rows
// and what is made with both; a norm and the products behind it; one product after another.
//
//   last = {%o}:   {%p, %l} <- {%s}        {last, %p %l}, {last, %p %l, %s}
//
// From a group that reduces the walk goes back over what it reads, as far as the products before it; every
// group met that reduces begins a set, with all that lies between, without and with the maps in front of it.
// At least one member of a set contracts.
#pragma once
#include <functional>
#include <vector>

#include "fusion/fusion_groups.h"

namespace tilefuse {

enum class GroupKind : uint8_t { Maps, Reduces, Contracts };  // what a group has; the last that holds

// Members in the order of the walk, `last` first. Whether they can be one region is not asked here.
std::vector<std::vector<GroupId>> chain_candidates(const Graph& graph, const FusionGroups& groups,
                                                   GroupId last,
                                                   const std::function<GroupKind(GroupId)>& kind_of);

}  // namespace tilefuse
