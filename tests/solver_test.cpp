// Laws of the solver: what it returns is legal, the same every time, and what brute force would have found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/result.h"
#include "fusion/check_schedule.h"
#include "fusion/cost_model.h"
#include "fusion/explain_conflict.h"
#include "fusion/schedule_system.h"
#include "fusion/search.h"
#include "tests/random_tile_graph.h"
#include "tests/sampled.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Solution solved(const TileGraph& graph, const Target& target, const Pins& pins = {},
                const SolveOptions& options = {}) {
  Result<Solution> solution = solve(graph, target, pins, options);
  if (!solution) throw InternalError(solution.unsupported().reason + "\n" + to_text(graph));
  return *std::move(solution);
}

TEST(Solver, returns_only_legal_schedules_that_print_and_parse) {
  const Target zen4 = load_target("x86-zen4");
  std::map<std::string, int> drawn;
  const int seeds = sampled_quickly(300, 2400);
  for (uint64_t seed = 0; seed < uint64_t(seeds); ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    const Target target = random_target(random, zen4);
    const SolveOptions options{.threads = int(random.between(1, 32)), .candidates = seed % 4 == 0 ? 6 : 1};
    const Solution solution = solved(graph, target, {}, options);
    for (const Schedule& schedule : solution.ranked) {
      const std::string text = to_text(schedule, graph);
      ASSERT_THAT(check_schedule(graph, schedule, &target), IsEmpty()) << seed << "\n"
                                                                       << to_text(graph) << text;
      ASSERT_EQ(to_text(parse_schedule(text, graph), graph), text);
      drawn["lanes"] += schedule.lanes > 1;
      drawn["unroll"] += schedule.unroll > 1;
      drawn["rows"] += schedule.rows > 1;
      drawn["split"] += schedule.split > 1;
      drawn["accumulate"] += schedule.accumulate_in_scratch;
      drawn["keep"] += !schedule.keep.empty();
      drawn["resident"] += schedule.walk == Walk::Resident;
      drawn["staged"] += !schedule.staged.empty();
      drawn["streamed"] += !schedule.streamed.empty();
      drawn["shared"] += schedule.alone_us > 0;
      if (schedule.alone_us > 0) {
        ASSERT_LT(schedule.cost_us, schedule.alone_us) << seed;
      }
    }
  }
  for (const auto& [decision, times] : drawn) EXPECT_GT(times, sampled_quickly(0, 20)) << decision;
}

// Sums along short rows of what a filter with so many taps gives.
TileGraph filtered_rows(int taps) {
  std::string text =
      "tile_graph filtered {\n  axes i: 96, r: 14, s: 14\n  buffers %x: f32[96, 14, 64] in, "
      "%y: f32[96] out\n  %sum_0 = load %x[i*896 + r*64 + s] : f32[i, r, s]\n";
  for (int tap = 1; tap < taps; ++tap) {
    const std::string now = std::to_string(tap), before = std::to_string(tap - 1);
    text += "  %x_" + now + " = load %x[i*896 + r*64 + s + " + now + "] : f32[i, r, s]\n";
    text += "  %sum_" + now + " = add(%sum_" + before + ", %x_" + now + ") : f32[i, r, s]\n";
  }
  text +=
      "  %t = reduce.sum(%sum_" + std::to_string(taps - 1) + ") over r, s : f32[i]\n  store %t -> %y[i]\n}\n";
  return parse_tile_graph(text);
}

// A long body has enough to compute while lanes come together; its copies side by side are code that
// compilers take seconds for.
TEST(Solver, puts_rows_side_by_side_where_the_body_is_short) {
  const Target target = load_target("x86-zen4");
  EXPECT_GT(solved(filtered_rows(3), target).ranked.front().rows, 1);
  EXPECT_EQ(solved(filtered_rows(40), target).ranked.front().rows, 1);
}

// Sums along rows of what a filter with so many taps gives, less what a function makes of a row that eight
// of them share.
TileGraph filtered_rows_less(const std::string& function, int taps) {
  std::string text =
      "tile_graph filtered {\n  axes i: 64, k: 8, r: 128\n  buffers %x: f32[64, 8, 256] in, "
      "%a: f32[64, 128] in, %y: f32[64, 8] out\n  %a = load %a[i*128 + r] : f32[i, r]\n"
      "  %f = " +
      function + "(%a) : f32[i, r]\n  %sum_0 = load %x[i*2048 + k*256 + r] : f32[i, k, r]\n";
  for (int tap = 1; tap < taps; ++tap) {
    const std::string now = std::to_string(tap), before = std::to_string(tap - 1);
    text += "  %x_" + now + " = load %x[i*2048 + k*256 + r + " + now + "] : f32[i, k, r]\n";
    text += "  %sum_" + now + " = add(%sum_" + before + ", %x_" + now + ") : f32[i, k, r]\n";
  }
  text += "  %p = sub(%sum_" + std::to_string(taps - 1) + ", %f) : f32[i, k, r]\n";
  text += "  %t = reduce.sum(%p) over r : f32[i, k]\n  store %t -> %y[i*8 + k]\n}\n";
  return parse_tile_graph(text);
}

