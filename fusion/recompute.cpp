#include "fusion/recompute.h"

#include <algorithm>
#include <numeric>

#include "core/contains.h"

namespace tilefuse {
namespace {

// Of the bytes that the values take now, written and read: with less to win nobody asks for prices.
constexpr double kLeastBytesSaved = 0.25;

template <class T>
void add_once(std::vector<T>& items, T item) {
  if (!contains(items, item)) items.push_back(item);
}

double total(const std::vector<double>& prices) { return std::accumulate(prices.begin(), prices.end(), 0.0); }

}  // namespace

Recompute::Recompute(const Graph& graph, FusionGroups& groups, const PartitionOptions& options,
                     GroupPrices& known, RegionPrices& prices)
    : graph_(graph), groups_(groups), options_(options), known_(known), prices_(prices) {}

bool Recompute::is_map(NodeId node) const { return std::holds_alternative<Map>(graph_[node].op); }

bool Recompute::is_member(NodeId node, GroupId group) const {
  return groups_.is_computing(node) && groups_.group_of(node) == group;
}

double Recompute::bytes(ValueId value) const { return hinted_bytes(graph_[value], options_.hints); }

// In memory, by somebody who is no region.
bool Recompute::is_needed(ValueId value) const {
  const auto& readers = groups_.readers(graph_[value].producer);
  return groups_.is_seen_outside(value) ||
         std::any_of(readers.begin(), readers.end(), [&](NodeId reader) { return groups_.is_call(reader); });
}

bool Recompute::is_written(ValueId value) const {
  const NodeId producer = graph_[value].producer;
  const auto& readers = groups_.readers(producer);
  return is_needed(value) || std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
           return !is_member(reader, groups_.group_of(producer));
         });
}

bool Recompute::is_read_by(GroupId group, ValueId value) const {
  const auto& members = groups_.members(group);
  return std::any_of(members.begin(), members.end(),
                     [&](NodeId member) { return contains(groups_.reads(member), value); });
}

std::vector<std::vector<ValueId>> Recompute::candidates() const {
  std::vector<std::vector<ValueId>> sets;
  for (const GroupId group : groups_.live_groups()) {
    std::vector<ValueId> values;
    for (const NodeId node : groups_.members(group)) {
      const ValueId result = graph_[node].results.front();
      if (is_map(node) && !is_needed(result) && is_written(result)) values.push_back(result);
    }
    if (!values.empty()) sets.push_back(std::move(values));
  }
  return sets;
}

Recompute::Copy Recompute::copy_of(const std::vector<ValueId>& values) const {
  const GroupId own = groups_.group_of(graph_[values.front()].producer);
  Copy copy;
  copy.groups = {own};
  for (const ValueId value : values) {
    copy.nodes.push_back(graph_[value].producer);
    for (const NodeId reader : groups_.readers(graph_[value].producer)) {
      if (is_member(reader, own)) continue;
      add_once(copy.readers, reader);
      add_once(copy.groups, groups_.group_of(reader));
    }
  }
  for (size_t i = 0; i < copy.nodes.size(); ++i) {
    for (const ValueId read : groups_.reads(copy.nodes[i])) {
      const NodeId maker = graph_[read].producer;
      if (contains(copy.nodes, maker)) continue;
      if (is_member(maker, own) && is_map(maker) && !is_written(read)) {
        copy.nodes.push_back(maker);
      } else {
        add_once(copy.leaves, read);
      }
    }
  }
  std::erase_if(copy.nodes, [&](NodeId node) { return groups_.is_copied(node); });
  return copy;
}

// What is no longer written and read against what is instead.
bool Recompute::saves_bytes(const Copy& copy, const std::vector<ValueId>& values) const {
  double stored = 0, moved = 0, added = 0, longer = 0;
  for (const ValueId value : values) {
    stored += bytes(value);
    moved += bytes(value);
  }
  const GroupId own = copy.groups.front();
  for (const ValueId leaf : copy.leaves) {
    if (is_member(graph_[leaf].producer, own) && !is_written(leaf)) added += bytes(leaf);
  }
  std::vector<ValueId> kept;
  for (size_t g = 1; g < copy.groups.size(); ++g) {
    for (const ValueId value : values) moved += is_read_by(copy.groups[g], value) ? bytes(value) : 0;
    for (const ValueId leaf : copy.leaves) {
      if (is_read_by(copy.groups[g], leaf)) continue;
      added += bytes(leaf);
      add_once(kept, leaf);
    }
  }
  for (const ValueId leaf : kept) longer += bytes(leaf);
  return longer <= stored && moved - added >= kLeastBytesSaved * moved;
}

// Of each group as it is now; 0: nothing is left of it to write. nullopt: no kernel computes one.
std::optional<std::vector<double>> Recompute::prices_us(const Copy& copy) {
  std::vector<double> prices;
  for (const GroupId group : copy.groups) {
    const RegionNodes region = groups_.region(group);
    if (region.nodes.size() > 2 * static_cast<size_t>(options_.max_region_nodes)) return std::nullopt;
    const auto price = prices_.unless_broken([&]() -> Result<double> {
      if (region.outputs.empty()) return 0.0;
      const auto tiles = prices_.tiles(graph_, region, {options_.eager_numerics});
      return tiles ? prices_.of(*tiles) : tiles.unsupported();
    });
    if (!price || !*price) return std::nullopt;
    prices.push_back(**price);
  }
  return prices;
}

std::optional<Recomputed> Recompute::try_again(const std::vector<ValueId>& values) {
  const Copy copy = copy_of(values);
  if (!saves_bytes(copy, values)) return std::nullopt;
  const auto stored = prices_us(copy);
  if (!stored) return std::nullopt;
  groups_.copy_into_readers(copy.nodes, copy.readers, true);
  const auto again = prices_us(copy);
  if (!again || total(*again) > (1 - kPriceMargin) * total(*stored)) {
    groups_.copy_into_readers(copy.nodes, copy.readers, false);
    return std::nullopt;
  }
  for (size_t g = 0; g < copy.groups.size(); ++g) known_.reprice(copy.groups[g], (*again)[g]);
  return Recomputed{values, total(*stored), total(*again)};
}

}  // namespace tilefuse
