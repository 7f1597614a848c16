// A place in the captured JSON: the value there and the path to it, so that every error names node and field.
//
//   Field node = graph["nodes"].at(3).inside("node 'add_3'");
//   node["inputs"].at(0)["name"].text()    -> "self", or
//   UserError: node 'add_3': field inputs[0].name: must be a string, got 7
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tilefuse::aten {

class Field {
 public:
  explicit Field(const nlohmann::json& value) : value_(&value) {}

  Field inside(std::string place) const;                  // starts the path anew at a named place
  Field operator[](std::string_view key) const;           // UserError if absent
  std::optional<Field> find(std::string_view key) const;  // absent or null: nullopt
  Field at(size_t index) const;
  size_t size() const;  // of a list

  const std::string& text() const;
  int64_t integer() const;
  double number() const;  // also the schema's "Infinity", "-Infinity" and "NaN"
  bool flag() const;
  // The one key and value of a tagged union: {"as_int": 3}.
  std::pair<std::string_view, Field> tagged() const;
  const nlohmann::json& json() const { return *value_; }

  [[noreturn]] void fail(const std::string& what) const;

 private:
  Field(const nlohmann::json& value, std::string place, std::string path)
      : value_(&value), place_(std::move(place)), path_(std::move(path)) {}
  std::string shown() const;

  const nlohmann::json* value_;
  std::string place_, path_;
};

}  // namespace tilefuse::aten
