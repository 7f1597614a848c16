// Sizes as arguments of operators: a graph of torch.export passes a symbolic size by the name of a node that
// makes it. Nodes of the program that only read its inputs are kept; what else is needed is made from the
// inputs' sizes.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "codegen/executable.h"
#include "offline/size_text.h"

namespace tilefuse {

class SizeNodes {
 public:
  // `nodes`: of the graph that is written; what is made is appended to it. `taken`: names of the graph.
  SizeNodes(const nlohmann::json& document, const Executable& executable, const SizeText& text,
            nlohmann::json& nodes, std::set<std::string>& taken);

  // Keeps the program's own nodes that make sizes.
  void keep_known();
  bool is_kept(const std::string& name) const { return values_.contains(name); }

  nlohmann::json argument(const Expr& size);                // {"as_int": 3} or {"as_name": "sym_size"}
  nlohmann::json tagged(const Expr& size);                  // {"as_int": 3} or {"as_sym_int": {...}}
  nlohmann::json tagged(const std::vector<Expr>& sizes);    // {"as_ints": ...} or {"as_sym_ints": ...}
  const nlohmann::json& values() const { return values_; }  // sym_int_values of the graph

 private:
  void keep(const std::string& name);
  bool reads_inputs(const nlohmann::json& node, const std::set<std::string>& tensors) const;
  std::string name_of(const Expr& size);
  std::string symbol(const std::string& name);
  nlohmann::json product(const Expr& expr, size_t term);
  nlohmann::json combined(const char* function, const nlohmann::json& a, const nlohmann::json& b,
                          const Expr& value);
  std::string unique(const std::string& wanted);

  const nlohmann::json& document_;
  const Executable& executable_;
  const SizeText& text_;
  nlohmann::json& nodes_;
  std::set<std::string>& taken_;
  nlohmann::json values_ = nlohmann::json::object();
  std::map<std::string, std::string> by_text_;  // expression -> name of the node that makes it
};

}  // namespace tilefuse
