// .pt2 files: opened, their state read, their regions made again, fused.
#include "core/result.h"
#include "offline/fuse_file.h"
#include "offline/program_file.h"
#include "offline/region_files.h"
#include "tests/fuzz/archive_bytes.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/fuzz_targets.h"

namespace tilefuse::fuzz {
namespace {

constexpr std::string_view kExtra = "extra/tilefuse/";

// Nothing is compiled and nothing is trusted.
CompileOptions options_without_compiler() {
  CompileOptions options;
  options.target = "x86-avx2";
  options.threads = 2;
  options.cxx = "/nonexistent/c++";
  options.search_path = "/nonexistent";
  options.cache_dir = scratch_folder() + "/cache";
  return options;
}

void read_regions(const Archive& archive) {
  ExtraFiles files;
  for (const auto& [name, entry] : archive.entries()) {
    if (name.starts_with(kExtra)) files[name.substr(kExtra.size())] = archive.text(name);
  }
  if (files.empty()) return;
  const std::string origin = archive.path() + ": entry " + std::string(kExtra);
  for (const FileRegion& region : load_regions(files, origin, false, options_without_compiler())) {
    require(!region.module && !region.how.empty(), "a region without a compiler has a kernel");
  }
}

}  // namespace

void run_archive(std::string_view bytes) {
  const MemoryFile file(bytes);
  try {
    const ProgramFile program = ProgramFile::open(file.path());
    program.check_state();
    read_regions(program.archive());
    const std::string fused = scratch_folder() + "/fused.pt2";
    const FuseResult result =
        fuse_file(file.path(), fused, {.compile = options_without_compiler(), .embed = false});
    const ProgramFile written = ProgramFile::open(fused);
    written.check_state();
    if (result.refusal.empty())
      require(bool(import_program(written)), "a fused program cannot be read again");
  } catch (const UserError& error) {
    const std::string text = error.what();
    require(text.starts_with(file.path()) || text.starts_with(scratch_folder()),
            "an error does not name the file: " + text);
  }
}

}  // namespace tilefuse::fuzz
