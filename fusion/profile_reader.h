// One hardware profile being read: fields of a JSON object, each number with its unit and source.
//
//   "l2_bytes": {"value": 524288, "unit": "bytes per core", "source": "architecture"}
//
// Every complaint is a UserError that names the file and the field.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fusion/target_profiles.h"

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

// The text of a profile: the embedded one of that name, or that file. A UserError that begins with `what`
// ("target") names the embedded ones and the nearest.
std::string profile_text(const std::string& what, const std::vector<EmbeddedProfile>& embedded,
                         const std::string& name_or_path);
std::vector<std::string> names_of(const std::vector<EmbeddedProfile>& embedded);

}  // namespace tilefuse
