// The cost model against sums done by hand, and what must be true of any cost.
#include "fusion/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "core/result.h"
#include "fusion/element_cost.h"
#include "fusion/lanes_together.h"
#include "tests/random_tile_graph.h"

namespace tilefuse {
namespace {

TileGraph row_sum(const std::string& rows, const std::string& cols) {
  return parse_tile_graph(
      "tile_graph row_sum {\n  axes row: " + rows + ", col: " + cols + "\n  buffers %x: f32[" + rows + ", " +
      cols + "] in, %y: f32[" + rows + "] out\n  %0 = load %x[row*" + cols +
      " + col] : f32[row, col]\n  %s = reduce.sum(%0) over col : f32[row]\n" + "  store %s -> %y[row]\n}\n");
}

// By a factor for each column.
TileGraph scaled_rows(const std::string& rows, const std::string& cols) {
  return parse_tile_graph("tile_graph scaled {\n  axes row: " + rows + ", col: " + cols +
                          "\n  buffers %x: f32[" + rows + ", " + cols + "] in, %w: f32[" + cols +
                          "] in, %y: f32[" + rows + ", " + cols + "] out\n  %0 = load %x[row*" + cols +
                          " + col] : f32[row, col]\n  %w0 = load %w[col] : f32[col]\n"
                          "  %1 = mul(%0, %w0) : f32[row, col]\n  store %1 -> %y[row*" +
                          cols + " + col]\n}\n");
}

RegionFacts facts_of(const TileGraph& graph) {
  Result<RegionFacts> facts = collect_region_facts(graph, {});
  if (!facts) throw InternalError(facts.unsupported().reason);
  return *std::move(facts);
}

constexpr AxisId kRow{0}, kCol{1};

Schedule rows_of_vectors(int64_t tile) {
  Schedule schedule;
  schedule.lanes = 16;
  schedule.lane_axis = kCol;
  schedule.grid = {{kRow, tile}};
  schedule.walk = Walk::MultiPass;
  return schedule;
}

// One task walks all rows, by vectors of sixteen.
Schedule all_rows_in_vectors() {
  Schedule schedule;
  schedule.lanes = 16;
  schedule.lane_axis = kCol;
  schedule.grid = {{kRow, 0}, {kCol, 0}};
  return schedule;
}

// Under that schedule, by access.
std::vector<double> missed_bytes(const RegionFacts& facts, double limit) {
  std::vector<const Access*> accesses;
  for (const Access& access : facts.accesses) accesses.push_back(&access);
  return Footprints(loop_nest(facts, all_rows_in_vectors()), accesses).missed_bytes(limit);
}

// A term of a schedule's cost, on one thread.
double term_us(std::string_view name, const TileGraph& graph, const RegionFacts& facts, const Target& target,
               Schedule schedule) {
  CostModel(graph, target, facts, 1).price(schedule);
  const auto term = std::find_if(schedule.cost.begin(), schedule.cost.end(),
                                 [&](const CostTerm& found) { return found.name == name; });
  return term->microseconds;
}

TEST(LoopNest, has_tasks_outside_and_lanes_inside) {
  const TileGraph graph = row_sum("100", "64");
  const RegionFacts facts = facts_of(graph);
  const Schedule schedule = rows_of_vectors(8);
  const std::vector<NestLoop> nest = loop_nest(facts, schedule);
  ASSERT_EQ(nest.size(), 3);
  EXPECT_EQ(nest[0].trips, 12.5);  // the last task has half as many rows
  EXPECT_TRUE(nest[0].over_tasks);
  EXPECT_EQ(nest[1].trips, 8);
  EXPECT_EQ(nest[2].axis, kCol);
  EXPECT_EQ(task_count(facts, schedule), 13);
  EXPECT_EQ(executions(nest, schedule, {true, false}), 100);
  EXPECT_EQ(executions(nest, schedule, {true, true}), 100 * 4);   // four vectors
  EXPECT_EQ(executions(nest, schedule, {false, true}), 100 * 4);  // inside the rows, hoisted no further
  EXPECT_EQ(executions(nest, schedule, {false, false}), 1);
}

TEST(LoopNest, the_last_task_ends_with_a_whole_block_of_rows_too) {
  const TileGraph graph = row_sum("49", "64");
  const RegionFacts facts = facts_of(graph);
  for (const int64_t tile : {0, 16, 32}) {
    Schedule schedule = rows_of_vectors(tile);
    schedule.rows = 4;
    EXPECT_EQ(executions(loop_nest(facts, schedule), schedule, {true, false}), 13 * 4) << tile;
  }
}

TEST(LoopNest, loads_what_fits_once_and_reloads_what_does_not) {
  const TileGraph graph = scaled_rows("256", "1024");
  const RegionFacts facts = facts_of(graph);
  const double image = 256 * 1024 * 4, row = 1024 * 4;
  EXPECT_THAT(missed_bytes(facts, 16 << 10), testing::ElementsAre(image, row, image));  // a row fits
  EXPECT_THAT(missed_bytes(facts, 1 << 10), testing::ElementsAre(image, 256 * row, image));
}

// All of an axis is one vector: a task walks memory from one end to the other, and what varies along the
// vector alone is there for all rows.
TEST(LoopNest, a_whole_vector_stands_around_the_rows) {
  const TileGraph graph = scaled_rows("256", "16");
  const RegionFacts facts = facts_of(graph);
  const Schedule schedule = all_rows_in_vectors();
  const std::vector<NestLoop> nest = loop_nest(facts, schedule);
  EXPECT_EQ(executions(nest, schedule, {false, true}), 1);
  EXPECT_EQ(executions(nest, schedule, {true, true}), 256);
  const MemoryWalk walk = memory_walk(nest, facts.accesses.front());
  EXPECT_EQ(walk.run_bytes, 256 * 16 * 4);
  EXPECT_EQ(walk.rows, 1);
}

// An image whose every other element is walked in one loop, and the others in the next, is in one piece,
// whichever of the two loops is inside.
TEST(LoopNest, walks_every_other_element_and_then_the_others_as_one_piece) {
  const TileGraph graph = parse_tile_graph(
      "tile_graph pairs {\n  axes row: 64, two: 2, col: 512\n  buffers %x: f32[64, 1024] in, %y: f32[64] "
      "out\n"
      "  %0 = load %x[row*1024 + col*2 + two] : f32[row, two, col]\n"
      "  %s = reduce.sum(%0) over two, col : f32[row]\n  store %s -> %y[row]\n}\n");
  const RegionFacts facts = facts_of(graph);
  const Access& access = facts.accesses.front();
  std::vector<NestLoop> nest = {{AxisId{0}, 64}, {AxisId{1}, 2}, {AxisId{2}, 512}};
  for (int inside = 0; inside < 2; ++inside) {
    EXPECT_THAT(Footprints(nest, {&access}).missed_bytes(16 << 10), testing::ElementsAre(64 * 4096))
        << inside;
    EXPECT_EQ(memory_walk(nest, access).run_bytes, 64 * 4096) << inside;
    std::swap(nest[1], nest[2]);
  }
}

TEST(LoopNest, elements_that_lie_a_little_apart_share_lines) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph every_other {
  axes row: 64, col: 512
  buffers %x: f32[64, 1024] in, %y: f32[64, 512] out
  %0 = load %x[row*1024 + col*2] : f32[row, col]
  store %0 -> %y[row*512 + col]
}
)");
  EXPECT_THAT(missed_bytes(facts_of(graph), 16 << 10), testing::ElementsAre(64 * 1024 * 4, 64 * 512 * 4));
  const TileGraph stored = parse_tile_graph(R"(tile_graph every_other {
  axes row: 64, col: 512
  buffers %x: f32[64, 512] in, %y: f32[64, 1024] out
  %0 = load %x[row*512 + col] : f32[row, col]
  store %0 -> %y[row*1024 + col*2]
}
)");
  EXPECT_THAT(missed_bytes(facts_of(stored), 16 << 10), testing::ElementsAre(64 * 512 * 4, 64 * 1024 * 4));
}

