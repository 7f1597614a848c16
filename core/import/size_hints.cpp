#include "core/import/size_hints.h"

#include <nlohmann/json.hpp>

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOpen = "Symbol('";
constexpr int64_t kLargest = int64_t{1} << 40;  // of a size that something was exported with

// The symbol that the expression is, if it is one and nothing else.
std::string lone_symbol(const std::string& text) {
  if (text.rfind(kOpen, 0) != 0 || text.rfind("Symbol(") != 0) return "";
  const size_t quote = text.find('\'', kOpen.size());
  const size_t close = text.find(')');
  if (quote == std::string::npos || close + 1 != text.size()) return "";
  return text.substr(kOpen.size(), quote - kOpen.size());
}

void add_hint(const Json& size, std::map<std::string, int64_t>& hints) {
  if (!size.is_object() || !size.contains("as_expr")) return;
  const Json& expr = size["as_expr"];
  const Json hint = expr.value("hint", Json());
  if (!hint.is_object() || !hint.contains("as_int") || !hint["as_int"].is_number_integer()) return;
  const std::string symbol = lone_symbol(expr.value("expr_str", ""));
  const auto value = hint["as_int"].get<int64_t>();
  if (!symbol.empty() && value >= 0 && value <= kLargest) hints[symbol] = value;
}

}  // namespace

std::map<std::string, int64_t> captured_size_hints(std::string_view json_text) {
  std::map<std::string, int64_t> hints;
  if (json_text.find("as_expr") == std::string_view::npos) return hints;  // all sizes are literals
  try {
    const Json document = Json::parse(json_text);
    const Json& graph = document.at("graph_module").at("graph");
    for (const Json& size : graph.at("sym_int_values")) add_hint(size, hints);
    for (const Json& tensor : graph.at("tensor_values")) {
      for (const Json& size : tensor.at("sizes")) add_hint(size, hints);
    }
  } catch (const Json::exception&) {  // what is wrong with the document, import_graph says
    hints.clear();
  }
  return hints;
}

}  // namespace tilefuse
