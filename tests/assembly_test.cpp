// What the compiler makes of a kernel: the innermost loop of a product leaves its block in registers, a few
// lanes under a guard are one load, floats become bf16 in as few instructions as can be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "codegen/module.h"
#include "codegen/process.h"
#include "codegen/temporary_folder.h"
#include "codegen/toolchain.h"
#include "fusion/target.h"
#include "tools/stages.h"

namespace tilefuse {
namespace {

constexpr const char* kTarget = "x86-zen4";
constexpr const char* kTuning = "-mtune=znver3";  // what GCC 12 tunes for on a Zen 4 or Zen 5

// Blocks of 8 x 32 sums beside what the epilogue and the packing hold in registers.
constexpr const char* kQuantisedLinear = R"(tile_graph linear_quantise {
  axes i: 128, j: 1024, r: 512
  buffers %w: f32[1024, 512] in, %x: f32[128, 512] in, %b: f32[1024] in, %q: i8[128, 1024] out
  %x0  = load %x[i*512 + r] : f32[i, r]
  %w0  = load %w[j*512 + r] : f32[j, r]
  %mul = mul(%x0, %w0)      : f32[i, j, r]
  %sum = reduce.sum(%mul) over r : f32[i, j]
  %b0  = load %b[j]         : f32[j]
  %y   = add(%sum, %b0)     : f32[i, j]
  %c   = constant 20        : f32[]
  %m   = mul(%y, %c)        : f32[i, j]
  %r   = round(%m)          : f32[i, j]
  %lo  = constant -128      : f32[]
  %max = max(%r, %lo)       : f32[i, j]
  %hi  = constant 127       : f32[]
  %min = min(%max, %hi)     : f32[i, j]
  %q0  = cast(%min)         : i8[i, j]
  store %q0 -> %q[i*1024 + j]
}
schedule linear_quantise for x86-zen4 {
  lanes    j = 16, unroll 2
  grid     i = all, j = 128
  walk     multi_pass
  rows     8
  split    1
  stage    %w0 along r
  stores   cached
}
)";

// The gradient of a depthwise convolution's weights, lanes along its three taps.
constexpr const char* kWindowGradient = R"(tile_graph window_gradient {
  axes i: 144, r: 28, s: 28, k: 3
  buffers %g: f32[144, 28, 28] in, %x: f32[144, 28, 56] in, %w: f32[144, 3] out
  %x0  = load %x[i*1568 + r*56 + s*2 + k - 1] if [s*2 + k - 1] else 0 : f32[i, r, s, k]
  %g0  = load %g[i*784 + r*28 + s]     : f32[i, r, s]
  %mul = mul(%x0, %g0)                 : f32[i, r, s, k]
  %sum = reduce.sum(%mul) over r, s    : f32[i, k]
  store %sum -> %w[i*3 + k]
}
schedule window_gradient for x86-zen4 {
  lanes    k = 4
  grid     i = all, k = all
  walk     multi_pass
  rows     1
  split    1
  stage    none
  stores   cached
}
)";

constexpr const char* kDequantise = R"(tile_graph dequantise {
  axes i: 256, j: 1024
  buffers %q: i8[256, 1024] in, %s: bf16[256, 1] in, %o: bf16[256, 1024] out
  %0 = load %q[i*1024 + j] : i8[i, j]
  %1 = cast(%0)            : bf16[i, j]
  %2 = load %s[i]          : bf16[i]
  %3 = mul(%1, %2)         : bf16[i, j]
  store %3 -> %o[i*1024 + j]
}
schedule dequantise for x86-ice-lake {
  lanes    j = 16, unroll 4
  grid     i = all, j = all
  walk     none
  rows     1
  split    1
  stage    none
  stores   cached
}
)";

