#include "core/import/elsewhere.h"

#include <algorithm>

#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

constexpr std::string_view kProcessor = "cpu";

bool holds_tensor(const Argument& argument) {
  if (const auto* list = std::get_if<ArgumentList>(&argument.value)) {
    return std::any_of(list->begin(), list->end(), holds_tensor);
  }
  return std::holds_alternative<ValueId>(argument.value);
}

}  // namespace

std::string device_of_graph(const Field& graph) {
  const auto device_of = [](const Field& record) { return device_name(record["device"]); };
  const Field tensors = graph["tensor_values"], inputs = graph["inputs"];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto tensor = inputs.at(i).find("as_tensor");
    const auto record = tensor ? tensors.find((*tensor)["name"].text()) : std::nullopt;
    if (record && device_of(*record) != kProcessor) return device_of(*record);
  }
  for (const auto& [name, record] : tensors.json().items()) {
    const std::string device = device_of(tensors[name]);
    if (device != kProcessor) return device;
  }
  return std::string(kProcessor);
}

Elsewhere::Elsewhere(GraphBuilder& builder, std::string device)
    : builder_(&builder), device_(std::move(device)) {
  builder_->set_device(device_);
}

void Elsewhere::place(ValueId value, const TensorRecord& record) {
  builder_->set_elsewhere(value, record.device);
}

bool Elsewhere::reads_elsewhere(const std::vector<Argument>& arguments) const {
  return std::any_of(arguments.begin(), arguments.end(), [&](const Argument& argument) {
    if (const auto* list = std::get_if<ArgumentList>(&argument.value)) return reads_elsewhere(*list);
    const auto* value = std::get_if<ValueId>(&argument.value);
    return value != nullptr && !builder_->graph()[*value].elsewhere.empty();
  });
}

bool Elsewhere::is_number(const std::vector<Argument>& arguments,
                          const std::vector<ResultRecord>& results) const {
  return results.size() == 1 && is_elsewhere(results[0]) && results[0]->device == kProcessor &&
         results[0]->type.shape.empty() && std::none_of(arguments.begin(), arguments.end(), holds_tensor);
}

bool Elsewhere::may_expand(const std::vector<Argument>& arguments,
                           const std::vector<ResultRecord>& results) const {
  const bool stays = std::none_of(results.begin(), results.end(),
                                  [&](const ResultRecord& result) { return is_elsewhere(result); });
  return (stays && !reads_elsewhere(arguments)) || is_number(arguments, results);
}

void Elsewhere::note_number(const std::string& overload, const std::vector<Argument>& arguments,
                            const std::vector<ResultRecord>& results, const Outputs& outputs) {
  if (is_number(arguments, results)) {
    numbers_.insert_or_assign(outputs[0]->id(), Number{overload, arguments, *results[0], std::nullopt});
  }
}

ValueId Elsewhere::as_it_was(ValueId value) {
  const auto found = numbers_.find(value);
  if (found == numbers_.end()) return value;
  Number& number = found->second;
  if (!number.made) {
    number.made = add_call(*builder_, number.overload, number.arguments, {number.record}).front();
    place(*number.made, number.record);
  }
  return *number.made;
}

std::vector<Argument> Elsewhere::as_they_were(std::vector<Argument> arguments) {
  if (numbers_.empty()) return arguments;
  for (Argument& argument : arguments) {
    if (auto* list = std::get_if<ArgumentList>(&argument.value)) *list = as_they_were(std::move(*list));
    if (auto* value = std::get_if<ValueId>(&argument.value)) *value = as_it_was(*value);
  }
  return arguments;
}

void Elsewhere::refuse_write(const std::string& target, ValueId into, ValueId value) const {
  const Graph& graph = builder_->graph();
  const Value& other = graph[graph[into].elsewhere.empty() ? value : into];
  if (other.elsewhere.empty()) return;
  refuse("cannot take a graph that writes into '" + target + "': '" + other.name + "' is on " +
         other.elsewhere + ", and the graph on " + device_);
}

}  // namespace tilefuse::aten
