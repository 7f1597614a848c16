#include "fusion/region_name.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tilefuse {

std::string region_name(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<std::string> words;
  for (NodeId id : nodes) {
    const std::string& origin = graph[id].origin;
    std::string word = "fused";
    const size_t dot = origin.find('.');
    if (dot != std::string::npos) word = origin.substr(dot + 1, origin.find('.', dot + 1) - dot - 1);
    while (!word.empty() && word.front() == '_') word.erase(0, 1);
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  std::string name;
  for (size_t i = 0; i < std::min<size_t>(words.size(), 4); ++i) name += (i ? "_" : "") + words[i];
  return name.empty() ? "fused" : name;
}

void number_names(std::vector<Region>& regions) {
  std::map<std::pair<std::string, Hash128>, std::string> known;
  std::set<std::string> taken;
  for (Region& region : regions) {
    std::string& name = known[{region.name, region.hash}];
    if (name.empty()) {
      name = region.name;
      for (int n = 2; !taken.insert(name).second; ++n) name = region.name + "_" + std::to_string(n);
    }
    region.name = name;
  }
}

}  // namespace tilefuse
