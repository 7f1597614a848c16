// The operators behind tilefuse.fuse, behind loading a fused program with torch.export.load, and behind
// pages.
//
//   fuse_file(str input, str output, str options_json) -> str
//     options_json: as for compile, and {"embed": false, "targets": ["x86-avx2", "x86-zen4"]}. The answer:
//       {"regions": 3, "launches": 12, "calls": 20, "refusal": null, "warnings": [], "report": {...} or null}
//   register_regions(str files_json, str origin, bool trusted, str options_json) -> str
//     files_json: {"tilefuse.json": "...", ...}, the files below extra/tilefuse/. The answer:
//       {"layer_norm_gelu_0f3a...": "embedded for x86-zen4", ...}
//   report_page(str report_json, str title) -> str
//     The report as one HTML file.
//   report_text(str report_json) -> str
//     The report as it is printed.
#include <torch/library.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "core/import/document.h"
#include "offline/fuse_file.h"
#include "page/report_page.h"
#include "page/report_text.h"
#include "torch_ext/region_operators.h"
#include "torch_ext/translate_errors.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

// The list of targets, taken out of the options.
std::vector<std::string> taken_targets(Json& options) {
  std::vector<std::string> targets;
  if (!options.is_object() || !options.contains("targets")) return targets;
  for (const Json& target : options["targets"]) {
    if (!target.is_string()) throw UserError("option 'targets' wants a list of names, got " + target.dump());
    targets.push_back(target.get<std::string>());
  }
  options.erase("targets");
  return targets;
}

std::string fuse_program(const std::string& input, const std::string& output,
                         const std::string& options_json) {
  return translated([&] {
    Json given = parse_document(options_json, "the options");
    FuseOptions options;
    options.targets = taken_targets(given);
    if (given.is_object() && given.contains("embed")) {
      options.embed = given["embed"] == true;
      given.erase("embed");
    }
    options.compile = parse_compile_options(given.dump(), read_environment());
    const FuseResult result = fuse_file(input, output, options);
    return Json{{"regions", result.regions},
                {"launches", result.launches},
                {"calls", result.calls},
                {"refusal", result.refusal.empty() ? Json() : Json(result.refusal)},
                {"warnings", result.warnings},
                {"report", result.report.empty() ? Json() : Json::parse(result.report)}}
        .dump();
  });
}

std::string register_from(const std::string& files_json, const std::string& origin, bool trusted,
                          const std::string& options_json) {
  return translated([&] {
    static auto* one_at_a_time = new std::mutex;
    const std::lock_guard lock(*one_at_a_time);
    const Json given = parse_document(files_json, origin);
    ExtraFiles files;
    for (const auto& [name, text] : given.items()) files[name] = text.get<std::string>();
    const CompileOptions options = parse_compile_options(options_json, read_environment());
    Json answer = Json::object();
    for (const FileRegion& region : register_regions(files, origin, trusted, options)) {
      answer[region.op] = region.how;
    }
    return answer.dump();
  });
}

std::string page_of(const std::string& report_json, const std::string& title) {
  return translated([&] { return report_page(report_json, title); });
}

std::string text_of(const std::string& report_json) {
  return translated([&] { return report_text(parse_document(report_json, "the report")); });
}

TORCH_LIBRARY_FRAGMENT(tilefuse, library) {
  library.def("fuse_file(str input, str output, str options_json) -> str", &fuse_program);
  library.def("register_regions(str files_json, str origin, bool trusted, str options_json) -> str",
              &register_from);
  library.def("report_page(str report_json, str title) -> str", &page_of);
  library.def("report_text(str report_json) -> str", &text_of);
}

}  // namespace
}  // namespace tilefuse