// A body may be long where its copies have something dear in common.
TEST(Solver, puts_rows_side_by_side_that_share_a_cosine) {
  for (const char* name : {"x86-zen4", "x86-granite-rapids"}) {
    const Target target = load_target(name);
    EXPECT_GT(solved(filtered_rows_less("cos", 35), target).ranked.front().rows, 1);
    EXPECT_EQ(solved(filtered_rows_less("neg", 35), target).ranked.front().rows, 1);
  }
}

// A function of places and frequencies, stored for each of twelve heads.
TileGraph table_for_heads(const std::string& function) {
  return parse_tile_graph(R"(tile_graph table_0 {
  axes h: 12, p: 64, k: 32
  buffers %f: f32[32] in, %t: f32[12, 64, 32] out
  %i = index p         : i64[p]
  %p = cast(%i)        : f32[p]
  %f = load %f[k]      : f32[k]
  %a = mul(%p, %f)     : f32[p, k]
  %t = )" + function + R"((%a) : f32[p, k]
  store %t -> %t[h*2048 + p*32 + k]
})");
}

// Rows along heads are of one cosine; along the innermost axis beside the lanes, of one each.
TEST(Solver, puts_rows_along_the_axis_of_which_they_share_a_cosine) {
  for (const char* name : {"x86-zen4", "x86-granite-rapids", "x86-avx2"}) {
    const Target target = load_target(name);
    const TileGraph table = table_for_heads("cos");
    const Schedule schedule = solved(table, target).ranked.front();
    EXPECT_GT(schedule.rows, 1) << to_text(schedule, table);
    EXPECT_EQ(row_axis(schedule), AxisId{0}) << to_text(schedule, table);
    const TileGraph cheap = table_for_heads("neg");
    const ConstraintSystem system =
        collect_constraints(cheap, target, *collect_schedule_facts(cheap, {}), {}).constraints;
    EXPECT_FALSE(system.find("rows_along"));
  }
}

bool asks_where_rows_go(const TileGraph& graph) {
  const Target target = load_target("x86-zen4");
  const Result<RegionFacts> facts = collect_schedule_facts(graph, {});
  return facts && collect_constraints(graph, target, *facts, {}).constraints.find("rows_along").has_value();
}

// Each part of a concatenation wants something else; what is copied is stored for each anyway.
TEST(Solver, puts_no_rows_along_an_axis_of_parts_or_copies) {
  const auto graph = [](const std::string& heads, const std::string& of_head) {
    return parse_tile_graph("tile_graph parts_0 {\n  axes h: " + heads +
                            ", p: 64, k: 32\n  buffers %x: f32[64, 32] in, " + "%z: f32[" + heads +
                            ", 64, 32] in, %y: f32[" + heads + ", 64, 32] out\n" +
                            "  %x = load %x[p*32 + k] : f32[p, k]\n  %c = cos(%x) : f32[p, k]\n" + of_head +
                            "  store %r -> %y[h*2048 + p*32 + k]\n}\n");
  };
  const std::string product =
      "  %z = load %z[h*2048 + p*32 + k] : f32[h, p, k]\n  %r = mul(%z, %c) : f32[h, p, k]\n";
  EXPECT_TRUE(asks_where_rows_go(graph("3", product)));
  EXPECT_FALSE(asks_where_rows_go(graph("1", product)));
  const std::string part =
      "  %z = load %z[h*2048 + p*32 + k] : f32[h, p, k]\n  %i = inside [1 - h] : bool[h]\n"
      "  %r = where(%i, %z, %c) : f32[h, p, k]\n";
  EXPECT_FALSE(asks_where_rows_go(graph("3", part)));
  const std::string copy = "  %r = neg(%c) : f32[p, k]\n";
  EXPECT_TRUE(asks_where_rows_go(graph("12", copy)));
  EXPECT_FALSE(asks_where_rows_go(graph("8", copy)));
}

TEST(Solver, returns_only_legal_schedules_with_rows_along_another_axis) {
  const Target target = load_target("x86-avx2");
  int drawn = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    const Result<Structure> structure = analyze_structure(graph);
    if (!structure || !structure->reductions.empty() || structure->parallel.size() < 3) continue;
    const AxisId along = structure->parallel.front();
    const Result<Solution> solution = solve(graph, target, {{{"rows_along", graph[along].name}}});
    if (!solution) continue;  // nothing that these rows would share
    for (const Schedule& schedule : solution->ranked) {
      const std::string text = to_text(schedule, graph);
      ASSERT_THAT(check_schedule(graph, schedule, &target), IsEmpty()) << seed << "\n"
                                                                       << to_text(graph) << text;
      ASSERT_EQ(to_text(parse_schedule(text, graph), graph), text);
      ASSERT_EQ(row_axis(schedule), along) << text;
      ASSERT_GT(schedule.rows, 1) << text;
    }
    ++drawn;
  }
  EXPECT_GT(drawn, 20);
}

