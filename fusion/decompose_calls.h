// Decides which Calls that have a decomposition (products) become part of regions, and which the framework's
// library keeps.
//
// Runs after canonicalize, before partition. On a processor a Call is decomposed where the solver prices the
// region that partition then puts it into below the library's call and the regions around it. On a GPU
// products stay with the library, or, where regions are to make them, those that tensor cores compute become
// part of regions; between the two are calls of more than two products, which are priced. Ensures: the graph
// computes the same; every Call left that has a decomposition and a price is in `library`, with the numbers.
// Products left leave what they add to the regions that read the sum (addends.h).
#pragma once
#include <map>
#include <optional>
#include <set>

#include "fusion/partition.h"
#include "fusion/region_prices.h"

namespace tilefuse {

// Who makes products: whoever is faster by the profile; the framework's library always; regions wherever they
// can.
enum class ProductChoice : uint8_t { Auto, Library, Own };

struct Decomposed {
  Graph graph;
  int calls = 0;  // that were decomposed
  std::vector<std::optional<NodeId>>
      call_of;              // by node of `graph`: the given graph's Call that it was part of
  LibraryVerdicts library;  // Calls of `graph`
  // Of Calls that make several products, and on a GPU of all: their nodes, to begin as one region.
  std::vector<std::vector<NodeId>> seeds;
  std::optional<Partition> partition;  // of `graph` with these, where it was weighed last
};

// `kept`: Calls that the library makes, whatever it costs.
Decomposed decompose_calls(const Graph& graph, ProductChoice choice, const PartitionOptions& options,
                           RegionPrices& prices, const std::set<NodeId>& kept = {});

}  // namespace tilefuse
