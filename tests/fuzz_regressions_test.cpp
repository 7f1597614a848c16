// Inputs that once were findings of a fuzzer (tests/fuzz/regressions/<target>/<name>), each run again.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/fuzz/archive_bytes.h"
#include "tests/fuzz/fuzz_targets.h"

namespace tilefuse::fuzz {
namespace {

namespace fs = std::filesystem;

fs::path folder() { return fs::path(TILEFUSE_SOURCE_DIR) / "tests" / "fuzz" / "regressions"; }

std::vector<std::string> inputs() {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder())) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder()).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class FuzzRegression : public testing::TestWithParam<std::string> {};

TEST_P(FuzzRegression, is_taken_or_refused) {
  const fs::path name = GetParam();
  const std::string bytes = file_bytes((folder() / name).string());
  EXPECT_NO_THROW(find_target(name.parent_path().string()).run(bytes));
}

INSTANTIATE_TEST_SUITE_P(Fuzz, FuzzRegression, testing::ValuesIn(inputs()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(FuzzTargets, take_what_a_compiler_made) {
  for (const Target& target : targets()) {
    EXPECT_NO_THROW(target.run("")) << target.name;
    EXPECT_NO_THROW(target.run("no such thing")) << target.name;
  }
  EXPECT_NO_THROW(run_archive(file_bytes(TILEFUSE_SOURCE_DIR "/tests/offline/counter.pt2")));
}

}  // namespace
}  // namespace tilefuse::fuzz