TEST(Solver, takes_rows_along_the_axis_of_a_pin) {
  const Target target = load_target("x86-zen4");
  const TileGraph graph = table_for_heads("neg");
  const Schedule schedule = solved(graph, target, {{{"rows_along", "h"}}}).ranked.front();
  EXPECT_GT(schedule.rows, 1);
  EXPECT_EQ(row_axis(schedule), AxisId{0});
  const Result<Solution> lanes = solve(graph, target, {{{"rows_along", "h"}, {"lane_axis", "h"}}});
  ASSERT_FALSE(lanes);
  EXPECT_THAT(lanes.unsupported().reason, HasSubstr("pinned: rows_along = h"));
}

TileGraph row_sums(int64_t rows) {
  const std::string count = std::to_string(rows);
  return parse_tile_graph("tile_graph sums {\n  axes i: " + count + ", r: 256\n  buffers %x: f32[" + count +
                          ", 256] in, %y: f32[" + count + "] out\n  %0 = load %x[i*256 + r] : f32[i, r]\n" +
                          "  %s = reduce.sum(%0) over r : f32[i]\n  store %s -> %y[i]\n}\n");
}

// Rows that hide each other's latency keep a prefetcher from running ahead, where that is what counts: L3 is
// as far as memory for one of these processors, and three times as near for the other.
TEST(Solver, reads_one_row_after_the_other_from_afar) {
  const auto rows_on = [](const char* name, int64_t rows) {
    return solved(row_sums(rows), load_target(name)).ranked.front().rows;
  };
  EXPECT_GT(rows_on("x86-granite-rapids", 1024), 1);  // 1 MB
  EXPECT_EQ(rows_on("x86-granite-rapids", 4096), 1);
  EXPECT_GT(rows_on("x86-zen4", 4096), 1);
}

// Sums along rows, weighted by taps so far apart.
TileGraph weighted_rows(int taps, int apart) {
  const std::string stride = std::to_string(apart);
  std::string text = "tile_graph weighted {\n  axes i: 512, r: 64\n  buffers %x: f32[512, 128] in, %w: f32[" +
                     std::to_string(64 * apart + taps * 64) + "] in, %y: f32[512] out\n";
  for (int tap = 0; tap < taps; ++tap) {
    const std::string now = std::to_string(tap), before = std::to_string(tap - 1);
    const std::string weight = std::to_string(apart == 1 ? tap * 64 : tap);
    text += "  %x_" + now + " = load %x[i*128 + r + " + now + "] : f32[i, r]\n  %w_" + now + " = load %w[r*" +
            stride + " + " + weight + "] : f32[r]\n  %p_" + now + " = mul(%x_" + now + ", %w_" + now +
            ") : f32[i, r]\n";
    text += tap == 0 ? "  %s_0 = copy(%p_0) : f32[i, r]\n"
                     : "  %s_" + now + " = add(%s_" + before + ", %p_" + now + ") : f32[i, r]\n";
  }
  const std::string last = std::to_string(taps - 1);
  text += "  %e = exp(%s_" + last +
          ") : f32[i, r]\n  %t = reduce.sum(%e) over r : f32[i]\n  store %t -> %y[i]\n}\n";
  return parse_tile_graph(text);
}

// Weights that lie apart are loaded element by element, once for all rows of a body, however long it is.
TEST(Solver, puts_rows_side_by_side_that_share_weights_which_lie_apart) {
  const Target target = load_target("x86-zen4");
  EXPECT_GT(solved(weighted_rows(24, 24), target).ranked.front().rows, 2);
  EXPECT_LE(solved(weighted_rows(24, 1), target).ranked.front().rows, 2);
}

// Scratch holds rows of accumulators; eight are less than a register does.
TEST(Solver, keeps_short_accumulators_in_registers) {
  const TileGraph graph = parse_tile_graph(
      "tile_graph sums {\n  axes i: 3, j: 8, r: 3137, k: 8\n  buffers %x: f32[8, 3137, 8] in, %z: f32[8, "
      "3137, 8] in, "
      "%y: f32[3, 8, 8] out, %s: f32[3, 8, 3137, 8] out\n  %x = load %x[j*25096 + r*8 + k] : f32[j, r, k]\n"
      "  %z = load %z[j*25096 + r*8 + k] : f32[j, r, k]\n  %p = inside [-i] : bool[i]\n"
      "  %v = where(%p, %x, %z) : f32[i, j, r, k]\n  %t = reduce.sum(%v) over r : f32[i, j, k]\n"
      "  store %v -> %s[i*200768 + j*25096 + r*8 + k]\n  store %t -> %y[i*64 + j*8 + k]\n}\n");
  EXPECT_FALSE(solved(graph, load_target("x86-zen4")).ranked.front().accumulate_in_scratch);
}

