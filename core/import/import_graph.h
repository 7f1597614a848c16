// Captured JSON, in the graph schema of torch.export, to a Graph.
//
// Every node with a row in the operator table is expanded into core ops; every other becomes a Call with its
// whole argument list. Types, shapes and strides are the recorded ones. A functionalised mutation (a copy_
// onto an input) becomes an entry of Graph::mutations; reads of that input after it read the new value.
//
// Ensures: inputs and outputs stand at their captured positions; every value that corresponds to a captured
// tensor has its recorded strides; nodes carry the user's source line and the operator they came from. The
// results of a Call are the tensors it returns, in order, lists flattened, and without those it leaves
// undefined.
//
// Unsupported: the graph as a whole stays with the framework (sizes that depend on data, tensors that a Graph
// cannot hold, in-place operators, higher-order operators). UserError: the text is not such a document; the
// message names node and field.
#pragma once
#include <string_view>

#include "core/graph.h"
#include "core/result.h"

namespace tilefuse {

Result<Graph> import_graph(std::string_view json_text);

}  // namespace tilefuse
