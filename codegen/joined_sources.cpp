#include "codegen/joined_sources.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tilefuse {
namespace {

constexpr size_t kMostTogether = 8;
constexpr std::string_view kExported = "extern \"C\" ";

// Up to the runtime header. Absent: it includes none.
std::optional<std::string_view> head_of(std::string_view source) {
  const size_t at = source.find(kRuntimeInclude);
  if (at == std::string_view::npos) return std::nullopt;
  return source.substr(0, at + kRuntimeInclude.size());
}

struct Group {
  std::optional<std::string_view> head;
  std::vector<size_t> members;
  size_t bytes = 0;
};

bool can_join(const Group& group, std::optional<std::string_view> head) {
  return group.members.empty() || (head && group.head == head && group.members.size() < kMostTogether);
}

// The smallest group that takes it, or a new one.
Group& group_for(std::vector<Group>& groups, std::optional<std::string_view> head) {
  Group* best = nullptr;
  for (Group& group : groups) {
    if (can_join(group, head) && (best == nullptr || group.bytes < best->bytes)) best = &group;
  }
  return best != nullptr ? *best : groups.emplace_back();
}

std::string with_suffix(std::string_view body, const std::string& suffix) {
  std::string text;
  for (size_t exported = body.find(kExported); exported != std::string_view::npos;
       exported = body.find(kExported)) {
    const size_t end = std::min(body.find('(', exported), body.size());
    text.append(body.substr(0, end)).append(suffix);
    body.remove_prefix(end);
  }
  return text.append(body);
}

}  // namespace

std::vector<std::vector<size_t>> groups_to_join(const std::vector<std::string>& sources, int jobs) {
  const size_t count = sources.size();
  const size_t wanted =
      std::max(std::min(count, size_t(std::max(1, jobs))), (count + kMostTogether - 1) / kMostTogether);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<Group> groups(wanted);
  for (const size_t source : order) {
    Group& group = group_for(groups, head_of(sources[source]));
    group.head = head_of(sources[source]);
    group.members.push_back(source);
    group.bytes += sources[source].size();
  }
  std::vector<std::vector<size_t>> result;
  for (Group& group : groups) {
    if (group.members.empty()) continue;
    std::sort(group.members.begin(), group.members.end());
    result.push_back(std::move(group.members));
  }
  return result;
}

JoinedSource join_sources(const std::vector<std::string>& sources, const std::vector<size_t>& group) {
  JoinedSource joined{std::string(head_of(sources[group.front()]).value_or("")), {}};
  for (size_t i = 0; i < group.size(); ++i) {
    const std::string_view source = sources[group[i]];
    joined.suffixes.push_back("_" + std::to_string(i));
    joined.text += with_suffix(source.substr(head_of(source).value_or("").size()), joined.suffixes.back());
  }
  return joined;
}

}  // namespace tilefuse