std::string assembly_of(const std::string& source, const char* target = kTarget) {
  KernelCache none("", 0);
  const Result<Toolchain> toolchain = find_toolchain({}, none);
  if (!toolchain) throw std::runtime_error(toolchain.unsupported().reason);
  const TemporaryFolder folder;
  const std::string text = folder.file("kernel.cpp"), assembly = folder.file("kernel.s");
  EXPECT_TRUE(write_file(text, complete_source(source)));
  std::vector<std::string> command = toolchain->command;
  for (const std::string& flag : compile_flags(*toolchain, false, load_target(target).instructions)) {
    if (flag != "-shared") command.push_back(flag);
  }
  command.insert(command.end(), {kTuning, "-S", "-o", assembly, text});
  const ProcessResult run = run_process(command, std::chrono::seconds(60));
  EXPECT_TRUE(run.succeeded()) << run.output;
  std::ifstream file(assembly);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The lines from a label to the jump back to it, where no other such jump lies between.
std::vector<std::vector<std::string>> innermost_loops(const std::string& assembly) {
  static const std::regex kLabel(R"(^(\.L\w+):.*)"), kJump(R"(^\s+j\w+\s+(\.L\w+).*)");
  std::vector<std::string> lines;
  std::map<std::string, size_t> labels;
  std::vector<std::vector<std::string>> loops;
  size_t after_last = 0;  // of the jumps back
  std::istringstream text(assembly);
  for (std::string line; std::getline(text, line);) {
    std::smatch found;
    if (std::regex_match(line, found, kLabel)) labels[found[1]] = lines.size();
    lines.push_back(line);
    if (!std::regex_match(line, found, kJump) || !labels.contains(found[1])) continue;
    const size_t start = labels[found[1]];
    if (start >= after_last) {
      loops.emplace_back(lines.begin() + static_cast<std::ptrdiff_t>(start), lines.end());
    }
    after_last = lines.size();
  }
  return loops;
}

size_t count(const std::vector<std::string>& lines, const std::regex& what) {
  return static_cast<size_t>(std::count_if(
      lines.begin(), lines.end(), [&](const std::string& line) { return std::regex_search(line, what); }));
}

TEST(Assembly, the_innermost_loop_of_a_product_leaves_its_block_in_registers) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the names of instructions and registers are x86's";
#endif
  static const std::regex kFma("vfmadd"), kStack(R"([yz]mm.*\(%r[sb]p\)|\(%r[sb]p\).*[yz]mm)");
  size_t blocks = 0;
  for (const auto& loop : innermost_loops(assembly_of(run_stage("source", {}, kQuantisedLinear)))) {
    if (count(loop, kFma) < 16) continue;
    ++blocks;
    EXPECT_EQ(count(loop, kStack), 0U) << testing::PrintToString(loop);
  }
  EXPECT_EQ(blocks, 1U);
}

// Lanes that went through an array one by one and were loaded as a whole took thirteen times as long.
TEST(Assembly, a_few_lanes_under_a_guard_are_one_load) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the names of instructions and registers are x86's";
#endif
  static const std::regex kMasked(R"(vmaskmov|vmovup.*\{z\})"), kFma("vfmadd"),
      kByte(R"(\s(movb|cmpb|testb|movzb))");
  size_t walks = 0;
  for (const auto& loop : innermost_loops(assembly_of(run_stage("source", {}, kWindowGradient)))) {
    if (count(loop, kFma) == 0) continue;
    ++walks;
    EXPECT_GE(count(loop, kMasked), 1U) << testing::PrintToString(loop);
    EXPECT_EQ(count(loop, kByte), 0U) << testing::PrintToString(loop);
  }
  EXPECT_GE(walks, 1U);
}

// Bytes are exact in bf16, so each vector is rounded once: as it is stored, NaN mended in one instruction.
TEST(Assembly, a_processor_without_bf16_rounds_each_stored_vector_once) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the names of instructions and registers are x86's";
#endif
  static const std::regex kByte("vpmovsxbd"), kNan("vfixupimmps"), kOdd("vptestn?md"), kPick("vpermw"),
      kOther("vpsrld|vpmovdw|vcmp");
  size_t walks = 0;
  const std::string source = run_stage("source", {}, kDequantise);
  for (const auto& loop : innermost_loops(assembly_of(source, "x86-ice-lake"))) {
    const size_t vectors = count(loop, kByte);
    if (vectors == 0) continue;
    ++walks;
    for (const auto& once : {kNan, kOdd, kPick}) {
      EXPECT_EQ(count(loop, once), vectors) << testing::PrintToString(loop);
    }
    EXPECT_EQ(count(loop, kOther), 0U) << testing::PrintToString(loop);
  }
  EXPECT_EQ(walks, 1U);
}

}  // namespace
}  // namespace tilefuse
