// Scatters through every stage: tile graphs and kernels against the interpreter of graphs.
#include "fusion/scatter.h"

#include <random>

#include "fusion/check_schedule.h"
#include "fusion/lower_to_tiles.h"
#include "fusion/solve.h"
#include "fusion/whole_graph_region.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// Rows of a base, elements of one, or both coordinates of elements, at places that are data.
enum class Form : uint8_t { Rows, Columns, Elements, Pairs };

struct Case {
  Form form = Form::Rows;
  ScatterMode mode = ScatterMode::Add;
  DType dtype = DType::F32;
  int64_t rows = 7, columns = 21, walked = 30;
  bool wraps = true, is_computed = true, is_filled = false;
};

std::string name_of(const Case& c) {
  constexpr std::array<const char*, 4> kForms = {"rows", "columns", "elements", "pairs"};
  return std::string(kForms.at(size_t(c.form))) + "_" + info(c.mode).name + "_" + info(c.dtype).name + "_" +
         std::to_string(c.rows) + "x" + std::to_string(c.columns) + "_" + std::to_string(c.walked);
}

std::vector<int64_t> walked_shape(const Case& c) {
  if (c.form == Form::Rows) return {c.walked, c.columns};
  if (c.form == Form::Columns) return {c.rows, c.walked};
  if (c.form == Form::Elements) return {c.walked, c.columns};
  return {c.walked};
}

std::vector<Expr> exprs(const std::vector<int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

// Along rows the index is the same for all columns: a view of one dimension.
Graph graph_of(const Case& c) {
  GraphBuilder b("scattered");
  const std::vector<Expr> shape = exprs({c.rows, c.columns}), walked = exprs(walked_shape(c));
  ValueId base = b.input("base", {c.dtype, shape});
  if (c.is_filled) base = b.constant(is_float(c.dtype) ? Scalar(0.5) : Scalar(int64_t{3}), {c.dtype, shape});
  ValueId updates = b.input("updates", {c.dtype, walked});
  if (c.is_computed) updates = b.map(MapFn::Mul, {updates, updates});
  Scatter op{c.mode, {}, {}, c.wraps};
  std::vector<ValueId> operands = {base, updates};
  if (c.form == Form::Rows) {
    const ValueId index = b.input("index", {DType::I64, {walked[0]}});
    operands.push_back(b.view(index, {walked, {Expr::index(0)}, {}, 0.0}));
    op.coordinates = {0, Expr::index(1)};
    op.from_index = {0, -1};
  } else if (c.form == Form::Pairs) {
    operands.push_back(b.input("index", {DType::I64, walked}));
    operands.push_back(b.input("other", {DType::I32, walked}));
    op.coordinates = {0, 0};
    op.from_index = {0, 1};
  } else {
    operands.push_back(b.input("index", {DType::I64, walked}));
    const bool is_column = c.form == Form::Columns;
    op.coordinates = is_column ? std::vector<Expr>{Expr::index(0), 0} : std::vector<Expr>{0, Expr::index(1)};
    op.from_index = is_column ? std::vector<int>{-1, 0} : std::vector<int>{0, -1};
  }
  b.output(b.add(op, operands, {c.dtype, shape}, "y"));
  return b.finish();
}

// Few places for many elements, some of them counted from the end.
Tensor random_places(std::mt19937_64& random, DType dtype, const std::vector<int64_t>& shape, int64_t extent,
                     bool wraps) {
  std::vector<int64_t> places;
  std::uniform_int_distribution<int64_t> any(wraps ? -extent : 0, extent - 1);
  for (int64_t i = 0; i < element_count(shape); ++i) places.push_back(any(random));
  return Tensor::ints(dtype, shape, places);
}

Tensor random_elements(std::mt19937_64& random, DType dtype, const std::vector<int64_t>& shape) {
  Tensor tensor(dtype, shape);
  std::uniform_int_distribution<int64_t> any(info(dtype).is_signed ? -4 : 0, 4);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, double(any(random)) / (is_float(dtype) ? 4 : 1));
  return tensor;
}

std::vector<Tensor> random_inputs(const Case& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs = {random_elements(random, c.dtype, {c.rows, c.columns}),
                                random_elements(random, c.dtype, walked_shape(c))};
  std::vector<int64_t> index_shape = walked_shape(c);
  if (c.form == Form::Rows) index_shape = {c.walked};
  const int64_t extent = c.form == Form::Columns ? c.columns : c.rows;
  inputs.push_back(random_places(random, DType::I64, index_shape, extent, c.wraps));
  if (c.form == Form::Pairs)
    inputs.push_back(random_places(random, DType::I32, index_shape, c.columns, c.wraps));
  return inputs;
}

