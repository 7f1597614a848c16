// Runs every file below tests/golden through the stage it names and compares what comes out.
//
//   # What the file is about, in a sentence.
//   run: partition --target x86-avx2
//
//   <input>
//   ---
//   <expected output>, or `error: ...` where the stage refuses
//
// TILEFUSE_BLESS=1 writes what came out into the files instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/result.h"
#include "tools/stages.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;

struct Golden {
  std::string head;  // up to and with the line ---
  std::string stage;
  StageOptions options;
  std::string input, expected;
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "partition --target x86-avx2": the stage and pairs of words.
void parse_run_line(const std::string& line, Golden& golden) {
  std::istringstream words(line);
  words >> golden.stage;
  std::string option;
  std::string value;
  while (words >> option >> value) golden.options[option.substr(option.find_first_not_of('-'))] = value;
}

Golden parse_golden(const std::string& text) {
  Golden golden;
  size_t at = 0;
  while (text.compare(at, 1, "#") == 0) at = text.find('\n', at) + 1;
  if (text.compare(at, 4, "run:") != 0) throw UserError("after the prose comes a line `run: <stage>`");
  const size_t run_end = text.find('\n', at);
  parse_run_line(text.substr(at + 4, run_end - at - 4), golden);
  const size_t line = text.find("\n---\n", run_end);
  if (line == std::string::npos) throw UserError("a line --- stands between input and output");
  const size_t input = text.find_first_not_of('\n', run_end);
  golden.head = text.substr(0, line + 5);
  golden.input = text.substr(input, line + 1 - input);
  golden.expected = text.substr(line + 5);
  return golden;
}

std::string output_of(const Golden& golden) {
  try {
    return run_stage(golden.stage, golden.options, golden.input);
  } catch (const std::exception& error) {
    const std::string text = std::string("error: ") + error.what();
    return text.ends_with('\n') ? text : text + "\n";
  }
}

fs::path golden_folder() { return fs::path(TILEFUSE_SOURCE_DIR) / "tests" / "golden"; }

std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(golden_folder())) {
    if (entry.path().extension() == ".txt")
      files.push_back(fs::relative(entry.path(), golden_folder()).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class GoldenFile : public testing::TestWithParam<std::string> {};

TEST_P(GoldenFile, matches) {
  const fs::path path = golden_folder() / GetParam();
  const Golden golden = parse_golden(contents(path));
  const std::string output = output_of(golden);
  if (std::getenv("TILEFUSE_BLESS") != nullptr) {
    if (output != golden.expected) std::ofstream(path, std::ios::binary) << golden.head << output;
    return;
  }
  EXPECT_EQ(output, golden.expected) << "TILEFUSE_BLESS=1 writes what came out into " << path;
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenFile, testing::ValuesIn(golden_files()), [](const auto& info) {
  std::string name = fs::path(info.param).replace_extension().string();
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(Stages, take_spaces_around_pins) {
  const std::string tiles =
      "tile_graph scaled {\n  axes row: 64, col: 64\n  buffers %x: f32[64, 64] in, %y: f32[64, 64] out\n"
      "  %0 = load %x[row*64 + col] : f32[row, col]\n  %1 = exp(%0) : f32[row, col]\n"
      "  store %1 -> %y[row*64 + col]\n}\n";
  EXPECT_EQ(run_stage("schedule", {{"pins", "lanes = 8, grid.row = 4"}}, tiles),
            run_stage("schedule", {{"pins", "lanes=8,grid.row=4"}}, tiles));
}

}  // namespace
}  // namespace tilefuse