TEST(LoopNest, finds_a_table_in_the_cache_that_holds_it) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph places {
  axes i: 8, j: 8192
  buffers %t: f32[8, 192] in, %p: i64[8192] in, %y: f32[8, 8192] out
  %0 = load %p[j] : i64[j]
  %1 = load %t[i*192] + wrap(%0, extent 192, stride 1) : f32[i, j]
  store %1 -> %y[i*8192 + j]
}
)");
  const double places = 8192 * 8, table = 8 * 192 * 4, lines = 8 * 8192 * 64, result = 8 * 8192 * 4;
  EXPECT_THAT(missed_bytes(facts_of(graph), 1 << 20), testing::ElementsAre(places, table + 64, result));
  EXPECT_THAT(missed_bytes(facts_of(graph), 16 << 10), testing::ElementsAre(8 * places, table + 64, result));
  EXPECT_THAT(missed_bytes(facts_of(graph), 4 << 10), testing::ElementsAre(8 * places, lines, result));
}

TEST(LoopNest, sees_where_a_walk_jumps) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph transpose {
  axes j: 512, i: 512
  buffers %x: f32[512, 512] in, %y: f32[512, 512] out
  %0 = load %x[i*512 + j] : f32[j, i]
  store %0 -> %y[j*512 + i]
}
)");
  const RegionFacts facts = facts_of(graph);
  Schedule schedule = all_rows_in_vectors();
  const MemoryWalk read = memory_walk(loop_nest(facts, schedule), facts.accesses[0]);
  EXPECT_EQ(read.run_bytes, 4);
  EXPECT_EQ(read.rows, 512);
  const MemoryWalk write = memory_walk(loop_nest(facts, schedule), facts.accesses[1]);
  EXPECT_EQ(write.run_bytes, 512 * 512 * 4);
  EXPECT_EQ(write.rows, 1);
  schedule.grid = {{AxisId{0}, 64}, {AxisId{1}, 64}};
  EXPECT_EQ(memory_walk(loop_nest(facts, schedule), facts.accesses[1]).run_bytes, 64 * 4);
}

