#include <cstdio>

#include "core/match.h"
#include "fusion/partition.h"

namespace tilefuse {
namespace {

std::string microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g us", us);
  return text;
}

std::string names(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += (text.empty() ? "%" : ", %") + graph[value].name;
  return text.empty() ? "nothing" : text;
}

std::string node_name(const Graph& graph, NodeId node) {
  const Node& n = graph[node];
  const std::string result = n.results.empty() ? "" : "%" + graph[n.results[0]].name;
  const auto* call = std::get_if<Call>(&n.op);
  return call ? call->op + " " + result : result;
}

}  // namespace

std::string kind_of(const FusionRefusal& refusal) {
  return match(
      refusal, [](const OpaqueProducer&) { return "OpaqueProducer"; },
      [](const OpaqueConsumer&) { return "OpaqueConsumer"; },
      [](const LibraryIsFaster&) { return "LibraryIsFaster"; },
      [](const WouldCycle&) { return "WouldCycle"; }, [](const NotSchedulable&) { return "NotSchedulable"; },
      [](const NoGain&) { return "NoGain"; }, [](const RegionTooLarge&) { return "RegionTooLarge"; },
      [](const FuseLimitReached&) { return "FuseLimitReached"; }, [](const Refused&) { return "Refused"; });
}

std::string to_text(const FusionRefusal& refusal) {
  return match(
      refusal, [](const OpaqueProducer& r) { return "cannot fuse: " + r.op + " runs with the framework"; },
      [](const OpaqueConsumer& r) { return "cannot fuse: " + r.op + " runs with the framework"; },
      [](const LibraryIsFaster& r) {
        return "not fused: " + r.op + " stays with the framework's library, " + microseconds(r.library_us) +
               " there against " + microseconds(r.own_us) + " in a region" +
               (r.own_us < r.library_us ? ", which is too little less" : "");
      },
      [](const WouldCycle& r) {
        return "cannot fuse: the region would read %" + r.through +
               ", which needs a result of the region first";
      },
      [](const NotSchedulable& r) { return r.why; },
      [](const NoGain& r) {
        return "no gain: " + microseconds(r.fused_us) + " fused, " + microseconds(r.apart_us) + " apart";
      },
      [](const RegionTooLarge& r) {
        return "cannot fuse: " + std::to_string(r.nodes) + " nodes, limit " + std::to_string(r.limit);
      },
      [](const FuseLimitReached& r) {
        return "not fused: fuse_limit " + std::to_string(r.limit) + " is reached";
      },
      [](const Refused& r) { return r.why; });
}

std::string to_text(const Partition& partition, const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < partition.regions.size(); ++i) {
    const Region& region = partition.regions[i];
    std::vector<ValueId> computed;
    computed.reserve(region.nodes.size());
    for (NodeId node : region.nodes) computed.push_back(graph[node].results[0]);
    text += "region " + std::to_string(i) + " " + region.name + ": " + names(graph, computed) + "\n";
    text += "  reads " + names(graph, region.inputs) + "; writes " + names(graph, region.outputs) + "\n";
    text += "  " + microseconds(region.fused_us) + " fused, " + microseconds(region.apart_us) + " apart\n";
  }
  for (const Recomputed& again : partition.recomputed) {
    text += "again " + names(graph, again.values) + ": by who reads it, " + microseconds(again.again_us) +
            " for all that have to do with it, " + microseconds(again.stored_us) + " stored\n";
  }
  for (const UnfusedEdge& edge : partition.unfused) {
    text += "edge %" + graph[edge.value].name + " -> " + node_name(graph, edge.consumer) + "\n  " +
            kind_of(edge.reason) + ": " + to_text(edge.reason) + "\n";
  }
  return text;
}

}  // namespace tilefuse