// A vector of a short axis is all there is along it: its sums wait for one another, unless rows go side by
// side. Those of a long axis are unrolled.
TEST(Solver, hides_the_latency_of_a_short_axis_by_rows) {
  const auto choice_for = [](const std::string& windows, const std::string& places) {
    const TileGraph graph = parse_tile_graph(
        "tile_graph windows {\n  axes r: 64, k: " + windows + ", m: " + places + "\n  buffers %x: f32[64, " +
        windows + ", " + places + "] in, %y: f32[" + windows + ", " + places +
        "] out\n  %0 = load %x[r*1024 + k*" + places +
        " + m] : f32[r, k, m]\n  %1 = square(%0) : f32[r, k, m]\n  %s = reduce.sum(%1) over r : f32[k, m]" +
        "\n  store %s -> %y[k*" + places + " + m]\n}\n");
    return solved(graph, load_target("x86-zen4")).ranked.front();
  };
  EXPECT_GT(choice_for("128", "8").rows, 1);
  EXPECT_EQ(choice_for("8", "128").rows, 1);
}

// Every subset of twelve exponentials might be kept: more than a search can look at.
TEST(Solver, keeps_values_as_dear_as_each_other_alike) {
  std::string buffers, values;
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    buffers += ", %y" + n + ": f32[64, 256] out";
    values += "  %c" + n + " = constant " + std::to_string(i + 2) + " : f32[]\n  %scaled" + n +
              " = mul(%x, %c" + n + ") : f32[i, r]\n  %exp" + n + " = exp(%scaled" + n +
              ") : f32[i, r]\n  %sum" + n + " = reduce.sum(%exp" + n + ") over r : f32[i]\n  %div" + n +
              " = div(%exp" + n + ", %sum" + n + ") : f32[i, r]\n  store %div" + n + " -> %y" + n +
              "[i*256 + r]\n";
  }
  const TileGraph graph =
      parse_tile_graph("tile_graph many {\n  axes i: 64, r: 256\n  buffers %x: f32[64, 256] in" + buffers +
                       "\n  %x = load %x[i*256 + r] : f32[i, r]\n" + values + "}\n");
  const Solution solution = solved(graph, load_target("x86-granite-rapids"));
  EXPECT_EQ(solution.ranked.front().keep.size(), 12);
  EXPECT_TRUE(solution.complete);
}

// Half of a vector that is added up in halves anyway costs as much as a whole one, and its lanes come
// together sooner (Zen 4); others take twice as long by halves.
TEST(Solver, lists_half_of_the_lanes_sooner_where_it_costs_less) {
  const auto others_before_half = [](const char* name, int lanes_of_choice) {
    const Solution solution = solved(filtered_rows_less("neg", 3), load_target(name), {}, {.candidates = 8});
    EXPECT_EQ(solution.ranked[0].lanes, lanes_of_choice);
    const auto half = std::ranges::find_if(solution.ranked, [](const Schedule& s) { return s.lanes == 8; });
    return half - solution.ranked.begin();
  };
  EXPECT_LT(others_before_half("x86-zen4", 8), others_before_half("x86-granite-rapids", 16));
}

// One row after the other reads one stream after the other, and fewer rows are the nearest to that.
TEST(Solver, lists_fewer_rows_in_the_first_three) {
  const Target target = load_target("x86-granite-rapids");
  const Solution solution = solved(row_sums(1024), target, {}, {.candidates = 3});
  const Schedule& choice = solution.ranked[0];
  const auto has_fewer_rows = [&](const Schedule& other) {
    return other.rows < choice.rows && other.lanes == choice.lanes;
  };
  EXPECT_TRUE(std::ranges::any_of(solution.ranked, has_fewer_rows));
}

// Who asks for more gets the same choice first, then what decides something otherwise.
TEST(Solver, lists_other_decisions_behind_the_choice) {
  const Target target = load_target("x86-zen4");
  std::map<std::string, int> differs;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    std::vector<std::string> listed;
    const Schedule choice = solve(graph, target)->ranked.front();
    for (const Schedule& schedule : solved(graph, target, {}, {.candidates = 8}).ranked) {
      listed.push_back(to_text(schedule, graph));
      differs["lanes"] += schedule.lanes != choice.lanes;
      differs["unroll"] += schedule.unroll != choice.unroll;
      differs["rows"] += schedule.rows != choice.rows;
      differs["keep"] += schedule.keep != choice.keep;
    }
    ASSERT_EQ(listed.front(), to_text(choice, graph)) << seed;
    ASSERT_EQ(std::set<std::string>(listed.begin(), listed.end()).size(), listed.size()) << seed;
    const Solution fewer = *solve(graph, target, {}, {.candidates = 3});
    for (size_t i = 0; i < fewer.ranked.size(); ++i) {
      ASSERT_EQ(to_text(fewer.ranked[i], graph), listed[i]) << seed;
    }
  }
  for (const auto& [decision, times] : differs) EXPECT_GT(times, 10) << decision;
}

TileGraph negated(int64_t rows) {
  const std::string shape = "f32[" + std::to_string(rows) + ", 1024]";
  return parse_tile_graph("tile_graph negated {\n  axes i: " + std::to_string(rows) +
                          ", j: 1024\n  buffers %x: " + shape + " in, %y: " + shape +
                          " out\n  %0 = load %x[i*1024 + j] : f32[i, j]\n  %1 = neg(%0) : f32[i, j]\n"
                          "  store %1 -> %y[i*1024 + j]\n}\n");
}

