#include "codegen/kernel_header.h"

#include "core/match.h"

namespace tilefuse {

std::string fused_ops(const TileGraph& graph) {
  std::string text;
  const auto add = [&](const std::string& name) {
    if (!name.empty()) text += (text.empty() ? "" : ", ") + name;
  };
  for (const TileValue& value : graph.values) {
    const std::string name = match(
        value.op, [](const TileMap& map) { return std::string(info(map.fn).name); },
        [](const TileReduce& reduce) { return "reduce." + std::string(info(reduce.kind).name); },
        [](const TileScan& scan) { return "scan." + std::string(info(scan.kind).name); },
        [](const auto&) { return std::string(); });
    add(name);
  }
  for (const TileStore& store : graph.stores) {
    if (store.scatter) add("scatter." + std::string(info(store.scatter->mode).name));
  }
  return text.empty() ? "copy" : text;
}

std::string decisions_of(const std::string& text) {
  std::string joined, line;
  const std::string lines = text.substr(0, text.find("\n  schedule "));  // the nests speak for themselves
  for (const char c : lines + "\n") {
    if (c != '\n') {
      if (c != ' ' || (!line.empty() && line.back() != ' ')) line += c;
      continue;
    }
    const bool is_decision =
        !line.empty() && line.back() != '{' && line.back() != '}' && !line.starts_with("cost");
    if (is_decision) joined += (joined.empty() ? "" : "; ") + line;
    line.clear();
  }
  return joined;
}

}  // namespace tilefuse