TEST(LoopNest, short_rows_side_by_side_are_one_walk) {
  const RegionFacts keys = facts_of(row_sum("1024", "64"));
  const auto walk = [](const RegionFacts& facts, int rows) {
    Schedule schedule = rows_of_vectors(0);
    schedule.rows = rows;
    return memory_walk(loop_nest(facts, schedule), facts.accesses.front());
  };
  EXPECT_EQ(walk(keys, 1).rows, 1);
  EXPECT_EQ(walk(keys, 4).run_bytes,
            1024 * 64 * 4);  // four keys are a piece of 1 KiB, as far as is fetched ahead
  EXPECT_EQ(walk(keys, 4).rows, 1);
  const MemoryWalk far = walk(facts_of(row_sum("1024", "4096")), 4);
  EXPECT_EQ(far.run_bytes, 4096 * 4);
  EXPECT_EQ(far.rows, 1024 / 4);
}

TEST(LoopNest, parts_of_a_sum_are_pieces_of_rows) {
  const TileGraph graph = row_sum("100", "4096");
  const RegionFacts facts = facts_of(graph);
  Schedule schedule = rows_of_vectors(8);
  const Access& load = facts.accesses.front();
  EXPECT_EQ(part_bytes(facts, schedule, load), 0);
  schedule.split = 4;
  EXPECT_EQ(part_bytes(facts, schedule, load), 1024 * 4);
  EXPECT_EQ(part_bytes(facts, schedule, facts.accesses.back()), 0);  // the sums, stored
  const MemoryWalk walk = in_pieces({4096 * 4, 1}, 1024 * 4);
  EXPECT_EQ(walk.run_bytes, 1024 * 4);
  EXPECT_EQ(walk.rows, 4);
  EXPECT_EQ(in_pieces({4096 * 4, 1}, 0).rows, 1);
}

// 6 MB of keys, in L3: half a row is one line, and every other one is passed by.
TEST(CostModel, short_parts_of_rows_in_l3_cost_as_jumps) {
  const TileGraph graph = row_sum("49152", "32");
  const RegionFacts facts = facts_of(graph);
  const Target target = load_target("x86-ice-lake");
  Schedule whole = rows_of_vectors(1), split = whole;
  split.split = 2;
  const double restart = target.rate("restart.L3.near") / 64;
  EXPECT_GT(term_us("cache", graph, facts, target, split) / term_us("cache", graph, facts, target, whole),
            1 + restart / 2);
}

TEST(CostModel, jumps_between_the_parts_of_a_sum_cost_as_bytes_more) {
  const TileGraph graph = row_sum("8192", "8192");
  const RegionFacts facts = facts_of(graph);
  const Target target = load_target("x86-granite-rapids");
  Schedule whole = rows_of_vectors(0), split = whole;
  split.split = 8;
  const double restart = target.rate("restart.DRAM.far") / (1024 * 4);
  EXPECT_NEAR(term_us("DRAM", graph, facts, target, split) / term_us("DRAM", graph, facts, target, whole),
              1 + restart, 0.02);
}

TEST(CostModel, counts_the_instructions_of_a_sum) {
  Target target = load_target("x86-zen4");
  const TileGraph graph = row_sum("64", "1024");  // 256 KiB: stays in L2
  const RegionFacts facts = facts_of(graph);
  const ComputeCost compute(graph, target, facts);
  Schedule schedule = rows_of_vectors(0);
  const auto passes = values_of_passes(graph, facts.structure, {});
  const double vectors = 64 * 64;
  const auto horizontal = [&](double adds) {  // half of the latency is hidden; five permutations are not
    return 64 * (0.5 * (target.rate("latency.reduce") + adds / target.rate("chain.add_f32")) +
                 5 / target.rate("rate.permute"));
  };
  const double counting = 0.5 * vectors;  // half a cycle an iteration
  const auto cycles = [&] {
    return compute.pass_cycles(0, compute.work_of(passes, schedule), loop_nest(facts, schedule), schedule);
  };
  EXPECT_NEAR(cycles(), vectors / target.rate("chain.add_f32") + counting, 1e-6);  // one chain
  EXPECT_NEAR(compute.horizontal_cycles(schedule), horizontal(0), 1e-6);
  schedule.unroll = 4;
  EXPECT_NEAR(cycles(), vectors / target.rate("rate.load") + counting / 4, 1e-6);  // the load port
  EXPECT_NEAR(compute.horizontal_cycles(schedule), horizontal(2), 1e-6);
}