// Past the caches a store may be faster, and whoever reads it next waits for memory: nobody who times this
// region alone would see it.
TEST(Solver, lists_no_schedule_that_stores_past_a_cache_what_it_would_hold) {
  const auto streams = [](const Schedule& schedule) { return !schedule.streamed.empty(); };
  const Target target = load_target("x86-zen4");
  const std::vector<Schedule> in_cache = solved(negated(128), target, {}, {.candidates = 64}).ranked;
  EXPECT_GT(in_cache.size(), 8U);
  EXPECT_TRUE(std::none_of(in_cache.begin(), in_cache.end(), streams));
  EXPECT_TRUE(streams(solved(negated(65536), target).ranked.front()));
}

// Where the profile says so, and only of what lies beyond L1: in it a request is one more thing to do.
TEST(Solver, asks_ahead_for_the_lines_of_outputs_beyond_l1) {
  const Target target = load_target("x86-granite-rapids");
  const TileGraph large = negated(128), small = negated(4);
  EXPECT_THAT(to_text(solved(large, target).ranked.front(), large), HasSubstr("  stores   ahead\n"));
  EXPECT_THAT(to_text(solved(small, target).ranked.front(), small), HasSubstr("  stores   cached\n"));
  const TileGraph memory = negated(65536);
  EXPECT_THAT(to_text(solved(memory, target).ranked.front(), memory), HasSubstr("  stores   %y: streamed\n"));
  const Target silent = load_target("x86-zen4");
  EXPECT_TRUE(solved(large, silent).ranked.front().ahead.empty());
}

// Behind rows that an iteration or two walk come the next ones, which are written at once.
TEST(Solver, asks_for_no_line_ahead_where_rows_are_short) {
  const Target target = load_target("x86-granite-rapids");
  const auto rows_of = [](const std::string& elements) {
    const std::string shape = "f32[1024, " + elements + "]", place = "[i*" + elements + " + j]";
    return parse_tile_graph("tile_graph short {\n  axes i: 1024, j: " + elements + "\n  buffers %x: " +
                            shape + " in, %y: " + shape + " out\n  %0 = load %x" + place +
                            " : f32[i, j]\n  %1 = neg(%0) : f32[i, j]\n  store %1 -> %y" + place + "\n}\n");
  };
  const TileGraph images = rows_of("49"), larger = rows_of("196");
  EXPECT_TRUE(solved(images, target).ranked.front().ahead.empty());
  EXPECT_EQ(solved(larger, target).ranked.front().ahead.size(), 1U);
  EXPECT_EQ(solved(images, target, {{{"store.y", "ahead"}}}).ranked.front().ahead.size(), 1U);
}

TEST(Solver, takes_pins_of_how_an_output_is_stored) {
  const Target target = load_target("x86-granite-rapids");
  const auto with = [&](const TileGraph& graph, const char* path) {
    return solved(graph, target, {{{"store.y", path}}}).ranked.front();
  };
  const TileGraph large = negated(128), small = negated(4);
  EXPECT_TRUE(with(large, "cached").ahead.empty());
  EXPECT_EQ(with(small, "ahead").ahead.size(), 1U);
  EXPECT_EQ(with(large, "streamed").streamed.size(), 1U);
}

// Blocks of lanes x lanes are turned, of which two rows would be wanted: 87 us for 22 (Emerald Rapids).
TEST(Solver, turns_no_load_along_an_axis_of_two) {
  const TileGraph patches = parse_tile_graph(R"(tile_graph patches {
  axes k: 2, i: 512, r: 80
  buffers %x: f32[80, 1024] in, %y: f32[2, 512, 80] out
  %0 = load %x[k + i*2 + r*1024] : f32[k, i, r]
  %s = reduce.sum(%0) over r     : f32[k, i]
  %1 = sub(%0, %s)               : f32[k, i, r]
  store %1 -> %y[k*40960 + i*80 + r]
}
)");
  EXPECT_TRUE(solved(patches, load_target("x86-granite-rapids")).ranked.front().staged.empty());
}

// Where a guard differs from lane to lane, lanes that lie apart are gathered, in half a vector as slowly as
// in a whole one: 64 us for 43 (Emerald Rapids).
TEST(Solver, gathers_no_lanes_under_a_guard_where_others_walk_straight) {
  const TileGraph joined = parse_tile_graph(R"(tile_graph joined {
  axes r: 256, i: 18, j: 64
  buffers %a: f32[6, 64, 256] in, %b: f32[12, 256, 64] in, %sum: f32[1152] out
  %a0 = load %a[r + i*16384 + j*256] if [383 - i*64 - j] else 0        : f32[r, i, j]
  %b0 = load %b[r*64 + i*16384 + j - 98304] if [i*64 + j - 384] else 0 : f32[r, i, j]
  %c  = add(%a0, %b0)         : f32[r, i, j]
  %s  = reduce.sum(%c) over r : f32[i, j]
  store %s -> %sum[i*64 + j]
}
)");
  const Schedule choice = solved(joined, load_target("x86-granite-rapids")).ranked.front();
  EXPECT_EQ(joined[*choice.lane_axis].name, "r");
}

