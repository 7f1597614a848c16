// Products of bytes in dots of four: exact, whatever the signs, the layouts, the blocks and the processor.
#include <array>
#include <random>
#include <regex>

#include "fusion/cost_model.h"
#include "fusion/dots.h"
#include "fusion/instruction_sets.h"
#include "fusion/solve.h"
#include "fusion/target.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

// %w lies as a linear layer's weight, %v as a matrix that is multiplied from the right.
const char* const kBoth = R"(tile_graph both {
  axes b: 2, i: s0, j: s1, k: s2
  buffers %x: ROW[2, s0, s2] in, %w: PANEL[s1, s2] in, %v: PANEL[2, s2, s1] in, %c: f32[s1] in, %y: i32[2, s0, s1] out, %z: f32[2, s0, s1] out
  %0 = load %x[b*s0*s2 + i*s2 + k] : ROW[b, i, k]
  %x32 = cast(%0)                  : i32[b, i, k]
  %1 = load %w[j*s2 + k]           : PANEL[j, k]
  %w32 = cast(%1)                  : i32[j, k]
  %2 = load %v[b*s1*s2 + k*s1 + j] : PANEL[b, j, k]
  %v32 = cast(%2)                  : i32[b, j, k]
  %p = mul(%x32, %w32)             : i32[b, i, j, k]
  %s = reduce.sum(%p) over k       : i32[b, i, j]
  %q = mul(%v32, %x32)             : i32[b, i, j, k]
  %t = reduce.sum(%q) over k       : i32[b, i, j]
  %d = sub(%s, %t)                 : i32[b, i, j]
  %sf = cast(%s)                   : f32[b, i, j]
  %3 = load %c[j]                  : f32[j]
  %f = mul(%sf, %3)                : f32[b, i, j]
  store %d -> %y[b*s0*s1 + i*s1 + j]
  store %f -> %z[b*s0*s1 + i*s1 + j]
}
)";

struct Types {
  const char *row, *panel;
};
constexpr std::array<Types, 4> kSigns = {{{"i8", "i8"}, {"u8", "i8"}, {"i8", "u8"}, {"u8", "u8"}}};

std::string sized(std::string text, const Types& types, int64_t i, int64_t j, int64_t k) {
  text = std::regex_replace(text, std::regex("ROW"), types.row);
  text = std::regex_replace(text, std::regex("PANEL"), types.panel);
  text = std::regex_replace(text, std::regex("s0"), std::to_string(i));
  text = std::regex_replace(text, std::regex("s1"), std::to_string(j));
  return std::regex_replace(text, std::regex("s2"), std::to_string(k));
}

// Any bytes, and rows of the ends of their range.
std::vector<Tensor> bytes_for(const TileGraph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> tensors;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role != Buffer::Role::Input) continue;
    Tensor& tensor = tensors.emplace_back(buffer.dtype, sizes_of(buffer, {}));
    const bool is_signed = buffer.dtype == DType::I8;
    const int64_t low = is_signed ? -128 : 0, row = tensor.shape().back();
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (is_float(buffer.dtype)) {
        tensor.set_float(i, double(i % 7) / 4);
        continue;
      }
      const int64_t any = low + int64_t(random() % 256);
      const int64_t number = i / row % 4;
      tensor.set_int(i, number == 0 ? low : number == 1 ? low + 255 : any);
    }
  }
  return tensors;
}

class DotKernel : public KernelTest {
 protected:
  void expect_dots(const std::string& text, const std::string& decisions) {
    const TileGraph graph = parse_tile_graph(text);
    const Schedule schedule =
        parse_schedule("schedule " + graph.name + " for x86-zen4 {\n" + decisions + "\n}", graph);
    EXPECT_TRUE(walks_dots(graph, *analyze_structure(graph), schedule));
    expect_same(graph, schedule, bytes_for(graph, 3), {});
  }
};

constexpr const char* kBlocks[] = {
    "lanes j = 16, unroll 2\n grid b = 1, i = all, j = 32\n walk multi_pass\n rows 4\n split 1\n"
    " stage %1 along k, %2 along j in quads\n stores cached",
    "lanes j = 8\n grid b = all, i = 9, j = all\n walk multi_pass\n rows 3\n split 3\n"
    " stage %1 along k, %2 along j in quads\n stores cached",
    "lanes j = 32\n grid b = 1, i = all, j = all\n walk multi_pass\n rows 1\n split 1\n"
    " stage %1 along k, %2 along j in quads\n stores cached"};

TEST_F(DotKernel, multiplies_bytes_of_any_signs_in_quads) {
  for (const Types& types : kSigns) {
    for (const char* decisions : kBlocks) {
      SCOPED_TRACE(std::string(types.row) + " by " + types.panel + "\n" + decisions);
      for (const auto& [i, j, k] :
           std::array<std::array<int64_t, 3>, 4>{{{13, 75, 36}, {6, 21, 34}, {3, 20, 3}, {5, 37, 1301}}}) {
        expect_dots(sized(kBoth, types, i, j, k), decisions);
      }
    }
  }
}

