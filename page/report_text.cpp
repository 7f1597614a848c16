#include "page/report_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "core/result.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr size_t kEdgesShown = 4;  // of one reason
constexpr size_t kSourcesShown = 3;

std::string number(double value, const char* format) {
  std::array<char, 400> digits{};  // the largest double has 309
  std::snprintf(digits.data(), digits.size(), format, value);
  return digits.data();
}

std::string listed(const std::vector<std::string>& items, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), most); ++i) text += (i > 0 ? ", " : "") + items[i];
  if (items.size() > most) text += ", and " + std::to_string(items.size() - most) + " more";
  return text;
}

// Empty: nothing of the kind is said.
std::string plain_torch_text(const Json& row, const char* key, const std::string& indent) {
  const auto reason = row.find(key);
  if (reason == row.end() || !reason->is_string() || *reason == "") return "";
  return indent + "runs with plain PyTorch: " + reason->get<std::string>() + "\n";
}

std::string measured_text(const Json& tuned) {
  std::vector<std::string> times;
  for (const Json& time : tuned.at("measured_us")) {
    times.push_back(time.is_null() ? "does not build" : number(time.get<double>(), "%.1f"));
  }
  return listed(times, times.size()) + " us; schedule " +
         std::to_string(tuned.at("chosen").get<int64_t>() + 1) + " taken";
}

std::string region_text(const Json& region) {
  const auto ops = region.at("ops").get<std::vector<std::string>>();
  std::string text = "  region " + region.at("name").get<std::string>() + "\n";
  text += "    ops        " + listed(ops, ops.size()) + "\n";
  text += "    predicted  " + number(region.at("predicted_us").get<double>(), "%.1f us, ") +
          number(region.at("bytes").get<double>() / 1e6, "%.3f MB moved\n");
  const auto tuned = region.find("tuned");
  if (tuned != region.end() && !tuned->is_null()) text += "    measured   " + measured_text(*tuned) + "\n";
  text += plain_torch_text(region, "refusal", "    ");
  const Json& sources = region.at("user_source");
  for (size_t i = 0; i < std::min(sources.size(), kSourcesShown); ++i) {
    text += "    from       " + sources.at(i).get<std::string>() + "\n";
  }
  std::istringstream schedule(region.at("schedule").get<std::string>());
  for (std::string line; std::getline(schedule, line);) text += "    " + line + "\n";
  return text;
}

// One entry for each reason and its sentence, those of most edges first.
std::string edges_text(const Json& edges) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> by_reason;
  for (const Json& edge : edges) {
    by_reason[{edge.at("reason"), edge.at("text")}].push_back(
        "%" + edge.at("value").get<std::string>() + " -> %" + edge.at("consumer").get<std::string>());
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  groups.reserve(by_reason.size());
  for (auto& [reason, names] : by_reason) {
    groups.emplace_back(reason.first + ": " + reason.second, std::move(names));
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() > b.second.size() : a.first < b.first;
  });
  std::string text =
      "  " + std::to_string(edges.size()) + (edges.size() == 1 ? " edge" : " edges") + " not fused\n";
  for (const auto& [reason, names] : groups) {
    text += "    " + reason + "\n      " + listed(names, kEdgesShown) + "\n";
  }
  return text;
}

}  // namespace

std::string report_text(const Json& report) {
  std::string text;
  for (const Json& graph : report.at("graphs")) {
    text += graph.at("role").get<std::string>() + " graph\n";
    const std::string refusal = plain_torch_text(graph, "fallback_reason", "  ");
    text += refusal;
    if (!refusal.empty()) continue;
    for (const Json& fault : graph.value("faults", Json::array()))
      text += "  " + fault.get<std::string>() + "\n";
    for (const Json& region : graph.at("regions")) text += region_text(region);
    text += edges_text(graph.at("unfused_edges"));
  }
  return text;
}

std::string source_of(const Json& report, const std::string& region) {
  std::string names;
  for (const Json& graph : report.at("graphs")) {
    for (const Json& candidate : graph.at("regions")) {
      const std::string name = candidate.at("name").get<std::string>();
      if (name == region) return candidate.at("source").get<std::string>();
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  throw UserError("no region '" + region + "'; " + (names.empty() ? "there is none" : "there are: " + names));
}

}  // namespace tilefuse
