// Blocks that leave vector registers to what they are computed from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/solve.h"
#include "fusion/target.h"
#include "fusion/tile_graph.h"

namespace tilefuse {
namespace {

Schedule chosen(const std::string& graph, const std::string& target) {
  return solve(parse_tile_graph(graph), load_target(target))->ranked.front();
}

// Eight rows of four vectors took twice as long as two where there are 16 registers: the loads of all come
// first.
TEST(RegisterPreferences, keep_the_vectors_of_a_map_few) {
  const char* const rotary = R"(tile_graph rotary {
  axes i: 8, j: 256, k: 64
  buffers %q: bf16[8, 256, 64] in, %c: bf16[256, 64] in, %s: bf16[256, 64] in, %y: bf16[8, 256, 64] out
  %0 = load %q[i*16384 + j*64 + k]                         : bf16[i, j, k]
  %1 = load %c[j*64 + k]                                   : bf16[j, k]
  %2 = mul(%0, %1)                                         : bf16[i, j, k]
  %3 = load %q[i*16384 + j*64 + k + 32] if [31 - k] else 0 : bf16[i, j, k]
  %4 = neg(%3)                                             : bf16[i, j, k]
  %5 = load %q[i*16384 + j*64 + k - 32] if [k - 32] else 0 : bf16[i, j, k]
  %p = inside [31 - k]                                     : bool[k]
  %6 = where(%p, %4, %5)                                   : bf16[i, j, k]
  %7 = load %s[j*64 + k]                                   : bf16[j, k]
  %8 = mul(%6, %7)                                         : bf16[i, j, k]
  %9 = add(%2, %8)                                         : bf16[i, j, k]
  store %9 -> %y[i*16384 + j*64 + k]
}
)";
  const Schedule with_16 = chosen(rotary, "x86-avx2");
  EXPECT_LE(with_16.rows * with_16.unroll, 8);
  const Schedule with_32 = chosen(rotary, "x86-zen4");
  EXPECT_LE(with_32.rows * with_32.unroll, 16);
}

// Taps of 3 x 3 are written out, and each row's element is kept for the next one: 12 sums, 2 vectors of
// weights and 6 pixels are more than 16.
TEST(RegisterPreferences, count_what_rows_read_at_the_taps_of_a_window) {
  const char* const convolution = R"(tile_graph convolution {
  axes r: 64, i: 64, j: 56, s: 3, k: 56, t: 3
  buffers %w: f32[64, 64, 3, 3] in, %x: f32[64, 56, 56] in, %y: f32[64, 56, 56] out
  %0 = load %x[r*3136 + j*56 + s*56 + k + t - 57] if [j + s - 1, 56 - j - s, k + t - 1, 56 - k - t] else 0 : f32[r, j, s, k, t]
  %1 = load %w[r*9 + i*576 + s*3 + t] : f32[r, i, s, t]
  %2 = mul(%0, %1)                    : f32[r, i, j, s, k, t]
  %3 = reduce.sum(%2) over r, s, t    : f32[i, j, k]
  store %3 -> %y[i*3136 + j*56 + k]
}
)";
  const Schedule with_16 = chosen(convolution, "x86-avx2");
  EXPECT_LE(with_16.rows * with_16.unroll + with_16.rows + with_16.unroll, 17);
  EXPECT_GE(with_16.rows * with_16.unroll, 8);
}

// The factors of a channel are the same for both images, which go side by side as columns: eight rows of two
// took 1.9 times as long as four.
TEST(RegisterPreferences, count_the_sums_of_rows_and_columns) {
  const Schedule schedule = chosen(R"(tile_graph scaled_means {
  axes i: 2, j: 256, r: 49
  buffers %x: f32[2, 256, 49] in, %f: f32[256] in, %b: f32[256] in, %m: f32[2, 256] out
  %0 = load %x[i*12544 + j*49 + r] : f32[i, j, r]
  %1 = load %f[j]                  : f32[j]
  %2 = rsqrt(%1)                   : f32[j]
  %3 = mul(%0, %2)                 : f32[i, j, r]
  %4 = load %b[j]                  : f32[j]
  %5 = add(%3, %4)                 : f32[i, j, r]
  %s = reduce.sum(%5) over r       : f32[i, j]
  %n = constant 49                 : f32[]
  %y = div(%s, %n)                 : f32[i, j]
  store %y -> %m[i*256 + j]
}
)",
                                   "x86-zen4");
  EXPECT_EQ(schedule.columns, 2);
  EXPECT_LT(schedule.rows * schedule.columns, 16);
}

// Sine and cosine of rows side by side, whose constants and polynomials do not fit all at once; where they
// are the same for all rows, more rows cost nothing.
TEST(RegisterPreferences, keep_functions_side_by_side_few) {
  const auto table = [](const std::string& rows, const std::string& index) {
    return "tile_graph table {\n  axes " + rows + "p: 128, k: 64\n" +
           R"(  buffers %f: f32[64] in, %c: f32[16, 128, 64] out, %s: f32[16, 128, 64] out
  %i = index p     : i64[p]
  %p = cast(%i)    : f32[p]
  %f = load %f[k]  : f32[k]
  %a = mul(%p, %f) : f32[p, k]
  %c = cos(%a)     : f32[p, k]
  %s = sin(%a)     : f32[p, k]
)" + "  store %c -> %c[" +
           index + "]\n  store %s -> %s[" + index + "]\n}\n";
  };
  const Schedule apart = chosen(table("", "p*64 + k"), "x86-zen4");
  EXPECT_LE(apart.rows * apart.unroll, 2);
  const Schedule shared = chosen(table("h: 16, ", "h*8192 + p*64 + k"), "x86-zen4");
  EXPECT_GE(shared.rows, 4);
}

}  // namespace
}  // namespace tilefuse