TEST(CostModel, multiplications_wait_while_lanes_come_together_on_their_port) {
  LaneRates rates{.latency = 8, .adds_per_cycle = 0.5, .permutes_per_cycle = 1};
  Schedule schedule = rows_of_vectors(0);
  schedule.unroll = 2;
  const auto cycles = [&](int beside, double registers = 1) {
    return cycles_of_lanes_together(rates, schedule, beside, registers);
  };
  EXPECT_EQ(cycles(1), 0.5 * (8 + 1 / 0.5));
  EXPECT_EQ(cycles(4), 0.5 * (8 + 1 / 0.5) / 4);  // they wait together
  schedule.rows = schedule.columns = 4;
  EXPECT_EQ(cycles(1), 0.5 * 10 / 16);
  rates.permutes_waited_for = 1;
  EXPECT_EQ(cycles(1), 0.5 * 10 / 16 + 12 / 4.0);  // four of sixteen lanes
  EXPECT_EQ(cycles(1, 0.5), 0.5 * 10 / 16 + 0.5 * 12 / 4.0);
  schedule.columns = 1;
  schedule.rows = 3;
  EXPECT_EQ(cycles(1), 0.5 * 10 / 3 + 12 / 3.0);            // as if they were four
  EXPECT_EQ(cycles(2), 0.5 * 10 / 6 + (12 + 2 * 5) / 6.0);  // four, and two each for itself
}

// Lanes along j, which the load is strided along, of one vector after the other or several side by side.
double column_cycles(const std::string& target_name, const std::string& dtype, const std::string& stride,
                     int lanes, int unroll) {
  const Target target = load_target(target_name);
  const TileGraph graph =
      parse_tile_graph("tile_graph turned {\n  axes i: 64, j: 64\n  buffers %x: " + dtype + "[64, " + stride +
                       "] in, %y: " + dtype + "[64, 64] out\n  %0 = load %x[j*" + stride +
                       " + i] : " + dtype + "[i, j]\n  store %0 -> %y[i*64 + j]\n}\n");
  const RegionFacts facts = facts_of(graph);
  Schedule schedule = all_rows_in_vectors();
  schedule.lanes = lanes;
  schedule.unroll = unroll;
  const ComputeCost compute(graph, target, facts);
  return compute.outside_cycles(compute.work_of({{}}, schedule), loop_nest(facts, schedule), schedule);
}

// Of a column of 16 lanes: as elements, beside which stores pass, and dearer where more lines fall into a set
// of L1 than it has ways.
TEST(CostModel, counts_elements_that_lie_apart) {
  const auto cycles_of = [](const std::string& stride, int unroll) {
    return column_cycles("x86-zen4", "f32", stride, 16, unroll);
  };
  const double elements = 64 * 64;
  const double each = load_target("x86-zen4").rate("clk_per_element.strided_load");
  EXPECT_NEAR(cycles_of("100", 1), elements * each, 1e-6);
  EXPECT_EQ(cycles_of("512", 1), cycles_of("100", 1));              // 2 sets of 8 ways
  EXPECT_GT(cycles_of("512", 2), cycles_of("512", 1) + elements);   // 32 lines
  EXPECT_GT(cycles_of("1024", 1), cycles_of("512", 1) + elements);  // one set
}

// An element of two bytes is inserted into a lane that is wider.
TEST(CostModel, counts_narrow_elements_that_lie_apart) {
  const Target target = load_target("x86-zen4");
  const double beyond =
      target.rate("clk_per_element.strided_load_narrow") - target.rate("clk_per_element.strided_load");
  ASSERT_GT(beyond, 0);
  EXPECT_GE(column_cycles("x86-zen4", "bf16", "100", 16, 1),
            column_cycles("x86-zen4", "f32", "100", 16, 1) + beyond * 64 * 64);
  EXPECT_GT(column_cycles("x86-zen4", "bf16", "100", 8, 1), column_cycles("x86-zen4", "f32", "100", 8, 1));
}