bool adds_floats(const TileGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [](const TileValue& value) {
    const auto* reduce = std::get_if<TileReduce>(&value.op);
    return reduce != nullptr && (reduce->kind == ReduceKind::Sum || reduce->kind == ReduceKind::Prod);
  });
}

// What decides in which order a sum is added up.
std::string order_of_additions(const TileGraph& graph, const Schedule& schedule) {
  const Result<Structure> structure = analyze_structure(graph);
  std::string order = "split " + std::to_string(schedule.split);
  order += schedule.accumulate_in_scratch ? ", in scratch" : "";
  if (!schedule.lane_axis || !structure->is_reduced(*schedule.lane_axis)) return order;
  return order + ", lanes " + graph[*schedule.lane_axis].name + " = " + std::to_string(schedule.lanes) +
         " x " + std::to_string(schedule.unroll);
}

TEST(Solver, gives_the_same_answer_every_time_and_the_same_bits_for_any_threads) {
  const Target target = load_target("x86-avx2");
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    const Schedule one = solved(graph, target).ranked.front();
    EXPECT_EQ(to_text(solved(graph, target).ranked.front(), graph), to_text(one, graph));
    for (int threads : {2, 3, 64}) {
      const Schedule many = solved(graph, target, {}, {.threads = threads}).ranked.front();
      if (!adds_floats(graph)) continue;
      ASSERT_EQ(order_of_additions(graph, many), order_of_additions(graph, one)) << seed;
    }
  }
}

TEST(Solver, honours_a_pin_or_names_it_in_the_refusal) {
  const Target target = load_target("x86-avx2");
  int refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    const Result<RegionFacts> facts = collect_schedule_facts(graph, {});
    ASSERT_TRUE(facts);
    const ConstraintSystem system = collect_constraints(graph, target, *facts, {}).constraints;
    Pins pins;
    for (int64_t i = random.between(1, 2); i > 0; --i) {
      const Variable& variable = random.pick(system.variables);
      pins.decisions[variable.name] = random.pick(variable.domain).text;
    }
    const Result<Solution> solution = solve(graph, target, pins);
    if (!solution) {
      ++refused;
      EXPECT_THAT(solution.unsupported().reason, HasSubstr("pinned: "));
      const ConstraintSystem pinned = collect_constraints(graph, target, *facts, pins).constraints;
      const std::vector<size_t> rules = smallest_clash(pinned);
      EXPECT_EQ(is_satisfiable(pinned, rules, 100000), false);
      for (size_t dropped : rules) {
        std::vector<size_t> rest = rules;
        std::erase(rest, dropped);
        EXPECT_EQ(is_satisfiable(pinned, rest, 100000), true);
      }
      continue;
    }
    for (const Schedule& schedule : solution->ranked) {
      ASSERT_THAT(check_schedule(graph, schedule, &target), IsEmpty()) << seed;
      const auto expect = [&](const std::string& name, const std::string& value) {
        const auto pin = pins.decisions.find(name);
        EXPECT_TRUE(pin == pins.decisions.end() || pin->second == value) << seed << " " << name;
      };
      expect("lanes", std::to_string(schedule.lanes));
      expect("unroll", std::to_string(schedule.unroll));
      expect("rows", std::to_string(schedule.rows));
      expect("split", std::to_string(schedule.split));
      expect("walk", std::string(walk_name(schedule.walk)));
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_LT(refused, 380);
}

TEST(Solver, says_when_the_budget_ended_the_search) {
  RandomSource random(5);
  const Target target = load_target("x86-avx2");
  SolveOptions options;
  int cut_short = 0;
  options.node_budget = 12;
  for (int i = 0; i < 40; ++i) {
    const Result<Solution> solution = solve(random_tile_graph(random), target, {}, options);
    if (!solution) continue;
    EXPECT_LE(solution->nodes, 12);
    cut_short += solution->complete ? 0 : 1;
  }
  EXPECT_GT(cut_short, 0);
}

TEST(Solver, lower_bound_never_exceeds_the_cost_of_what_it_returns) {
  const Target zen4 = load_target("x86-zen4");
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    const Target target = random_target(random, zen4);
    const Result<RegionFacts> facts = collect_schedule_facts(graph, {});
    CostModel model(graph, target, *facts, 8);
    const SolveOptions options{.threads = 1 + int(seed % 3), .candidates = seed % 5 == 0 ? 8 : 1};
    for (const Schedule& schedule : solved(graph, target, {}, options).ranked) {
      const double cycles = std::max(model.least_cycles(schedule.lanes, schedule.lane_axis, schedule.keep),
                                     model.least_cycles_of_body(schedule));
      ASSERT_LE(model.least_thread_free_us(cycles), model.thread_free_us(schedule) * (1 + 1e-9))
          << seed << to_text(schedule, graph);
      ASSERT_LE(model.least_us(cycles, options.threads), schedule.cost_us * (1 + 1e-9))
          << seed << to_text(schedule, graph);
    }
  }
}

