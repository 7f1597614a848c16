#include "core/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "core/nearest_name.h"
#include "core/result.h"

namespace tilefuse {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody here calls setenv
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

int64_t parse_megabytes(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end || value < 0) {
    throw UserError("TILEFUSE_CACHE_LIMIT_MB must be a number of megabytes, got '" + text + "'");
  }
  return value;
}

DumpStage parse_dump_stage(std::string_view name, std::string_view origin) {
  const auto& names = dump_stage_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<DumpStage>(found - names.begin());
  std::string message = std::string(origin) + ": there is no stage '" + std::string(name) + "'";
  if (const auto nearest = nearest_name(name, names)) {
    message += "; did you mean '" + *nearest + "'?";
  } else {
    message += "; the stages are all";
    for (const std::string_view stage : names) message += ", " + std::string(stage);
  }
  throw UserError(message);
}

}  // namespace

const std::vector<std::string_view>& dump_stage_names() {
  static const std::vector<std::string_view> names = {"capture",     "graph",    "partition", "tiles",
                                                      "constraints", "schedule", "kernel",    "source"};
  return names;
}

std::set<DumpStage> parse_dump_stages(std::string_view text, std::string_view origin) {
  std::set<DumpStage> stages;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (name.empty()) continue;
    if (name == "all") {
      for (size_t i = 0; i < dump_stage_names().size(); ++i) stages.insert(static_cast<DumpStage>(i));
    } else {
      stages.insert(parse_dump_stage(name, origin));
    }
  }
  return stages;
}

EnvironmentOptions read_environment() {
  EnvironmentOptions options;
  options.cxx = variable("TILEFUSE_CXX");
  options.cache_dir = variable("TILEFUSE_CACHE_DIR");
  options.target = variable("TILEFUSE_TARGET");
  if (const auto limit = variable("TILEFUSE_CACHE_LIMIT_MB"))
    options.cache_limit_mb = parse_megabytes(*limit);
  if (const auto dump = variable("TILEFUSE_DUMP")) options.dump = parse_dump_stages(*dump, "TILEFUSE_DUMP");
  if (const auto dir = variable("TILEFUSE_DUMP_DIR")) options.dump_dir = *dir;
  options.search_path = variable("PATH").value_or("");
  return options;
}

}  // namespace tilefuse