// A tensor turned beside another one of the same rows: 16 lines of each, in the two sets that 16 fill.
TEST(CostModel, counts_the_lines_of_all_that_lies_apart) {
  const Target target = load_target("x86-zen4");
  const auto cycles_of = [&](const std::string& second) {
    const TileGraph graph = parse_tile_graph(
        "tile_graph turned {\n  axes i: 64, j: 64\n  buffers %x: f32[64, 512] in, %w: f32[64, " + second +
        "] in, %y: f32[64, 64] out\n  %0 = load %x[j*512 + i] : f32[i, j]\n  %1 = load %w[j*" + second +
        " + i] : f32[i, j]\n  %2 = add(%0, %1) : f32[i, j]\n  store %2 -> %y[i*64 + j]\n}\n");
    const RegionFacts facts = facts_of(graph);
    const Schedule schedule = all_rows_in_vectors();
    const ComputeCost compute(graph, target, facts);
    return compute.outside_cycles(compute.work_of({{}}, schedule), loop_nest(facts, schedule), schedule);
  };
  EXPECT_GT(cycles_of("512"), cycles_of("100") + 64 * 64);
}

// A few elements from lane to lane: as many whole loads, and an exchange for each but the first.
TEST(CostModel, puts_lanes_that_lie_a_few_apart_together_from_whole_loads) {
  const auto cycles_of = [](const std::string& dtype, const std::string& stride, int lanes) {
    return column_cycles("x86-granite-rapids", dtype, stride, lanes, 1);
  };
  EXPECT_LT(4 * cycles_of("f32", "3", 16), cycles_of("f32", "9", 16));
  EXPECT_LT(cycles_of("f32", "3", 16), cycles_of("f32", "8", 16));
  EXPECT_EQ(cycles_of("f32", "3", 4), cycles_of("f32", "9", 4)) << "one by one";
}

// Half a vector is put together on more ports, but narrow elements have to be placed and widened one by one.
TEST(CostModel, puts_narrow_elements_into_half_a_vector_more_slowly) {
  const auto cycles_of = [](const std::string& dtype, int lanes) {
    return column_cycles("x86-granite-rapids", dtype, "100", lanes, 1);
  };
  EXPECT_LT(3 * cycles_of("f32", 8), cycles_of("f32", 16));
  EXPECT_GT(cycles_of("bf16", 8), 1.5 * cycles_of("f32", 8));
  EXPECT_LT(cycles_of("bf16", 8), cycles_of("bf16", 16));
}

TEST(CostModel, rounds_by_arithmetic_where_no_instruction_does_and_bytes_not_at_all) {
  const auto cast = [](const char* target, const std::string& from, const std::string& to) {
    const TileGraph graph =
        parse_tile_graph("tile_graph cast {\n  axes n: 1024\n  buffers %x: " + from + "[1024] in, %y: " + to +
                         "[1024] out\n  %0 = load %x[n] : " + from + "[n]\n  %1 = cast(%0) : " + to +
                         "[n]\n  store %1 -> %y[n]\n}\n");
    return cycles_per_register(graph, graph.values[1], load_target(target));
  };
  EXPECT_GE(cast("x86-ice-lake", "f32", "bf16").vector, 2);
  EXPECT_EQ(cast("x86-ice-lake", "f32", "f16").vector, 0);
  EXPECT_EQ(cast("x86-granite-rapids", "f32", "bf16").vector, 0);
  EXPECT_GT(cast("x86-granite-rapids", "f32", "bf16").shuffle, 0);
  for (const char* to : {"bf16", "f16"}) {
    for (const char* from : {"i8", "bool"})
      EXPECT_EQ(cast("x86-granite-rapids", from, to).shuffle, 0) << from;
  }
}

// In halves, a core that computes with whole vectors has more ports, but not twice as many.
TEST(CostModel, takes_less_than_whole_vectors_for_halves) {
  const auto registers = [](const char* target, int lanes) {
    return registers_of_vector(DType::F32, lanes, vector_sizes(load_target(target)));
  };
  EXPECT_EQ(registers("x86-granite-rapids", 16), 1);
  EXPECT_GT(registers("x86-granite-rapids", 8), 0.5);
  EXPECT_LT(registers("x86-granite-rapids", 8), 1);
  EXPECT_EQ(registers("x86-zen4", 8), 0.5);  // half of a vector at a time, anyway
}

// The mask of a row that fits one vector costs nothing beside it; one behind full vectors is a vector more.
TEST(CostModel, takes_no_longer_for_a_part_of_one_vector) {
  const Target target = load_target("x86-granite-rapids");
  const auto cost_of = [&](const std::string& cols) {
    const TileGraph graph = row_sum("4096", cols);
    const RegionFacts facts = facts_of(graph);
    Schedule schedule = rows_of_vectors(0);
    CostModel(graph, target, facts, 1).price(schedule);
    return schedule.cost_us;
  };
  EXPECT_LE(cost_of("11"), cost_of("16"));
  EXPECT_GT(cost_of("27"), cost_of("32"));
}

