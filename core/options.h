// What the environment says, read in this one place.
//
//   TILEFUSE_CXX             compiler for generated kernels
//   TILEFUSE_CACHE_DIR       where compiled kernels are kept
//   TILEFUSE_CACHE_LIMIT_MB  how much of them, 2048 unless told
//   TILEFUSE_TARGET          name of the hardware profile, instead of the one of this machine
//   TILEFUSE_DUMP            stages to write out, with commas between, or "all"
//   TILEFUSE_DUMP_DIR        where to; "tilefuse_dump" unless told
//   PATH                     where compilers are looked for
//
// A value that makes no sense is a UserError that names the variable.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

// In pipeline order; a dump file is numbered by its stage's place here.
enum class DumpStage : uint8_t { Capture, Graph, Partition, Tiles, Constraints, Schedule, Kernel, Source };
const std::vector<std::string_view>& dump_stage_names();  // by DumpStage

struct EnvironmentOptions {
  std::optional<std::string> cxx;
  std::optional<std::string> cache_dir;
  int64_t cache_limit_mb = 2048;
  std::optional<std::string> target;
  std::set<DumpStage> dump;
  std::string dump_dir = "tilefuse_dump";
  std::string search_path;  // PATH, where compilers are looked for
};

EnvironmentOptions read_environment();
// "graph,kernel" or "all"; `origin` names where the text came from in the UserError for an unknown stage.
std::set<DumpStage> parse_dump_stages(std::string_view text, std::string_view origin);

}  // namespace tilefuse
