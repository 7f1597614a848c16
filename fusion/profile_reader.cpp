#include "fusion/profile_reader.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/nearest_name.h"
#include "core/result.h"

namespace tilefuse {

void ProfileReader::fail(const std::string& field, const std::string& what) const {
  throw UserError(origin + ": " + field + " " + what);
}

const nlohmann::json& ProfileReader::field(const std::string& name) const {
  if (!json.contains(name)) fail(name, "is missing");
  return json[name];
}

std::string ProfileReader::text(const std::string& name) const {
  const nlohmann::json& value = field(name);
  if (!value.is_string()) fail(name, "must be a string");
  return value.get<std::string>();
}

double ProfileReader::quantity(const std::string& name, const nlohmann::json& entry) const {
  if (!entry.is_object()) fail(name, "must be an object with value, unit and source");
  for (const char* part : {"unit", "source"}) {
    if (!entry.contains(part) || !entry[part].is_string()) fail(name, std::string("lacks a ") + part);
  }
  if (!entry.contains("value") || !entry["value"].is_number()) fail(name, "lacks a number as its value");
  const double value = entry["value"].get<double>();
  if (!std::isfinite(value) || value <= 0) fail(name, "must be positive, got " + entry["value"].dump());
  return value;
}

int64_t ProfileReader::integer(const std::string& name, int64_t low, int64_t high) const {
  const double value = quantity(name, field(name));
  if (value != std::floor(value) || value < static_cast<double>(low) || value > static_cast<double>(high)) {
    fail(name, "must be an integer from " + std::to_string(low) + " to " + std::to_string(high) + ", got " +
                   field(name)["value"].dump());
  }
  return static_cast<int64_t>(value);
}

std::string profile_text(const std::string& what, const std::vector<EmbeddedProfile>& embedded,
                         const std::string& name_or_path) {
  std::vector<std::string_view> known;
  for (const EmbeddedProfile& profile : embedded) {
    if (profile.name == name_or_path) return std::string(profile.json);
    known.emplace_back(profile.name);
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name_or_path, ignored)) {
    std::string text = what + " " + name_or_path + ": neither a file nor one of ";
    for (size_t i = 0; i < known.size(); ++i) text.append(i == 0 ? "" : ", ").append(known[i]);
    if (const auto nearest = nearest_name(name_or_path, known)) text += "; did you mean " + *nearest + "?";
    throw UserError(text);
  }
  std::ifstream file(name_or_path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> names_of(const std::vector<EmbeddedProfile>& embedded) {
  std::vector<std::string> names;
  names.reserve(embedded.size());
  for (const EmbeddedProfile& profile : embedded) names.emplace_back(profile.name);
  return names;
}

}  // namespace tilefuse
