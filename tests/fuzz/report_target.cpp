// The report in a fused file, as text for a terminal and as a page.
#include <algorithm>

#include "core/result.h"
#include "offline/check_report.h"
#include "page/report_page.h"
#include "page/report_text.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/fuzz_targets.h"

namespace tilefuse::fuzz {
namespace {

// What opens an element, or closes one.
auto tags(const std::string& page) { return std::count(page.begin(), page.end(), '<'); }

}  // namespace

void run_report(std::string_view bytes) {
  try {
    const nlohmann::json report = parse_report(bytes, "report.json");
    report_text(report);
    static const auto markup = tags(report_page("{}", "report"));
    require(tags(report_page(report.dump(), "report")) == markup,
            "text of a report became markup of its page");
  } catch (const UserError&) {
  }
}

}  // namespace tilefuse::fuzz