// One mask serves all rows that are walked side by side.
TEST(CostModel, masks_the_last_vector_of_rows_side_by_side_once) {
  const Target target = load_target("x86-granite-rapids");
  const TileGraph graph = scaled_rows("4096", "27");
  const RegionFacts facts = facts_of(graph);
  const auto starts_of = [&](int64_t rows) {
    Schedule schedule = all_rows_in_vectors();
    schedule.rows = rows;
    return term_us("starts", graph, facts, target, schedule);
  };
  EXPECT_NEAR(starts_of(4), starts_of(1) / 4, 0.3 * starts_of(4));
}

// What is the same for every row is computed once and stored in a loop over the rows inside the one over the
// lanes, which begins it once for every two vectors.
TEST(CostModel, begins_a_loop_inside_that_of_the_lanes_once_for_their_vectors) {
  const Target target = load_target("x86-zen4");
  const TileGraph graph = parse_tile_graph(
      "tile_graph copied {\n  axes row: 6, col: 1024\n  buffers %w: f32[1024] in, %y: f32[6, 1024] out\n"
      "  %0 = load %w[col] : f32[col]\n  %1 = cos(%0) : f32[col]\n  store %1 -> %y[row*1024 + col]\n}\n");
  Schedule schedule = all_rows_in_vectors();
  schedule.unroll = 2;
  const double begun = 1024.0 / 16 / 2, us_per_cycle = 1 / target.clock_ghz / 1e3;
  EXPECT_NEAR(term_us("starts", graph, facts_of(graph), target, schedule),
              (begun * target.rate("loop.start") + target.rate("tile.start")) * us_per_cycle, 1e-6);
}

// One row after the other is one walk, which a prefetcher follows; short rows side by side are nearly one.
TEST(CostModel, moves_long_rows_side_by_side_more_slowly_from_l3) {
  Target target = load_target("x86-zen4");
  const auto slower = [&](const char* columns) {
    const TileGraph graph = row_sum("8192", columns);
    const RegionFacts facts = facts_of(graph);
    Schedule schedule = rows_of_vectors(0);
    schedule.rows = 4;
    target.rates["share.moved_beside"] = 0.4;
    const double beside = term_us("cache", graph, facts, target, schedule);
    target.rates["share.moved_beside"] = 0;
    return beside / term_us("cache", graph, facts, target, schedule);
  };
  EXPECT_EQ(slower("64"), 1);
  EXPECT_GT(slower("256"), 1.05);
  EXPECT_LE(slower("256"), 1.4);
}

// What a walk keeps for its next pass passes through L2 where L1 does not hold it, and so does what comes
// from beyond.
TEST(CostModel, waits_for_kept_values_where_more_comes_from_beyond_l2) {
  Target target = load_target("x86-zen4");
  const auto waited_us = [&](const std::string& rows, const std::string& columns) {
    const TileGraph graph = parse_tile_graph(
        "tile_graph centred {\n  axes row: " + rows + ", col: " + columns + "\n  buffers %x: f32[" + rows +
        ", " + columns + "] in, %y: f32[" + rows + ", " + columns + "] out\n  %0 = load %x[row*" + columns +
        " + col] : f32[row, col]\n  %1 = square(%0) : f32[row, col]\n  %s = reduce.sum(%1) over col : "
        "f32[row]\n" +
        "  %2 = sub(%1, %s) : f32[row, col]\n  store %2 -> %y[row*" + columns + " + col]\n}\n");
    const RegionFacts facts = facts_of(graph);
    Schedule schedule = rows_of_vectors(0);
    schedule.keep = {TileValueId{1}};
    target.rates["share.kept_waited"] = 0.5;
    const double waited = term_us("cache", graph, facts, target, schedule);
    target.rates["share.kept_waited"] = 0;
    return waited - term_us("cache", graph, facts, target, schedule);
  };
  const double element_us = 4 / target.rate("bandwidth.L2.read.1") / 1e3;
  EXPECT_NEAR(waited_us("64", "16384"), 0.5 * 2 * 64 * 16384 * element_us, 1e-6);  // written and read
  EXPECT_EQ(waited_us("1024", "1024"), 0);                                         // L1 holds a row
  EXPECT_EQ(waited_us("4", "16384"), 0);                                           // L2 holds all
}