// Of the inputs of the graph those that the tile graph reads.
std::vector<Tensor> read_inputs(const Graph& graph, const TileGraph& tiles, const std::vector<Tensor>& all) {
  std::vector<Tensor> inputs;
  for (const Buffer& buffer : tiles.buffers) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      if (buffer.role == Buffer::Role::Input && graph.inputs[i].tensor == buffer.value)
        inputs.push_back(all[i]);
    }
  }
  return inputs;
}

class Scattered : public KernelTest, public testing::WithParamInterface<Case> {};

TEST_P(Scattered, is_the_same_in_every_stage) {
  const Graph graph = graph_of(GetParam());
  const Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
  ASSERT_TRUE(bool(tiles)) << tiles.unsupported().reason;
  EXPECT_EQ(to_text(parse_tile_graph(to_text(*tiles))), to_text(*tiles));
  const std::vector<Tensor> inputs = random_inputs(GetParam(), 1);
  const std::vector<Tensor> read = read_inputs(graph, *tiles, inputs);
  const Tensor expected = std::get<Tensor>(evaluate(graph, inputs, {})->outputs[0]);
  const Tensor memory = evaluate(*tiles, read, {})[0];
  for (const char* name : {"x86-zen4", "x86-avx2"}) {
    const Target target = load_target(name);
    const Result<Solution> solution = solve(*tiles, target, {}, {.threads = 2, .candidates = 3});
    ASSERT_TRUE(bool(solution)) << solution.unsupported().reason;
    for (const Schedule& schedule : solution->ranked) {
      EXPECT_THAT(check_schedule(*tiles, schedule, &target), testing::IsEmpty());
      const std::string text = to_text(schedule, *tiles);
      EXPECT_EQ(to_text(parse_schedule(text, *tiles), *tiles), text);
      if (std::string(name) != "x86-avx2") continue;
      const Tensor found = runner_.run(*tiles, schedule, read, {})[0];
      EXPECT_EQ(first_difference(found, expected, 0), "") << to_text(*tiles) << text << runner_.source();
      EXPECT_FALSE(runner_.found_index_error());
    }
  }
  EXPECT_EQ(memory.count(), expected.count());
  for (int64_t i = 0; i < memory.count(); ++i) {
    if (is_float(memory.dtype())) {
      EXPECT_NEAR(memory.float_at(i), expected.float_at(i), 1e-2) << i;
    } else {
      EXPECT_EQ(memory.int_at(i), expected.int_at(i)) << i;
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Form form : {Form::Rows, Form::Columns, Form::Elements, Form::Pairs}) {
    for (const ScatterMode mode :
         {ScatterMode::Assign, ScatterMode::Add, ScatterMode::Prod, ScatterMode::Max, ScatterMode::Min}) {
      all.push_back({.form = form, .mode = mode});
    }
    for (const DType dtype : {DType::BF16, DType::F16, DType::F64, DType::I64, DType::I32, DType::U8}) {
      all.push_back({.form = form, .dtype = dtype, .rows = 5, .columns = 40, .walked = 9, .wraps = false});
    }
    all.push_back({.form = form, .walked = 0});
    all.push_back({.form = form, .walked = 1, .is_filled = true});
    all.push_back({.form = form, .rows = 1, .columns = 5, .is_computed = false});
    all.push_back({.form = form, .columns = 1, .is_computed = false, .is_filled = true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Forms, Scattered, testing::ValuesIn(cases()), [](const auto& info) {
  return std::to_string(info.index) + "_" + name_of(info.param);
});

class ScatterErrors : public KernelTest {};

TEST_F(ScatterErrors, are_found_by_the_kernel_which_writes_nowhere_else) {
  for (const Form form : {Form::Rows, Form::Columns, Form::Elements, Form::Pairs}) {
    const Case c{.form = form, .columns = 40, .wraps = false};
    const Graph graph = graph_of(c);
    const auto tiles = lower_to_tiles(graph, whole_graph_region(graph));
    ASSERT_TRUE(bool(tiles));
    std::vector<Tensor> inputs = random_inputs(c, 3);
    inputs[2].set_int(inputs[2].count() - 1, -1);
    const auto solution = solve(*tiles, load_target("x86-avx2"));
    ASSERT_TRUE(bool(solution));
    runner_.run(*tiles, solution->ranked.front(), read_inputs(graph, *tiles, inputs), {});
    EXPECT_TRUE(runner_.found_index_error()) << name_of(c);
  }
}

// A base without rows has no place at all.
TEST_F(ScatterErrors, are_found_where_the_base_is_empty) {
  const std::string text = R"(tile_graph empty {
  symbol s0 in [0, inf]
  axes i: s0, n: 3, j: 8
  buffers %base: f32[s0, 8] in, %x: f32[3, 8] in, %k: i64[3] in, %y: f32[s0, 8] out
  %0 = load %base[i*8 + j] : f32[i, j]
  %1 = load %x[n*8 + j]    : f32[n, j]
  %2 = load %k[n]          : i64[n]
  store %0 -> %y[i*8 + j]
  scatter.add %1 -> %y[j] + at(%2, extent s0, stride 8) over n, j
})";
  const TileGraph tiles = parse_tile_graph(text);
  const auto solution = solve(tiles, load_target("x86-avx2"));
  ASSERT_TRUE(bool(solution)) << solution.unsupported().reason;
  for (const int64_t rows : {0, 2}) {
    const SymbolValues symbols = {{"s0", rows}};
    runner_.run(tiles, solution->ranked.front(), random_buffers(tiles, 1, symbols), symbols);
    EXPECT_EQ(runner_.found_index_error(), rows == 0);
  }
}

TEST(MeetingAxes, are_those_that_the_place_does_not_tell_apart) {
  const auto meeting = [](const std::string& store) {
    const TileGraph graph = parse_tile_graph(R"(tile_graph g {
  symbol s0 in [1, inf]
  axes n: 6, h: 2, j: 4
  buffers %x: f32[6, 2, 4] in, %k: i64[6] in, %y: f32[9, 8] out, %z: f32[9, s0] out
  %0 = load %x[n*8 + h*4 + j] : f32[n, h, j]
  %1 = load %k[n]             : i64[n]
  scatter.add %0 -> )" + store + " over n, h, j\n}");
    std::string names;
    for (const MeetingAxis& meeting : meeting_axes(graph)) names += graph[meeting.axis].name;
    return names;
  };
  EXPECT_EQ(meeting("%y[h*4 + j] + at(%1, extent 9, stride 8)"), "n");
  EXPECT_EQ(meeting("%y[h*4] + at(%1, extent 9, stride 8)"), "nj");
  EXPECT_EQ(meeting("%y[h*2 + j] + at(%1, extent 9, stride 8)"), "nhj");   // h and j overlap
  EXPECT_EQ(meeting("%y[h*4 + j] + at(%1, extent 9, stride 4)"), "nhj");   // the index reaches into h
  EXPECT_EQ(meeting("%z[h*4 + j] + at(%1, extent 9, stride s0)"), "nhj");  // s0 may be 1
}

TEST(CheckSchedule, refuses_to_cut_a_scatter_where_elements_meet) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph g {
  axes n: 64, j: 64
  buffers %x: f32[64, 64] in, %k: i64[64] in, %y: f32[9, 64] out
  %0 = load %x[n*64 + j] : f32[n, j]
  %1 = load %k[n]        : i64[n]
  scatter.add %0 -> %y[j] + at(%1, extent 9, stride 64) over n, j
})");
  const auto findings = [&](const std::string& decisions) {
    const Schedule schedule = parse_schedule("schedule g for x86-avx2 {\n" + decisions + "}", graph);
    std::string text;
    for (const std::string& finding : check_schedule(graph, schedule)) text += finding + "\n";
    return text;
  };
  const std::string rest = "walk none\nrows 1\nsplit 1\nstage none\n";
  EXPECT_EQ(findings("lanes j = 8\ngrid n = all, j = 8\n" + rest + "stores cached\n"), "");
  EXPECT_THAT(
      findings("lanes j = 8\ngrid n = 8, j = 8\n" + rest + "stores cached\n"),
      HasSubstr("grid: elements of a scatter may meet along n, of which a task has to take all, not 8"));
  EXPECT_THAT(findings("lanes n = 8\ngrid n = all, j = 8\n" + rest + "stores cached\n"),
              HasSubstr("lanes: elements of a scatter may meet along n"));
  EXPECT_THAT(findings("lanes j = 8, unroll 2\ngrid n = all, j = 16\n" + rest + "stores %y: streamed\n"),
              HasSubstr("stores: %y is scattered into, which reads what is there"));
}

}  // namespace
}  // namespace tilefuse
