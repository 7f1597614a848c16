#include "offline/explain_file.h"

#include <nlohmann/json.hpp>

#include "offline/check_report.h"
#include "offline/plan_file.h"
#include "offline/region_files.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

double total_milliseconds(const Json& report) {
  double sum = 0;
  for (const Json& stage : report.at("stages")) sum += stage.at("milliseconds").get<double>();
  return sum;
}

}  // namespace

std::string report_document(const std::string& report, const std::string& refusal) {
  Json graph = {{"role", "inference"}, {"milliseconds", 0}};
  if (refusal.empty()) {
    graph.update(Json::parse(report));
    graph["milliseconds"] = total_milliseconds(graph);
  } else {
    const Json none = Json::array();
    graph["fallback_reason"] = refusal;
    graph["regions"] = graph["unfused_edges"] = none;
    graph["graph"] = {{"launches", none}, {"nodes", none}, {"edges", none}};
  }
  return Json{{"version", 1}, {"graphs", {graph}}}.dump();
}

std::string stored_report(const std::string& report) {
  Json graph = Json::parse(report);
  graph["stages"] = Json::array();
  return report_document(graph.dump(), "");
}

std::string explain_file(const std::string& path, const CompileOptions& options) {
  const ProgramFile file = ProgramFile::open(path);
  if (!is_fused(file)) {
    const Result<PlannedGraph> planned = plan_file(file, options);
    return planned ? report_document(planned->report, "") : report_document("", planned.unsupported().reason);
  }
  if (!file.archive().has(kReportEntry)) {
    file.archive().fail(kReportEntry,
                        "is missing: the file is fused already; explain the program it was made from");
  }
  const std::string place = path + ": entry " + kReportEntry;
  return parse_report(file.archive().text(kReportEntry), place).dump();
}

}  // namespace tilefuse