// A division of single results, as a mean has it, is over long before one of a vector.
TEST(CostModel, divides_a_single_result_faster_than_a_vector) {
  const Target target = load_target("x86-zen4");
  const TileGraph graph = parse_tile_graph(
      "tile_graph mean {\n  axes row: 64, col: 256\n  buffers %x: f32[64, 256] in, %y: f32[64] out\n"
      "  %0 = load %x[row*256 + col] : f32[row, col]\n  %s = reduce.sum(%0) over col : f32[row]\n"
      "  %n = constant 256 : f32[]\n  %m = div(%s, %n) : f32[row]\n  store %m -> %y[row]\n}\n");
  const RegionFacts facts = facts_of(graph);
  const Schedule schedule = rows_of_vectors(0);
  const ComputeCost compute(graph, target, facts);
  const auto passes = values_of_passes(graph, facts.structure, {});
  const double cycles =
      compute.outside_cycles(compute.work_of(passes, schedule), loop_nest(facts, schedule), schedule);
  EXPECT_GT(cycles, 64 * 0.2 * target.rate("clk_per_vector.divide"));
  EXPECT_LT(cycles, 64 * (0.4 * target.rate("clk_per_vector.divide") + 1 / target.rate("rate.store")));
}

// Parts of a concatenation along an axis are each read along their share of it.
TEST(RegionFacts, know_how_much_a_guard_lets_through) {
  const TileGraph graph = parse_tile_graph(
      "tile_graph joined {\n  axes i: 64, s: 50\n"
      "  buffers %a: f32[16, 50] in, %b: f32[32, 50] in, %c: f32[16, 50] in, %y: f32[64, 50] out\n"
      "  %a = load %a[i*50 + s] if [15 - i] else 0 : f32[i, s]\n"
      "  %b = load %b[i*50 + s - 800] if [i - 16, 47 - i] else 0 : f32[i, s]\n"
      "  %c = load %c[i*50 + s - 2400] if [i - 48, 39 - s] else 0 : f32[i, s]\n"
      "  %0 = add(%a, %b) : f32[i, s]\n  %1 = add(%0, %c) : f32[i, s]\n  store %1 -> %y[i*50 + s]\n}\n");
  const std::vector<Access> accesses = facts_of(graph).accesses;
  EXPECT_DOUBLE_EQ(accesses[0].share_read, 0.25);
  EXPECT_DOUBLE_EQ(accesses[1].share_read, 0.5);
  EXPECT_DOUBLE_EQ(accesses[2].share_read, 0.25 * 0.8);
  EXPECT_EQ(accesses[3].share_read, 1);  // the store
}

// A last axis of three: compilers write it out and find vectors along the other.
TEST(CostModel, prices_short_rows_without_lanes_as_written_out) {
  const auto choice = [](const std::string& dtype) {
    const TileGraph graph = parse_tile_graph(
        "tile_graph scaled {\n  axes row: 65536, col: 3\n  buffers %x: " + dtype + "[65536, 3] in, %w: " +
        dtype + "[3] in, %y: " + dtype + "[65536, 3] out\n  %0 = load %x[row*3 + col] : " + dtype +
        "[row, col]\n  %w0 = load %w[col] : " + dtype + "[col]\n  %1 = mul(%0, %w0) : " + dtype +
        "[row, col]\n  store %1 -> %y[row*3 + col]\n}\n");
    return solve(graph, load_target("x86-zen4"))->ranked.front().lanes;
  };
  EXPECT_EQ(choice("f32"), 1);
  EXPECT_GT(choice("bf16"), 1);  // widened: not written out
}

// What is asked of each element keeps compilers from that: three taps of a window over rows of seven.
TEST(CostModel, prices_conditions_without_lanes_one_by_one) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph window {
  axes i: 224, j: 7, k: 7
  buffers %x: f32[224, 7, 7] in, %w: f32[224, 3] in, %y: f32[224, 7, 7] out
  %0 = load %x[i*49 + j*7 + k - 1] if [k - 1] else 0 : f32[i, j, k]
  %w0 = load %w[i*3]                                 : f32[i]
  %m0 = mul(%0, %w0)                                 : f32[i, j, k]
  %1 = load %x[i*49 + j*7 + k]                       : f32[i, j, k]
  %w1 = load %w[i*3 + 1]                             : f32[i]
  %m1 = mul(%1, %w1)                                 : f32[i, j, k]
  %2 = load %x[i*49 + j*7 + k + 1] if [5 - k] else 0 : f32[i, j, k]
  %w2 = load %w[i*3 + 2]                             : f32[i]
  %m2 = mul(%2, %w2)                                 : f32[i, j, k]
  %s0 = add(%m0, %m1)                                : f32[i, j, k]
  %s1 = add(%s0, %m2)                                : f32[i, j, k]
  store %s1 -> %y[i*49 + j*7 + k]
}
)");
  EXPECT_EQ(solve(graph, load_target("x86-zen5"))->ranked.front().lanes, 8);
}

