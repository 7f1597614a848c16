// Kernels that read and write elements of two bytes in pairs, the even and the odd ones of two vectors:
// compiled, run, and compared with the interpreter of tile graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

class PairKernelTest : public KernelTest {};

// Even and odd elements apart: lanes stand in another order between loads and stores.
TEST_F(PairKernelTest, reads_bf16_in_pairs) {
  const char* const graph = R"(tile_graph norm_0 {
  axes row: s0, col: s1
  buffers %x: bf16[s0, s1] in, %w: bf16[s1] in, %y: bf16[s0, s1] out, %h: bf16[s0, s1] out
  %0 = load %x[row*s1 + col]             : bf16[row, col]
  %f = cast(%0)                          : f32[row, col]
  %m = reduce.max(%f) over col           : f32[row]
  %d = sub(%f, %m)                       : f32[row, col]
  %e = exp(%d)                           : f32[row, col]
  %s = reduce.sum(%e) over col           : f32[row]
  %w0 = load %w[col]                     : bf16[col]
  %t = div(%e, %s)                       : f32[row, col]
  %q = mul(%t, %w0)                      : f32[row, col]
  %y0 = cast(%q)                         : bf16[row, col]
  %h0 = cast(%d)                         : bf16[row, col]
  store %y0 -> %y[row*s1 + col]
  store %h0 -> %h[row*s1 + col]
}
)";
  for (const char* decisions :
       {"lanes col = 16, unroll 2\n grid row = 1\n walk multi_pass; keep %e\n rows 1\n split 1\n stage none\n"
        " stores cached",
        "lanes col = 16, unroll 4\n grid row = 2\n walk multi_pass\n rows 1\n split 1\n stage none\n stores "
        "cached"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, decisions, {{"s0", 5}, {"s1", 151}});
    EXPECT_THAT(runner_.source(), HasSubstr("load_pair("));
    EXPECT_THAT(runner_.source(), HasSubstr("store_pair("));
  }
}

// Both halves of a pair are kept.
TEST_F(PairKernelTest, keeps_what_it_reads_in_pairs) {
  const char* const graph = R"(tile_graph distance_0 {
  axes row: s0, col: s1
  buffers %x: bf16[s0, s1] in, %y: bf16[s0] out
  %0 = load %x[row*s1 + col]             : bf16[row, col]
  %m = reduce.max(%0) over col           : bf16[row]
  %d = sub(%0, %m)                       : bf16[row, col]
  %s = reduce.sum(%d) over col           : bf16[row]
  store %s -> %y[row]
}
)";
  for (const char* decisions :
       {"lanes col = 16, unroll 2\n grid row = 1\n walk resident; keep %0\n rows 1\n",
        "lanes col = 16, unroll 4\n grid row = 2\n walk resident; keep %0\n rows 2\n"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, std::string(decisions) + " split 1\n stage none\n stores cached",
                {{"s0", 5}, {"s1", 151}});
    EXPECT_THAT(runner_.source(), HasSubstr("load_pair("));
  }
}

// Elements of other sizes are sorted; positions and conditions follow the order of the lanes.
TEST_F(PairKernelTest, reads_other_elements_beside_pairs) {
  const char* const graph = R"(tile_graph attend_0 {
  axes row: s0, col: s1
  buffers %x: bf16[s0, s1] in, %m: bool[s0, s1] in, %y: bf16[s0, s1] out, %z: bf16[s0, s1] out,
          %h: f32[s0, s1] out, %at: i64[s0] out
  %0 = load %x[row*s1 + col]             : bf16[row, col]
  %1 = load %m[row*s1 + col]             : bool[row, col]
  %f = cast(%0)                          : f32[row, col]
  %p = inside [7*row - col + 30]         : bool[row, col]
  %q = inside [col - row - 5]            : bool[row, col]
  %b = and(%p, %q)                       : bool[row, col]
  %o = or(%b, %1)                        : bool[row, col]
  %c = constant -3                       : f32[]
  %d = where(%o, %f, %c)                 : f32[row, col]
  %i = index 2*col + row                 : i64[row, col]
  %j = cast(%i)                          : f32[row, col]
  %e = add(%d, %j)                       : f32[row, col]
  %t = reduce.argmax(%d) over col        : i64[row]
  %y0 = cast(%e)                         : bf16[row, col]
  %z0 = cast(%d)                         : bf16[row, col]
  store %y0 -> %y[row*s1 + col]
  store %z0 -> %z[row*s1 + col]
  store %d -> %h[row*s1 + col]
  store %t -> %at[row]
}
)";
  for (const char* decisions :
       {"lanes col = 16, unroll 2\n grid row = 1\n walk multi_pass\n rows 1\n split 1\n stage none\n stores "
        "cached",
        "lanes col = 8, unroll 4\n grid row = 1\n walk multi_pass\n rows 1\n split 1\n stage none\n stores "
        "cached"}) {
    SCOPED_TRACE(decisions);
    expect_same(graph, decisions, {{"s0", 9}, {"s1", 150}});
    EXPECT_THAT(runner_.source(), HasSubstr("load_pair("));
  }
}

