#include "tools/print_report.h"

#include <cstdio>

#include "core/result.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

std::string region_text(const Json& region) {
  std::string text = "region " + region.at("name").get<std::string>() + "\n  ops       ";
  for (const Json& op : region.at("ops")) text += " " + op.get<std::string>();
  char predicted[48];
  std::snprintf(predicted, sizeof predicted, "%.4g us", region.at("predicted_us").get<double>());
  return text + "\n  predicted  " + predicted + "\n" + region.at("schedule").get<std::string>();
}

}  // namespace

std::string report_text(const Json& report) {
  std::string text;
  for (const Json& graph : report.at("graphs")) {
    if (graph.contains("fallback_reason")) {
      text += "runs with plain PyTorch: " + graph.at("fallback_reason").get<std::string>() + "\n";
    }
    for (const Json& fault : graph.value("faults", Json::array())) text += fault.get<std::string>() + "\n";
    for (const Json& region : graph.at("regions")) text += region_text(region);
    for (const Json& edge : graph.at("unfused_edges")) {
      text += "not fused: %" + edge.at("value").get<std::string>() + " -> %" +
              edge.at("consumer").get<std::string>() + ": " + edge.at("text").get<std::string>() + "\n";
    }
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
  throw UserError("no region '" + region + "'; there are: " + names);
}

}  // namespace tilefuse
