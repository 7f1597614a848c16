#include "offline/size_nodes.h"

#include <algorithm>

#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

Json named_argument(const char* name, Json value) {
  return {{"name", name}, {"arg", std::move(value)}, {"kind", 1}};
}

Json as_argument(const Json& size) { return size.contains("as_int") ? size : Json{{"as_sym_int", size}}; }

// The only output of a node that makes a size; empty: it makes something else.
std::string made_size(const Json& node) {
  const Json& outputs = node.at("outputs");
  if (outputs.size() != 1 || !outputs[0].contains("as_sym_int")) return "";
  return outputs[0].at("as_sym_int").value("as_name", "");
}

}  // namespace

SizeNodes::SizeNodes(const Json& document, const Executable& executable, const SizeText& text, Json& nodes,
                     std::set<std::string>& taken)
    : document_(document), executable_(executable), text_(text), nodes_(nodes), taken_(taken) {}

void SizeNodes::keep(const std::string& name) {
  const Json& value = document_.at("graph_module").at("graph").at("sym_int_values").at(name);
  taken_.insert(name);
  values_[name] = value;
  if (value.contains("as_expr")) by_text_.emplace(value.at("as_expr").at("expr_str"), name);
}

bool SizeNodes::reads_inputs(const Json& node, const std::set<std::string>& tensors) const {
  return std::all_of(node.at("inputs").begin(), node.at("inputs").end(), [&](const Json& input) {
    const Json& argument = input.at("arg");
    if (argument.contains("as_tensor")) return tensors.contains(argument.at("as_tensor").at("name"));
    const bool is_named = argument.contains("as_sym_int") && argument["as_sym_int"].contains("as_name");
    return !is_named || values_.contains(argument["as_sym_int"]["as_name"].get<std::string>());
  });
}

void SizeNodes::keep_known() {
  const Json& graph = document_.at("graph_module").at("graph");
  const Json& sizes = graph.at("sym_int_values");
  std::set<std::string> tensors;
  for (const Json& input : graph.at("inputs")) {
    if (input.contains("as_tensor")) tensors.insert(input.at("as_tensor").at("name"));
    const bool is_size = input.contains("as_sym_int") && input["as_sym_int"].contains("as_name");
    if (is_size && sizes.contains(input["as_sym_int"]["as_name"])) keep(input["as_sym_int"]["as_name"]);
  }
  for (const Json& node : graph.at("nodes")) {
    const std::string name = made_size(node);
    if (name.empty() || !sizes.contains(name) || !reads_inputs(node, tensors)) continue;
    nodes_.push_back(node);
    keep(name);
  }
}

std::string SizeNodes::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 1; !taken_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
  return name;
}

Json SizeNodes::argument(const Expr& size) {
  if (const auto value = size.constant()) return {{"as_int", *value}};
  return {{"as_name", name_of(size)}};
}

Json SizeNodes::tagged(const Expr& size) { return as_argument(argument(size)); }

Json SizeNodes::tagged(const std::vector<Expr>& sizes) {
  Json list = Json::array();
  bool are_literals = true;
  for (const Expr& size : sizes) {
    list.push_back(argument(size));
    are_literals &= list.back().contains("as_int");
  }
  if (!are_literals) return {{"as_sym_ints", list}};
  Json literals = Json::array();
  for (const Json& size : list) literals.push_back(size["as_int"]);
  return {{"as_ints", literals}};
}

// A dimension of an input that is the symbol itself.
std::string SizeNodes::symbol(const std::string& name) {
  const Json& inputs = document_.at("graph_module").at("graph").at("inputs");
  for (size_t position = 0; position < executable_.inputs.size(); ++position) {
    const auto* slot = std::get_if<SlotId>(&executable_.inputs[position].value);
    if (slot == nullptr) continue;
    const auto& sizes = executable_[*slot].spec.sizes;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (sizes[dim].is_polynomial() && to_text(sizes[dim]) == name) {
        const std::string made = unique("sym_size_int");
        const Json tensor = inputs.at(position);
        nodes_.push_back(
            {{"target", "torch.ops.aten.sym_size.int"},
             {"inputs", {named_argument("self", tensor), named_argument("dim", {{"as_int", dim}})}},
             {"outputs", {{{"as_sym_int", {{"as_name", made}}}}}},
             {"metadata", Json::object()},
             {"is_hop_single_tensor_return", nullptr}});
        values_[made] = text_.size(sizes[dim]);
        by_text_.emplace(text_.text(sizes[dim]), made);
        return made;
      }
    }
  }
  throw UserError("the size " + name + " cannot be read off an input of the program");
}

Json SizeNodes::combined(const char* function, const Json& a, const Json& b, const Expr& value) {
  const std::string made = unique("size");
  nodes_.push_back({{"target", function},
                    {"inputs", {named_argument("a", as_argument(a)), named_argument("b", as_argument(b))}},
                    {"outputs", {{{"as_sym_int", {{"as_name", made}}}}}},
                    {"metadata", Json::object()},
                    {"is_hop_single_tensor_return", nullptr}});
  values_[made] = text_.size(value);
  return {{"as_name", made}};
}

Json SizeNodes::product(const Expr& expr, size_t position) {
  const Expr::Term& term = expr.terms()[position];
  Json result = {{"as_int", term.coefficient}};
  Expr value = term.coefficient;
  for (const Expr::Atom& atom : term.factors) {
    const Expr factor = make_expr({{1, {atom}}});
    const Json made = {{"as_name", name_of(factor)}};
    const bool is_first = value.is_constant(1);
    value = value * factor;
    result = is_first ? made : combined("_operator.mul", result, made, value);
  }
  return result;
}

std::string SizeNodes::name_of(const Expr& size) {
  const auto known = by_text_.find(text_.text(size));
  if (known != by_text_.end()) return known->second;
  const auto& terms = size.terms();
  Json sum;
  if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1) {
    const Expr::Atom& atom = terms[0].factors[0];
    if (atom.kind == Expr::AtomKind::Symbol) return symbol(atom.symbol);
    const char* function = atom.kind == Expr::AtomKind::FloorDiv ? "_operator.floordiv"
                           : atom.kind == Expr::AtomKind::Mod    ? "_operator.mod"
                           : atom.kind == Expr::AtomKind::Min    ? "torch.sym_min"
                                                                 : "torch.sym_max";
    sum = combined(function, argument(atom.args[0]), argument(atom.args[1]), size);
  } else {
    Expr value = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      const Json term = product(size, i);
      value = value + make_expr({terms[i]});
      sum = i == 0 ? term : combined("_operator.add", sum, term, value);
    }
  }
  by_text_.emplace(text_.text(size), sum["as_name"]);
  return sum["as_name"];
}

}  // namespace tilefuse
