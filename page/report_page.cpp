#include "page/report_page.h"

#include <map>

#include "core/result.h"
#include "page/page_parts.h"

namespace tilefuse {
namespace {

std::string escaped(std::string_view text, const std::map<char, std::string_view>& replacements) {
  std::string result;
  for (const char c : text) {
    const auto found = replacements.find(c);
    if (found == replacements.end()) {
      result += c;
    } else {
      result += found->second;
    }
  }
  return result;
}

std::string as_text(std::string_view text) {
  return escaped(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

// In JSON these three stand inside of strings only. Without them nothing in it ends the element or begins a
// comment.
std::string as_script_data(std::string_view json) {
  return escaped(json, {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

}  // namespace

std::string report_page(std::string_view report_json, std::string_view title) {
  const PageParts& parts = page_parts();
  if (!parts.missing.empty()) {
    throw UserError("this build of TileFuse writes no pages: it needs " + std::string(parts.missing) +
                    ", installed before TileFuse is built");
  }
  const std::map<std::string_view, std::string> texts = {
      {"title", as_text(title)},
      {"style", std::string(parts.style)},
      {"licences", as_text(parts.licences)},
      {"report", as_script_data(report_json)},
      {"layout", std::string(parts.dagre) + "\n" + std::string(parts.layout)},
      {"drawing", std::string(parts.d3)},
      {"script", std::string(parts.script)},
  };
  std::string page;
  std::string_view rest = parts.skeleton;
  for (size_t at = rest.find("{{"); at != std::string_view::npos; at = rest.find("{{")) {
    const size_t end = rest.find("}}", at);
    TILEFUSE_CHECK(end != std::string_view::npos, "page.html: {{ without }}");
    const auto found = texts.find(rest.substr(at + 2, end - at - 2));
    TILEFUSE_CHECK(found != texts.end(), "page.html: an unknown part");
    page += rest.substr(0, at);
    page += found->second;
    rest.remove_prefix(end + 2);
  }
  return page + std::string(rest);
}

}  // namespace tilefuse