TEST(Solver, has_no_choice_only_where_all_cost_more_than_they_are_worth) {
  const Target target = load_target("x86-zen4");
  int left_out = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    SolveOptions options{.threads = 1 + int(seed % 3)};
    const double cost_us = solved(graph, target, {}, options).ranked.front().cost_us;
    options.worth_us = cost_us * (1 + 1e-9);
    ASSERT_FALSE(solved(graph, target, {}, options).ranked.empty()) << seed;
    options.worth_us = cost_us / 2;
    const Solution dear = solved(graph, target, {}, options);
    if (!dear.ranked.empty()) continue;
    ++left_out;
    ASSERT_GT(dear.least_us, options.worth_us) << seed;
    ASSERT_LE(dear.least_us, cost_us * (1 + 1e-9)) << seed;
  }
  EXPECT_GT(left_out, 20);
}

// ---------------------------------------------------------------- the search alone
struct Drawn {
  ConstraintSystem system;
  std::vector<std::vector<double>> weights;  // by variable and value: an assignment costs their sum
};

Choice random_choice(RandomSource& random, const ConstraintSystem& system) {
  const VariableId variable{
      static_cast<uint32_t>(random.below(static_cast<int64_t>(system.variables.size())))};
  return {variable, random.bits() & system.all_values(variable)};
}

Constraint random_rule(RandomSource& random, const ConstraintSystem& system) {
  const auto count = static_cast<int64_t>(system.variables.size());
  if (random.once_in(3))
    return {AnyOf{{random_choice(random, system), random_choice(random, system)}}, "any", {}};
  if (random.once_in(3)) {
    const VariableId tile{0}, factor{static_cast<uint32_t>(random.between(1, count - 1))};
    return {MultipleOf{{random_choice(random, system)}, tile, {factor}}, "multiple", {}};
  }
  AtMost limit{{}, double(random.between(1, 40)), "units"};
  for (int64_t p = random.between(1, 3); p > 0; --p) {
    Product product{double(random.between(1, 3)), {}};
    for (int64_t f = random.between(1, 2); f > 0; --f) {
      Factor factor{random_choice(random, system).variable, {}, {}};
      for (size_t i = 0; i < system.variables[factor.variable.index].domain.size(); ++i) {
        factor.by_value.push_back(double(random.below(4)));
        if (p == 1) factor.times.push_back({random_choice(random, system).variable});
      }
      product.factors.push_back(std::move(factor));
    }
    limit.sum.push_back(std::move(product));
  }
  return {std::move(limit), "limit", {}};
}

Drawn random_system(RandomSource& random) {
  Drawn drawn;
  for (int64_t v = random.between(2, 5); v > 0; --v) {
    Variable variable{"v" + std::to_string(v), {}};
    drawn.weights.emplace_back();
    for (int64_t i = random.between(1, 4); i > 0; --i) {
      variable.domain.push_back({random.between(1, 6), std::to_string(i)});
      drawn.weights.back().push_back(double(random.below(1000)) / 8);
    }
    drawn.system.variables.push_back(std::move(variable));
  }
  for (int64_t r = random.below(7); r > 0; --r) {
    drawn.system.constraints.push_back(random_rule(random, drawn.system));
  }
  return drawn;
}

double cost_of(const Drawn& drawn, const Domains& domains) {  // of the cheapest value of every domain
  double cost = 0;
  for (size_t v = 0; v < domains.size(); ++v) {
    double least = 1e300;
    for (size_t i = 0; i < drawn.weights[v].size(); ++i) {
      if (((domains[v] >> i) & 1U) != 0) least = std::min(least, drawn.weights[v][i]);
    }
    cost += least;
  }
  return cost;
}

void enumerate(const Drawn& drawn, Domains& assignment, size_t next, std::vector<double>& costs) {
  if (next == drawn.system.variables.size()) {
    for (const Constraint& constraint : drawn.system.constraints) {
      if (!holds(drawn.system, constraint, assignment)) return;
    }
    costs.push_back(cost_of(drawn, assignment));
    return;
  }
  for (size_t i = 0; i < drawn.system.variables[next].domain.size(); ++i) {
    assignment[next] = ValueSet{1} << i;
    enumerate(drawn, assignment, next + 1, costs);
  }
}

TEST(Search, finds_what_brute_force_finds) {
  int without_solution = 0;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    RandomSource random(seed);
    const Drawn drawn = random_system(random);
    Domains assignment = drawn.system.all_domains();
    std::vector<double> costs;
    enumerate(drawn, assignment, 0, costs);
    std::sort(costs.begin(), costs.end());
    const auto cost = [&](const Domains& domains) { return cost_of(drawn, domains); };
    const SearchResult found = search(drawn.system, {3, 1000000}, cost, cost);
    ASSERT_TRUE(found.complete);
    ASSERT_EQ(found.ranked.size(), std::min<size_t>(3, costs.size())) << seed << to_text(drawn.system);
    for (size_t i = 0; i < found.ranked.size(); ++i) ASSERT_EQ(found.ranked[i].cost, costs[i]) << seed;
    without_solution += costs.empty() ? 1 : 0;
    std::vector<size_t> all(drawn.system.constraints.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    ASSERT_EQ(is_satisfiable(drawn.system, all, 1000000), !costs.empty());
  }
  EXPECT_GT(without_solution, 100);
}

