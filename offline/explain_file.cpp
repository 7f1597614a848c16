#include "offline/explain_file.h"

#include "core/import/document.h"
#include "core/import/field.h"
#include "offline/plan_file.h"

namespace tilefuse {
namespace {

using aten::Field;
using Json = nlohmann::json;

double total_milliseconds(const Json& report) {
  double sum = 0;
  for (const Json& stage : report.at("stages")) sum += stage.at("milliseconds").get<double>();
  return sum;
}

// What a fused file says of itself is somebody's file like any other: what is printed of it has to be there.
void check_document(const Json& json, const std::string& place) {
  const Field graphs = Field(json).inside(place)["graphs"];
  for (size_t g = 0; g < graphs.size(); ++g) {
    const Field regions = graphs.at(g)["regions"], edges = graphs.at(g)["unfused_edges"];
    const auto faults = graphs.at(g).find("faults");
    for (size_t f = 0; faults && f < faults->size(); ++f) (void)faults->at(f).text();
    for (size_t r = 0; r < regions.size(); ++r) {
      const Field region = regions.at(r), ops = region["ops"];
      for (const char* name : {"name", "schedule", "source"}) (void)region[name].text();
      (void)region["predicted_us"].number();
      for (size_t i = 0; i < ops.size(); ++i) (void)ops.at(i).text();
    }
    for (size_t e = 0; e < edges.size(); ++e) {
      for (const char* name : {"value", "consumer", "text"}) (void)edges.at(e)[name].text();
    }
  }
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
  const Json document = parse_document(file.archive().text(kReportEntry), place);
  check_document(document, place);
  return document.dump();
}

}  // namespace tilefuse
