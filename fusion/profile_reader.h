// One hardware profile being read: fields of a JSON object, each number with its unit and source.
//
//   "l2_bytes": {"value": 524288, "unit": "bytes per core", "source": "architecture"}
//
// Every complaint is a UserError that names the file and the field.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tilefuse {

struct ProfileReader {
  const nlohmann::json& json;
  const std::string& origin;

  [[noreturn]] void fail(const std::string& field, const std::string& what) const;
  const nlohmann::json& field(const std::string& name) const;
  std::string text(const std::string& name) const;
  double quantity(const std::string& name, const nlohmann::json& entry) const;
  double quantity(const std::string& name) const { return quantity(name, field(name)); }
  int64_t integer(const std::string& name, int64_t low, int64_t high) const;
};

}  // namespace tilefuse
