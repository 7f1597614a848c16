// Profiles of machines: what is refused, and in which words; what their tables say.
#include "fusion/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/result.h"
#include "fusion/instruction_sets.h"
#include "fusion/rate_tables.h"

namespace tilefuse {
namespace {

TEST(Target, this_machine_has_what_its_target_needs_and_nothing_that_nobody_knows) {
  EXPECT_THAT(missing_instructions(load_target(host_target_name()).instructions), testing::IsEmpty());
  EXPECT_THAT(missing_instructions({"avx4096"}), testing::ElementsAre("avx4096"));
  EXPECT_THAT(compiler_flags({"fma", "avx512bf16"}), testing::ElementsAre("-mfma", "-mavx512bf16"));
}

TEST(Target, richer_ones_have_wider_vectors_or_more_instructions) {
  std::vector<Target> targets;
  for (const std::string& name : target_names()) targets.push_back(load_target(name));
  EXPECT_TRUE(std::is_sorted(targets.begin(), targets.end(), is_richer));  // as the profiles are listed
}

std::string complaint(const std::string& json) {
  try {
    parse_target(json, "mine.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Target, complaints_name_the_file_and_the_field) {
  EXPECT_EQ(complaint("{"), "mine.json: not JSON");
  EXPECT_EQ(complaint("{}"), "mine.json: name is missing");
  EXPECT_EQ(complaint(R"({"name": "a", "kind": "gpu"})"), "mine.json: kind must be \"cpu\", got \"gpu\"");
  EXPECT_EQ(complaint(R"({"name": "a", "kind": "cpu", "vector_bytes": 64})"),
            "mine.json: vector_bytes must be an object with value, unit and source");
  EXPECT_EQ(
      complaint(
          R"({"name": "a", "kind": "cpu", "vector_bytes": {"value": 48, "unit": "bytes", "source": "s"}})"),
      "mine.json: vector_bytes must be a power of two, got 48");
  EXPECT_EQ(complaint(R"({"name": "a", "kind": "cpu", "vector_bytes": {"value": 64, "unit": "bytes"}})"),
            "mine.json: vector_bytes lacks a source");
  std::stringstream avx2;
  avx2 << std::ifstream(TILEFUSE_SOURCE_DIR "/configs/targets/x86-avx2.json").rdbuf();
  std::string misspelt = avx2.str();
  misspelt.insert(misspelt.find("fma\"") + 3, "a");
  EXPECT_EQ(complaint(misspelt),
            "mine.json: instructions[1] is no instruction set that is known: fmaa; did you mean fma?");
  try {
    load_target("x86-zen44");
    FAIL() << "there is no such target";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                testing::StartsWith("target x86-zen44: neither a file nor one of x86-granite-rapids, "));
    EXPECT_THAT(error.what(), testing::EndsWith("; did you mean x86-zen4?"));
  }
  EXPECT_THROW(Target{}.rate("clk_per_vector.exp"), UserError);
}

TEST(DramTables, interpolate_between_what_was_measured) {
  const Target target = load_target("x86-zen4");
  const DramTables tables(target, 1);
  using Walked = DramTables::Walked;
  EXPECT_DOUBLE_EQ(tables.interleaved_ns(Walked::Read, 2, 2048), target.rate("interleaved.read.2.2048.1"));
  EXPECT_DOUBLE_EQ(tables.interleaved_ns(Walked::Read, 1, 64), target.rate("interleaved.read.1.256.1"));
  EXPECT_DOUBLE_EQ(tables.interleaved_ns(Walked::Copy, 64, 1 << 20),
                   target.rate("interleaved.copy.8.65536.1"));
  const double middle = tables.interleaved_ns(Walked::Read, 2, 1024);
  EXPECT_NEAR(middle,
              (target.rate("interleaved.read.2.512.1") + target.rate("interleaved.read.2.2048.1")) / 2, 1e-9);
}

TEST(DramTables, know_where_rows_side_by_side_defeat_the_prefetcher) {
  EXPECT_TRUE(rows_defeat_prefetch(load_target("x86-zen4")));
  EXPECT_FALSE(rows_defeat_prefetch(load_target("x86-granite-rapids")));
  EXPECT_TRUE(rows_defeat_prefetch(load_target("x86-avx2"))) << "nothing was measured";
}

}  // namespace
}  // namespace tilefuse
