// Which profile a processor gets: one whose rates were measured on its kind, else estimates for its
// instructions.
#include "fusion/processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/result.h"
#include "fusion/target.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kAvx2 = {"avx2", "fma", "f16c", "bmi2"};
const std::vector<std::string> kAvx512 = {"avx2",    "fma",      "f16c",     "bmi2",
                                          "avx512f", "avx512bw", "avx512dq", "avx512vl"};

TEST(Processor, measured_rates_are_for_the_processors_they_were_measured_on) {
  const std::vector<std::string> zen4 = load_target("x86-zen4").instructions;
  EXPECT_EQ(target_name_for({"AuthenticAMD", 25, zen4}), "x86-zen4");
  EXPECT_EQ(target_name_for({"AuthenticAMD", 26, zen4}), "x86-zen5");
  EXPECT_EQ(target_name_for({"AuthenticAMD", 27, zen4}), "x86-avx512");
  EXPECT_EQ(target_name_for({"GenuineIntel", 25, zen4}), "x86-avx512");
  EXPECT_EQ(target_name_for({"AuthenticAMD", 25, kAvx2}), "x86-zen3");  // of the same family
  EXPECT_EQ(target_name_for({"AuthenticAMD", 23, kAvx2}), "x86-avx2");
  std::vector<std::string> sapphire_rapids = load_target("x86-granite-rapids").instructions;
  EXPECT_EQ(target_name_for({"GenuineIntel", 6, sapphire_rapids}), "x86-ice-lake");  // no fp16
  sapphire_rapids.emplace_back("avx512fp16");
  EXPECT_EQ(target_name_for({"GenuineIntel", 6, sapphire_rapids}), "x86-granite-rapids");
  EXPECT_EQ(target_name_for({"GenuineIntel", 6, load_target("x86-ice-lake").instructions}), "x86-ice-lake");
}

TEST(Processor, any_other_gets_estimates_for_its_instructions) {
  EXPECT_EQ(target_name_for({"GenuineIntel", 6, kAvx512}), "x86-avx512");
  EXPECT_EQ(target_name_for({"GenuineIntel", 6, kAvx2}), "x86-avx2");
  EXPECT_EQ(target_name_for({"", 0, {}}), "portable-cpu");
}

TEST(Processor, this_one_has_a_name_and_gets_what_the_solver_takes) {
#if defined(__x86_64__)
  EXPECT_EQ(host_processor().vendor.size(), 12U);
  EXPECT_GT(host_processor().family, 0);
#endif
  EXPECT_EQ(target_name_for(host_processor()), host_target_name());
}

TEST(Processor, a_profile_that_says_wrong_where_it_was_measured_is_refused) {
  const auto complaint = [](const std::string& measured_on) {
    std::string json = R"({"name": "a", "kind": "cpu", "instructions": [], "measured_on": )" + measured_on;
    for (const auto& [name, value] : {std::pair("vector_bytes", 64),
                                      {"datapath_bytes", 64},
                                      {"vector_registers", 32},
                                      {"cores", 2},
                                      {"clock_ghz", 3},
                                      {"l1_bytes", 1 << 15},
                                      {"l2_bytes", 1 << 20},
                                      {"l3_bytes", 1 << 24}}) {
      json += ", \"" + std::string(name) + "\": {\"value\": " + std::to_string(value) +
              R"(, "unit": "u", "source": "s"})";
    }
    try {
      parse_target(json + R"(, "rates": {}})", "mine.json");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no complaint");
  };
  EXPECT_EQ(complaint(R"({"vendor": "GenuineIntel", "family": 6})"), "no complaint");
  EXPECT_EQ(complaint("6"), "mine.json: measured_on must be an object with vendor and family");
  EXPECT_EQ(complaint(R"({"family": 6})"), "mine.json: measured_on lacks a vendor");
  EXPECT_EQ(complaint(R"({"vendor": "GenuineIntel"})"), "mine.json: measured_on lacks a family, an integer");
  EXPECT_THAT(complaint(R"({"vendor": "GenuineIntel", "family": 6, "has": ["avx512fp61"]})"),
              HasSubstr("measured_on.has[0] is no instruction set that is known: avx512fp61"));
}

}  // namespace
}  // namespace tilefuse
