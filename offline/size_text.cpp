#include "offline/size_text.h"

#include "core/expr_terms.h"
#include "core/import/size_hints.h"
#include "core/result.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSymbol = "Symbol('";

std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  if (arguments.size() == 1) return arguments[0];
  std::string text = function + "(";
  for (const std::string& argument : arguments) text += (text.back() == '(' ? "" : ", ") + argument;
  return text + ")";
}

const char* function_of(Expr::AtomKind kind) {
  switch (kind) {
    case Expr::AtomKind::FloorDiv:
      return "FloorDiv";
    case Expr::AtomKind::Mod:
      return "Mod";
    case Expr::AtomKind::Min:
      return "Min";
    default:
      return "Max";
  }
}

}  // namespace

SizeText::SizeText(const Json& document) : hints_(captured_size_hints(document.dump())) {
  note_symbols(document.at("graph_module").at("graph"));
}

// Every spelling of a symbol in the document is the same.
void SizeText::note_symbols(const Json& value) {
  if (value.is_object() || value.is_array()) {
    for (const Json& item : value) note_symbols(item);
    if (!value.is_object() || !value.contains("expr_str") || !value["expr_str"].is_string()) return;
    const std::string& text = value["expr_str"].get_ref<const std::string&>();
    for (size_t at = text.find(kSymbol); at != std::string::npos; at = text.find(kSymbol, at + 1)) {
      const size_t name = at + kSymbol.size(), quote = text.find('\'', name), close = text.find(')', at);
      if (quote == std::string::npos || close == std::string::npos) continue;
      symbols_.emplace(text.substr(name, quote - name), text.substr(at, close + 1 - at));
    }
  }
}

std::string SizeText::text(const Expr& expr) const {
  std::vector<std::string> terms;
  for (const Expr::Term& term : expr.terms()) {
    std::vector<std::string> factors;
    if (term.coefficient != 1 || term.factors.empty()) {
      factors.push_back("Integer(" + std::to_string(term.coefficient) + ")");
    }
    for (const Expr::Atom& atom : term.factors) {
      if (atom.kind == Expr::AtomKind::Symbol) {
        const auto known = symbols_.find(atom.symbol);
        if (known == symbols_.end()) throw UserError("the size " + atom.symbol + " has no declaration");
        factors.push_back(known->second);
      } else {
        factors.push_back(call(function_of(atom.kind), {text(atom.args.at(0)), text(atom.args.at(1))}));
      }
    }
    terms.push_back(call("Mul", factors));
  }
  return terms.empty() ? "Integer(0)" : call("Add", terms);
}

Json SizeText::size(const Expr& expr) const {
  if (const auto value = expr.constant()) return {{"as_int", *value}};
  Json hint;
  const std::vector<std::string> symbols = symbols_of(expr);
  const bool is_known = std::all_of(symbols.begin(), symbols.end(),
                                    [&](const std::string& symbol) { return hints_.contains(symbol); });
  if (is_known) {
    hint = {{"as_int", evaluate(expr, {}, [&](const std::string& symbol) { return hints_.at(symbol); })}};
  }
  return {{"as_expr", {{"expr_str", text(expr)}, {"hint", hint}}}};
}

Json SizeText::sizes(const std::vector<Expr>& exprs) const {
  Json list = Json::array();
  for (const Expr& expr : exprs) list.push_back(size(expr));
  return list;
}

}  // namespace tilefuse