// On processors without the instruction, as objects for others are compiled.
TEST_F(DotKernel, computes_the_same_without_the_instruction) {
  const std::vector<std::string> avx512 = {"avx2",    "fma",      "f16c",     "bmi2",
                                           "avx512f", "avx512bw", "avx512dq", "avx512vl"};
  const std::vector<std::string> avx2 = {"avx2", "fma", "f16c", "bmi2"};
  for (const auto& sets : {avx512, avx2, std::vector<std::string>{}}) {
    if (!missing_instructions(sets).empty()) continue;
    runner_.use_instructions(sets);
    for (const Types& types : kSigns) {
      expect_dots(sized(kBoth, types, 13, 75, 36), kBlocks[0]);
      expect_dots(sized(kBoth, types, 13, 75, 36), kBlocks[1]);
    }
  }
}

const char* const kPacked = R"(tile_graph packed {
  axes i: s0, j: s1, k: s2
  buffers %x: ROW[s0, s2] in, %w: PANEL[s1, s2] const, %y: i32[s0, s1] out
  %0 = load %x[i*s2 + k]       : ROW[i, k]
  %x32 = cast(%0)              : i32[i, k]
  %1 = load %w[j*s2 + k]       : PANEL[j, k]
  %w32 = cast(%1)              : i32[j, k]
  %p = mul(%x32, %w32)         : i32[i, j, k]
  %s = reduce.sum(%p) over k   : i32[i, j]
  store %s -> %y[i*s1 + j]
}
)";

// Sums beyond 32 bits, and what they start from: 2^14 * 132000 is more than 2^31.
TEST_F(DotKernel, wraps_as_sums_of_32_bits_do) {
  const std::string text = std::regex_replace(std::string(kPacked), std::regex("const"), "in");
  for (const Types& types : kSigns) {
    expect_dots(sized(text, types, 1, 17, 132000),
                "lanes j = 16\n grid i = all, j = all\n walk multi_pass\n rows 1\n split 1\n"
                " stage %1 along k in quads\n stores cached");
  }
}

TEST_F(DotKernel, packs_constants_once_with_what_sums_start_from) {
  for (const Types& types : kSigns) {
    for (const char* decisions :
         {"lanes j = 16, unroll 2\n grid i = all, j = 32\n walk multi_pass\n rows 4\n split 1\n"
          " stage %1 along k in quads packed once\n stores cached",
          "lanes j = 8, unroll 2\n grid i = 4, j = all\n walk multi_pass\n rows 2\n split 3\n"
          " stage %1 along k in quads packed once\n stores cached"}) {
      SCOPED_TRACE(std::string(types.row) + " by " + types.panel + "\n" + decisions);
      for (const auto& [rows, length] : {std::pair{1, 36}, {7, 37}, {33, 39}}) {
        expect_dots(sized(kPacked, types, rows, 75, length), decisions);
      }
    }
  }
}

TEST(DotSchedule, multiplies_bytes_in_quads_where_that_is_faster) {
  const auto chosen = [](int64_t k, const Target& target) {
    const TileGraph graph = parse_tile_graph(sized(kPacked, {"i8", "i8"}, 240, 512, k));
    const Result<Solution> solution = solve(graph, target, {}, {.threads = 1});
    return std::pair(to_text(solution->ranked.front(), graph), solution->ranked.front().cost_us);
  };
  const Target zen4 = load_target("x86-zen4");
  const auto [in_quads, quads_us] = chosen(512, zen4);
  EXPECT_THAT(in_quads, testing::HasSubstr("stage    %1 along k in quads packed once\n"));
  const auto [last_short, short_us] = chosen(510, zen4);  // no multiple of four
  EXPECT_THAT(last_short, testing::HasSubstr("stage    %1 along k in quads packed once\n"));
  EXPECT_LT(short_us, 1.05 * quads_us);
  Target slow = zen4;
  slow.rates["clk_per_vector.dot_i8"] = 4 * slow.rate("clk_per_vector.fma");
  EXPECT_THAT(chosen(512, slow).first, testing::Not(testing::HasSubstr("in quads")));
  EXPECT_THAT(chosen(512, load_target("x86-avx512")).first, testing::Not(testing::HasSubstr("in quads")));
}

// A cast that changes values, and sums that are wider, are no widening of bytes.
TEST(DotSchedule, takes_bytes_for_bytes_only) {
  const std::string text = sized(kPacked, {"i8", "i8"}, 240, 512, 512);
  const auto kind_of = [](const std::string& graph_text) {
    const TileGraph graph = parse_tile_graph(graph_text);
    return dots_of_region(graph, *analyze_structure(graph));
  };
  EXPECT_EQ(kind_of(text), DotKind::Quads);
  const auto with = [&](const char* pattern, const char* instead) {
    return std::regex_replace(text, std::regex(pattern), instead);
  };
  EXPECT_EQ(kind_of(with("  %x32 = cast\\(%0\\)              : i32",
                         "  %u = cast(%0) : u8[i, k]\n  %x32 = cast(%u) : i32")),
            DotKind::None);
  EXPECT_EQ(kind_of(with("  %x32 = cast\\(%0\\)              : i32",
                         "  %h = cast(%0) : i16[i, k]\n  %x32 = cast(%h) : i32")),
            DotKind::Quads);
  EXPECT_EQ(kind_of(with("i32", "i64")), DotKind::None);
  EXPECT_EQ(kind_of(with("i32", "f32")), DotKind::None);
}

}  // namespace
}  // namespace tilefuse