TEST(CostModel, terms_add_up_to_the_cost) {
  const Target target = load_target("x86-zen4");
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomSource random(seed);
    const TileGraph graph = random_tile_graph(random);
    const Result<Solution> solution = solve(graph, target, {}, {.threads = 2});
    ASSERT_TRUE(solution);
    for (const Schedule& schedule : solution->ranked) {
      double sum = 0;
      for (const CostTerm& term : schedule.cost) sum += term.microseconds;
      ASSERT_NEAR(sum, schedule.cost_us, 1e-9 * schedule.cost_us);
      ASSERT_GT(sum, 0);
    }
  }
}

TEST(CostModel, more_rows_cost_more_and_more_threads_never_do) {
  const Target target = load_target("x86-avx2");
  double before = 0;
  for (const char* rows : {"64", "512", "4096", "65536"}) {
    const TileGraph graph = row_sum(rows, "1024");
    const double one = solve(graph, target, {}, {.threads = 1})->ranked.front().cost_us;
    const double two = solve(graph, target, {}, {.threads = 2})->ranked.front().cost_us;
    EXPECT_GT(one, before);
    EXPECT_LE(two, one * 1.0001);
    EXPECT_LE(estimate_us(graph, target, 2), estimate_us(graph, target, 1) * 1.0001);
    before = one;
  }
}

TEST(Estimate, is_near_the_cost_of_the_schedule_that_is_found) {
  const Target target = load_target("x86-zen4");
  for (const char* cols : {"64", "1024", "16384"}) {
    const TileGraph graph = row_sum("4096", cols);
    const double cost = solve(graph, target)->ranked.front().cost_us;
    const double estimate = estimate_us(graph, target, 1);
    EXPECT_GT(estimate, 0.5 * cost) << cols;
    EXPECT_LT(estimate, 1.5 * cost) << cols;
  }
}

TEST(Estimate, fused_costs_less_than_its_parts) {
  const Target target = load_target("x86-zen4");
  const auto chain = [&](int maps) {
    std::string text =
        "tile_graph chain {\n  axes n: 1048576\n  buffers %x: f32[1048576] in, %y: f32[1048576] out\n";
    text += "  %0 = load %x[n] : f32[n]\n";
    for (int i = 1; i <= maps; ++i) {
      text += "  %" + std::to_string(i) + " = neg(%" + std::to_string(i - 1) + ") : f32[n]\n";
    }
    return estimate_us(parse_tile_graph(text + "  store %" + std::to_string(maps) + " -> %y[n]\n}\n"), target,
                       1);
  };
  EXPECT_LT(chain(4), 0.5 * 4 * chain(1));
  EXPECT_GE(chain(4), chain(1));
}

TEST(Target, every_embedded_profile_has_the_rates_that_costs_need) {
  for (const std::string& name : target_names()) {
    const Target target = load_target(name);
    EXPECT_EQ(target.name, name);
    for (int threads : {1, 2, 16}) {
      const Result<Solution> solution = solve(row_sum("512", "512"), target, {}, {.threads = threads});
      ASSERT_TRUE(solution);
      EXPECT_GT(solution->ranked.front().cost_us, 0);
    }
  }
  EXPECT_THAT(target_names(), testing::Contains(host_target_name()));
}

// Halves of a row look at each other's elements: a task of one half brings in all of the row, and where no
// cache holds what lies between, it is brought in twice.
TEST(Traffic, tasks_read_elements_of_other_tasks) {
  const auto rotated = [](const std::string& rows) {
    return parse_tile_graph("tile_graph rotated {\n  axes row: " + rows + ", col: 128\n  buffers %x: f32[" +
                            rows + ", 128] in, %y: f32[" + rows +
                            ", 128] out\n"
                            "  %0 = load %x[row*128 + col] : f32[row, col]\n"
                            "  %1 = load %x[row*128 + col + 64] if [63 - col] else 0 : f32[row, col]\n"
                            "  %2 = load %x[row*128 + col - 64] if [col - 64] else 0 : f32[row, col]\n"
                            "  %3 = add(%1, %2) : f32[row, col]\n  %4 = mul(%0, %3) : f32[row, col]\n"
                            "  store %4 -> %y[row*128 + col]\n}\n");
  };
  const Target target = load_target("x86-zen4");
  const auto cache_us = [&](const TileGraph& graph, int64_t tile) {
    Schedule schedule = all_rows_in_vectors();
    schedule.grid[1].tile = tile;
    return term_us("cache", graph, facts_of(graph), target, schedule);
  };
  const TileGraph large = rotated("2048"), small = rotated("16");
  EXPECT_GT(cache_us(large, 64), 1.3 * cache_us(large, 0));
  EXPECT_NEAR(cache_us(small, 64), cache_us(small, 0), 0.1 * cache_us(small, 0));
}

}  // namespace
}  // namespace tilefuse
