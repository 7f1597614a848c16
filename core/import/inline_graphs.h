// Graphs inside of graphs, spliced in where they only say how gradients are recorded: torch.export wraps what
// a model runs under torch.no_grad() into a call of a graph of its own.
//
//   %a, %b = wrap_with_set_grad_enabled(False, submod_1, %x)    ->    the nodes of submod_1, reading %x
//
// Names of the inner graph that the outer one has, too, get its name in front. What has another form than
// that stays as it is, and import refuses it as any call of a graph.
#pragma once
#include <nlohmann/json.hpp>

namespace tilefuse {
void inline_graphs(nlohmann::json& document);
}