// Rows that are there only for some tasks, where a task has one row and no loop settles which.
TEST_F(PairKernelTest, reads_only_rows_that_are_there) {
  const char* const padded = R"(tile_graph padded_0 {
  axes i: 20, j: 70
  buffers %x: bf16[16, 70] in, %y: bf16[20, 70] out
  %0 = load %x[i*70 + j - 140] if [i - 2, 17 - i] else 3 : bf16[i, j]
  %1 = neg(%0)                                           : bf16[i, j]
  store %1 -> %y[i*70 + j]
}
)";
  for (const char* decisions :
       {"lanes j = 16, unroll 2\n grid i = 1, j = all", "lanes j = 8, unroll 4\n grid i = 1, j = 32",
        "lanes j = 16, unroll 2\n grid i = all, j = all"}) {
    SCOPED_TRACE(decisions);
    expect_same(padded,
                std::string(decisions) + "\n walk none\n rows 1\n split 1\n stage none\n stores cached", {});
    EXPECT_THAT(runner_.source(), HasSubstr("load_pair("));
  }
}

// A pool of 2 x 2 beside what it pools: two steps of a window go between the lanes of a vector of windows.
TEST_F(PairKernelTest, stores_windows_of_two_together) {
  const auto pool = [](const std::string& dtype, const std::string& kind, int windows) {
    const std::string k = std::to_string(windows), row = std::to_string(2 * windows),
                      image = std::to_string(12 * windows);
    return "tile_graph pool_0 {\n  axes i: 3, j: 3, r: 2, k: " + k + ", s: 2\n  buffers %x: " + dtype +
           "[3, 6, " + row + "] in, %y: " + dtype + "[3, 6, " + row + "] out, %z: " + dtype + "[3, 3, " + k +
           "] out\n  %0 = load %x[i*" + image + " + j*" + std::to_string(4 * windows) + " + r*" + row +
           " + k*2 + s] : " + dtype + "[i, j, r, k, s]\n  %1 = neg(%0) : " + dtype +
           "[i, j, r, k, s]\n  %2 = reduce." + kind + "(%1) over r, s : " + dtype +
           "[i, j, k]\n  store %1 -> %y[i*" + image + " + j*" + std::to_string(4 * windows) + " + r*" + row +
           " + k*2 + s]\n  store %2 -> %z[i*" + std::to_string(3 * windows) + " + j*" + k + " + k]\n}\n";
  };
  for (const char* dtype : {"f32", "bf16", "i64"}) {
    for (const auto& [kind, windows] : {std::pair("max", 21), std::pair("sum", 16), std::pair("max", 3)}) {
      for (const char* lanes : {"k = 16", "k = 8, unroll 2", "k = 4", "j = 4"}) {
        for (const char* rows : {"1", "2"}) {
          SCOPED_TRACE(std::string(dtype) + " " + kind + " " + lanes + " rows " + rows);
          expect_same(pool(dtype, kind, windows),
                      std::string("lanes ") + lanes +
                          "\n grid i = all, j = all, k = all\n walk multi_pass\n" + " rows " + rows +
                          "\n split 1\n stage none\n stores cached",
                      {});
          const bool in_pairs = lanes[0] == 'k';
          EXPECT_EQ(runner_.source().find("store_pair(") != std::string::npos, in_pairs);
        }
      }
    }
  }
}

// A rotation of neighbours, as rotary embeddings of some models have it: both rows of two go between the
// lanes, and each is the half of the condition that it is in.
TEST_F(PairKernelTest, stores_rows_of_two_together) {
  const char* const rotation = R"(tile_graph rotate_0 {
  axes i: 5, k: 21, l: 2
  buffers %x: f32[5, 42] in, %c: f32[5, 21] in, %s: f32[5, 21] in, %y: f32[5, 42] out
  %x0    = load %x[i*42 + k*2 + l]   : f32[i, k, l]
  %x1    = load %x[i*42 + k*2 + 1]   : f32[i, k]
  %x2    = load %x[i*42 + k*2]       : f32[i, k]
  %neg   = neg(%x1)                  : f32[i, k]
  %first = inside [-l]               : bool[l]
  %turn  = where(%first, %neg, %x2)  : f32[i, k, l]
  %c0    = load %c[i*21 + k]         : f32[i, k]
  %s0    = load %s[i*21 + k]         : f32[i, k]
  %a     = mul(%x0, %c0)             : f32[i, k, l]
  %b     = mul(%turn, %s0)           : f32[i, k, l]
  %r     = add(%a, %b)               : f32[i, k, l]
  store %r -> %y[i*42 + k*2 + l]
}
)";
  for (const char* lanes : {"k = 16", "k = 8, unroll 2", "k = 4, unroll 4"}) {
    SCOPED_TRACE(lanes);
    expect_same(
        rotation,
        std::string("lanes ") + lanes +
            "\n grid i = 2, k = all, l = all\n walk none\n rows 2\n split 1\n stage none\n stores cached",
        {});
    EXPECT_THAT(runner_.source(), HasSubstr("store_pair("));
    EXPECT_THAT(runner_.source(), testing::Not(HasSubstr("store_strided(")));
  }
}

}  // namespace
}  // namespace tilefuse
