// Times schedules on this machine: only what holds on any machine is asserted.
#include "codegen/time_schedules.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "codegen/timing_inputs.h"
#include "codegen/tune.h"
#include "core/options.h"

namespace tilefuse {
namespace {

TEST(TimeSchedules, times_every_candidate_of_a_softmax) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph softmax_0 {
  axes row: s0, col: 256
  buffers %x: bf16[s0, 256] in, %y: f32[s0, 256] out
  %0 = load %x[row*256 + col] : bf16[row, col]
  %m = reduce.max(%0) over col : f32[row]
  %1 = sub(%0, %m) : f32[row, col]
  %e = exp(%1) : f32[row, col]
  %s = reduce.sum(%e) over col : f32[row]
  %2 = div(%e, %s) : f32[row, col]
  store %2 -> %y[row*256 + col]
}
)");
  const std::string directory = testing::TempDir() + "tilefuse_time_schedules";
  KernelCache cache(directory, int64_t{1} << 28);
  const auto toolchain = find_toolchain({"", read_environment().search_path, ""}, cache);
  if (!toolchain) GTEST_SKIP() << toolchain.unsupported().reason;
  const Result<Solution> solution = solve(graph, load_target(host_target_name()), {}, {.candidates = 3});
  ASSERT_TRUE(solution);
  const TimingOptions options{.threads = 2, .rounds = 3, .most_ms = 20};
  const auto few = time_schedules(graph, solution->ranked, *toolchain, cache, options, {{"s0", 16}});
  const auto many = time_schedules(graph, solution->ranked, *toolchain, cache, options, {{"s0", 65536}});
  ASSERT_EQ(few.size(), solution->ranked.size());
  for (size_t i = 0; i < few.size(); ++i) {
    ASSERT_TRUE(few[i]) << few[i].unsupported().reason;
    ASSERT_TRUE(many[i]);
    EXPECT_GT(*few[i], 0);
    EXPECT_GT(*many[i], 10 * *few[i]);
  }
  std::filesystem::remove_all(directory);
}

// An embedding's positions lie scattered in its table; what they are computed of otherwise stays 0, and so do
// integers that are no positions.
TEST(TimingInputs, positions_are_within_what_they_are_positions_of) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph rows_0 {
  axes i: 64, j: 32, k: 7
  buffers %t: f32[50, 32] in, %at: i64[64] in, %shift: i64[64] in, %n: i64[64] in, %o: i64[64] in,
          %y: f32[64, 32] out, %z: f32[7, 32] out
  %at  = load %at[i]                                   : i64[i]
  %c0  = constant 0                                    : i64[]
  %n   = load %n[i]                                    : i64[i]
  %lt  = lt(%n, %c0)                                   : bool[i]
  %w   = where(%lt, %c0, %at)                          : i64[i]
  %t   = load %t[j] + wrap(%w, extent 50, stride 32)   : f32[i, j]
  %s   = load %shift[i]                                : i64[i]
  %s1  = add(%s, %n)                                   : i64[i]
  %t1  = load %t[j] + wrap(%s1, extent 50, stride 32)  : f32[i, j]
  %y   = add(%t, %t1)                                  : f32[i, j]
  %o   = load %o[i]                                    : i64[i]
  %e   = constant 0                                    : f32[]
  store %y -> %y[i*32 + j]
  store %e -> %z[k*32 + j]
  scatter.add %y -> %z[j] + wrap(%o, extent 7, stride 32) over i, j
}
)");
  EXPECT_EQ(extents_of_positions(graph, {}), (std::vector<int64_t>{1, 50, 1, 1, 7, 1, 1}));
  std::vector<int64_t> positions(1000);
  fill_input(positions.data(), 1000, DType::I64, 7);
  EXPECT_EQ(std::set<int64_t>(positions.begin(), positions.end()), (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

// On a machine that takes twice as long each time that something is timed.
TEST(TriedByProspects, compares_with_the_choice_in_the_same_minutes) {
  std::vector<Schedule> ranked(12);
  for (size_t i = 0; i < ranked.size(); ++i) {
    ranked[i].rows = int(i) + 1;
    ranked[i].cost_us = 10 + double(i);
  }
  double slower = 1;
  std::vector<std::optional<double>> measured_us;
  const auto time = [&](const std::vector<size_t>& places) {
    std::vector<std::optional<double>> us;
    for (const size_t place : places) {
      us.push_back(place == 5 ? std::nullopt : std::optional(slower * ranked[place].cost_us));
    }
    slower *= 2;
    return us;
  };
  const std::vector<size_t> tried = tried_by_prospects(ranked, 9, time, measured_us);
  ASSERT_EQ(tried.size(), 9U);
  EXPECT_EQ(tried[0], 0U);
  EXPECT_EQ(std::set<size_t>(tried.begin(), tried.end()).size(), 9U);
  ASSERT_EQ(measured_us.size(), 9U);
  for (size_t i = 0; i < tried.size(); ++i) {
    EXPECT_EQ(measured_us[i].has_value(), tried[i] != 5);
    EXPECT_NEAR(measured_us[i].value_or(15), ranked[tried[i]].cost_us, 1e-9);
  }
}

TEST(FastestOf, takes_the_fastest_that_built_and_the_first_where_none_is_clearly_faster) {
  EXPECT_EQ(fastest_of({9.0, 5.0, 7.0}), 1U);
  EXPECT_EQ(fastest_of({5.0, 4.9}), 0U);
  EXPECT_EQ(fastest_of({5.0, std::nullopt, 4.0}), 2U);
  EXPECT_EQ(fastest_of({std::nullopt, 8.0, 6.0}), 2U);
  EXPECT_EQ(fastest_of({std::nullopt, std::nullopt}), 0U);
}

}  // namespace
}  // namespace tilefuse
