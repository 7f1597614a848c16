#include "codegen/link_regions.h"

#include <algorithm>

namespace tilefuse {
namespace {

constexpr std::string_view kNamespace = "tilefuse::";

bool is_same(const TensorSpec& compiled, const TensorSpec& given) {
  if (compiled.dtype != given.dtype || compiled.sizes != given.sizes) return false;
  if (compiled.elsewhere != given.elsewhere) return false;
  for (size_t d = 0; d < compiled.sizes.size(); ++d) {
    if (!compiled.sizes[d].is_constant(1) && compiled.strides[d] != given.strides[d]) return false;
  }
  return true;
}

bool fits(const Graph& graph, const Node& node, const CompiledRegion& region) {
  const auto are_same = [&](const std::vector<TensorSpec>& specs, const std::vector<ValueId>& values) {
    return std::equal(
        specs.begin(), specs.end(), values.begin(), values.end(),
        [&](const TensorSpec& spec, ValueId value) { return is_same(spec, spec_of(graph, value)); });
  };
  return region.refusal.empty() && are_same(region.inputs, node.operands) &&
         are_same(region.outputs, node.results);
}

}  // namespace

LinkedGraph link_regions(const Graph& graph, const std::map<std::string, CompiledRegion>& regions,
                         const CallFactsOf& facts, const Place& place) {
  LinkedGraph linked;
  Partition partition;
  std::vector<CompiledRegion> compiled;
  std::vector<int> region_of;
  std::map<std::string, int> known;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Call* call = std::get_if<Call>(&node.op);
    if (call == nullptr || !call->op.starts_with(kNamespace)) continue;
    const auto found = regions.find(call->op.substr(kNamespace.size()));
    if (found == regions.end() || !fits(graph, node, found->second)) continue;
    const auto [program, is_new] = known.try_emplace(found->first, int(compiled.size()));
    if (is_new) {
      compiled.push_back(found->second);
      linked.operators.push_back(found->first);
    }
    Region region;
    region.name = found->second.name;
    region.nodes = {NodeId{n}};
    region.inputs = node.operands;
    region.outputs = node.results;
    partition.regions.push_back(std::move(region));
    region_of.push_back(program->second);
  }
  linked.executable = plan(graph, partition, std::move(compiled), region_of, facts, place);
  return linked;
}

}  // namespace tilefuse
