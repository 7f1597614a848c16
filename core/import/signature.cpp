#include "core/import/signature.h"

#include <array>

namespace tilefuse::aten {
namespace {

struct Kind {
  std::string_view kind, name_field;
};
constexpr std::array kStateInputs = {Kind{"parameter", "parameter_name"}, Kind{"buffer", "buffer_name"},
                                     Kind{"tensor_constant", "tensor_constant_name"}};
constexpr std::array kMutations = {Kind{"buffer_mutation", "buffer_name"},
                                   Kind{"parameter_mutation", "parameter_name"},
                                   Kind{"user_input_mutation", "user_input_name"}};

}  // namespace

Signature::Signature(const Field& graph_module) {
  const auto signature = graph_module.find("signature");
  if (!signature) return;
  const auto inputs = signature->find("input_specs"), outputs = signature->find("output_specs");
  for (size_t i = 0; inputs && i < inputs->size(); ++i) read_input(inputs->at(i));
  for (size_t i = 0; outputs && i < outputs->size(); ++i) read_output(outputs->at(i), i);
}

void Signature::read_input(const Field& spec) {
  const auto [kind, content] = spec.tagged();
  for (const Kind& row : kStateInputs) {
    if (row.kind != kind) continue;
    const std::string& input = content["arg"]["name"].text();
    state_.insert(input);
    if (const auto name = content.find(row.name_field)) input_of_[name->text()] = input;
  }
}

void Signature::read_output(const Field& spec, size_t position) {
  const auto [kind, content] = spec.tagged();
  for (const Kind& row : kMutations) {
    if (row.kind != kind) continue;
    const Field name = content[row.name_field];
    const bool is_state = kind != "user_input_mutation";
    if (is_state && !input_of_.contains(name.text())) {
      name.fail("names '" + name.text() + "', which no input spec has");
    }
    mutated_[position] = is_state ? input_of_.at(name.text()) : name.text();
  }
}

}  // namespace tilefuse::aten
