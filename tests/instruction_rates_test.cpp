// Rates of single instructions: which there are. How fast they are is the processor's affair.
#include "codegen/instruction_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilefuse {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

std::vector<std::string> names(const std::map<std::string, double>& rates) {
  std::vector<std::string> found;
  for (const auto& [name, rate] : rates) {
    EXPECT_GT(rate, 0) << name;
    found.push_back(name);
  }
  return found;
}

bool has(const Processor& processor, const std::string& set) {
  return testing::Value(processor.instructions, Contains(set));
}

TEST(InstructionRates, AreOfWhatTheProcessorHas) {
  const Processor here = host_processor();
  if (!has(here, "avx2")) GTEST_SKIP() << "a processor without AVX2";
  Processor older = here;
  older.instructions = {"avx2", "fma"};
  EXPECT_THAT(names(instruction_rates(older, 32)), UnorderedElementsAre("fma", "permute", "store"));
  EXPECT_THAT(names(instruction_rates(older, 64)), IsEmpty());
  if (!has(here, "avx512bf16") || !has(here, "avx512vnni")) return;
  std::vector<std::string> vectors = {"fma", "permute", "store", "narrow_bf16", "dot_bf16", "dot_i8"};
  EXPECT_THAT(names(instruction_rates(here, 32)), UnorderedElementsAreArray(vectors));
  if (has(here, "amxbf16")) vectors.emplace_back("tile_bf16");
  if (has(here, "amxint8")) vectors.emplace_back("tile_i8");
  EXPECT_THAT(names(instruction_rates(here, 64)), UnorderedElementsAreArray(vectors));
}

TEST(InstructionRates, OfOtherVectorsThereAreNone) {
  EXPECT_THAT(names(instruction_rates(host_processor(), 16)), IsEmpty());
}

}  // namespace
}  // namespace tilefuse