TEST(Search, propagation_removes_no_value_of_a_solution) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    RandomSource random(seed);
    const Drawn drawn = random_system(random);
    Domains narrowed = drawn.system.all_domains();
    const bool possible = Propagator(drawn.system).all(narrowed);
    Domains assignment = drawn.system.all_domains();
    std::vector<double> costs;
    enumerate(drawn, assignment, 0, costs);
    if (!possible) {
      ASSERT_TRUE(costs.empty()) << seed;
      continue;
    }
    Drawn restricted = drawn;
    for (uint32_t v = 0; v < narrowed.size(); ++v) {
      restricted.system.constraints.push_back({AnyOf{{{VariableId{v}, narrowed[v]}}}, "narrowed", {}});
    }
    std::vector<double> left;
    enumerate(restricted, assignment, 0, left);
    ASSERT_EQ(left.size(), costs.size()) << seed;
  }
}

// ---------------------------------------------------------------- check_schedule and the text form
constexpr const char* kSoftmax = R"(tile_graph softmax_0 {
  axes row: 128, col: 1024
  buffers %x: f32[128, 1024] in, %y: f32[128, 1024] out
  %0 = load %x[row*1024 + col] : f32[row, col]
  %m = reduce.max(%0) over col : f32[row]
  %1 = sub(%0, %m) : f32[row, col]
  %e = exp(%1) : f32[row, col]
  %s = reduce.sum(%e) over col : f32[row]
  %2 = div(%e, %s) : f32[row, col]
  store %2 -> %y[row*1024 + col]
}
)";

std::string first_finding(const std::string& lines) {
  const TileGraph graph = parse_tile_graph(kSoftmax);
  const Schedule schedule = parse_schedule("schedule softmax_0 for x86-avx2 {\n" + lines + "}\n", graph);
  const std::vector<std::string> findings = check_schedule(graph, schedule);
  return findings.empty() ? "" : findings.front();
}

TEST(CheckSchedule, accepts_a_schedule_written_by_hand) {
  EXPECT_EQ(
      first_finding("lanes col = 8, unroll 2\ngrid row = 4\nwalk resident; keep %0, %e\nrows 4\nsplit 1\n"
                    "stage none\nstores %y: streamed\n"),
      "");
}

TEST(CheckSchedule, names_the_line_that_is_wrong) {
  const std::string rest = "rows 1\nsplit 1\nstage none\nstores cached\n";
  EXPECT_THAT(first_finding("lanes col = 7\ngrid row = 4\nwalk multi_pass\n" + rest), HasSubstr("lanes: 7"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid none\nwalk multi_pass\n" + rest),
              HasSubstr("grid: the parallel axis row is missing"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk none\n" + rest), HasSubstr("walk: a region"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk resident\n" + rest),
              HasSubstr("%0 would be read again"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk multi_pass; keep %2\n" + rest),
              HasSubstr("keep: no later pass needs %2"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk online\n" + rest),
              HasSubstr("walk: an online walk needs a block"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk online; block col = 12\n" + rest),
              HasSubstr("walk: the block 12 is no multiple of 8"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk multi_pass; block col = 8\n" + rest),
              HasSubstr("walk: a block goes with an online walk"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk online; block col = 8\nrows 2\nsplit 1\n"
                            "stage none\nstores cached\n"),
              HasSubstr("rows: an online walk corrects one row at a time"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 3\nwalk multi_pass\nrows 2\nsplit 1\nstage none\n"
                            "stores cached\n"),
              HasSubstr("rows: the tile 3"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk multi_pass\nrows 1\nsplit 4\nstage none\n"
                            "stores cached\n"),
              HasSubstr("split: needs reductions of one level"));
  EXPECT_THAT(first_finding("lanes col = 8\ngrid row = 4\nwalk multi_pass\nrows 1\nsplit 1\nstage none\n"
                            "stores %y: streamed\n"),
              HasSubstr("stores: %y is stored 32 bytes at a time"));
}

TEST(ParseSchedule, says_where_the_text_is_wrong) {
  const auto message = [](const std::string& lines) -> std::string {
    try {
      first_finding(lines);
    } catch (const UserError& error) {
      return error.what();
    }
    return "parsed";
  };
  EXPECT_THAT(message("lanes col = 8\ngrid line = 4\n"),
              HasSubstr("line 3, column 6: the tile graph softmax_0 has no axis line"));
  EXPECT_THAT(message("lanes col = 8\ngrid row = 4\nwalk zigzag\n"), HasSubstr("found zigzag"));
  EXPECT_THAT(message("lanes col = 8\ngrid row = 4\nwalk multi_pass; keep %z\n"), HasSubstr("no value %z"));
  EXPECT_THAT(message("lanes col = 8\ngrid row = -4\n"), HasSubstr("expected a positive number"));
}

}  // namespace
}  // namespace tilefuse
