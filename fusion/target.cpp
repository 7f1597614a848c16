#include "fusion/target.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/nearest_name.h"
#include "core/result.h"
#include "fusion/instruction_sets.h"
#include "fusion/profile_reader.h"
#include "fusion/target_profiles.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

void read_sizes(const ProfileReader& profile, Target& target) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  target.vector_bytes = static_cast<int>(profile.integer("vector_bytes", 4, 256));
  if ((target.vector_bytes & (target.vector_bytes - 1)) != 0) {
    profile.fail("vector_bytes", "must be a power of two, got " + std::to_string(target.vector_bytes));
  }
  target.datapath_bytes = static_cast<int>(profile.integer("datapath_bytes", 4, target.vector_bytes));
  target.vector_registers = static_cast<int>(profile.integer("vector_registers", 8, 256));
  target.cores = static_cast<int>(profile.integer("cores", 1, 4096));
  target.clock_ghz = profile.quantity("clock_ghz", profile.field("clock_ghz"));
  target.l1_bytes = profile.integer("l1_bytes", 1 << 10, kGiB);
  target.l2_bytes = profile.integer("l2_bytes", target.l1_bytes, kGiB);
  target.l3_bytes = profile.integer("l3_bytes", target.l2_bytes, 64 * kGiB);
}

std::vector<std::string> read_instructions(const ProfileReader& profile, const std::string& name,
                                           const Json& list) {
  if (!list.is_array()) profile.fail(name, "must be a list of instruction sets");
  const std::vector<std::string_view> known = instruction_set_names();
  std::vector<std::string> sets;
  for (const Json& item : list) {
    const std::string field = name + "[" + std::to_string(sets.size()) + "]";
    if (!item.is_string()) profile.fail(field, "must be a string");
    const auto set = item.get<std::string>();
    if (std::find(known.begin(), known.end(), set) == known.end()) {
      const auto nearest = nearest_name(set, known);
      profile.fail(field, "is no instruction set that is known: " + set +
                              (nearest ? "; did you mean " + *nearest + "?" : std::string()));
    }
    sets.push_back(set);
  }
  return sets;
}

// {"vendor": "GenuineIntel", "family": 6, "has": ["avx512fp16"]}; a profile of estimates has none.
std::optional<MeasuredOn> read_measured_on(const ProfileReader& profile) {
  if (!profile.json.contains("measured_on")) return std::nullopt;
  const Json& given = profile.json["measured_on"];
  if (!given.is_object()) profile.fail("measured_on", "must be an object with vendor and family");
  if (!given.contains("vendor") || !given["vendor"].is_string())
    profile.fail("measured_on", "lacks a vendor");
  if (!given.contains("family") || !given["family"].is_number_integer())
    profile.fail("measured_on", "lacks a family, an integer");
  MeasuredOn measured{given["vendor"].get<std::string>(), given["family"].get<int>(), {}};
  if (given.contains("has")) measured.has = read_instructions(profile, "measured_on.has", given["has"]);
  return measured;
}

}  // namespace

double Target::rate(const std::string& key) const {
  const auto found = rates.find(key);
  if (found == rates.end()) throw UserError("target " + name + ": the profile lacks rates." + key);
  return found->second;
}

double Target::rate_or(const std::string& key, double absent) const {
  const auto found = rates.find(key);
  return found == rates.end() ? absent : found->second;
}

Target parse_target(std::string_view json, const std::string& origin) {
  const Json document = Json::parse(json, nullptr, false);
  if (document.is_discarded()) throw UserError(origin + ": not JSON");
  if (!document.is_object()) throw UserError(origin + ": a target profile is a JSON object");
  const ProfileReader profile{document, origin};
  Target target;
  target.name = profile.text("name");
  target.kind = profile.text("kind");
  if (target.kind != "cpu") profile.fail("kind", "must be \"cpu\", got \"" + target.kind + "\"");
  read_sizes(profile, target);
  target.instructions = read_instructions(profile, "instructions", profile.field("instructions"));
  target.measured_on = read_measured_on(profile);
  const Json& rates = profile.field("rates");
  if (!rates.is_object()) profile.fail("rates", "must be an object");
  for (const auto& [key, entry] : rates.items()) target.rates[key] = profile.quantity("rates." + key, entry);
  return target;
}

Target load_target(const std::string& name_or_path) {
  return parse_target(profile_text("target", embedded_profiles(), name_or_path), name_or_path);
}

std::string target_identity(const std::string& name_or_path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name_or_path, ignored)) return name_or_path;
  return name_or_path + '\0' + profile_text("target", embedded_profiles(), name_or_path);
}

std::vector<std::string> target_names() { return names_of(embedded_profiles()); }

std::string host_target_name() {
  static const std::string name = target_name_for(host_processor());
  return name;
}

bool is_richer(const Target& a, const Target& b) {
  const auto rank = [](const Target& target) {
    return std::tuple(-target.vector_bytes, -int(target.instructions.size()), !target.measured_on,
                      target.name);
  };
  return rank(a) < rank(b);
}

}  // namespace tilefuse
