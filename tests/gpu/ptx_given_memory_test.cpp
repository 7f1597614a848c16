// Shared memory that a launch gives, in the model of a GPU: how much a launch may give, and the bugs of
// ptx_test.cpp planted in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// 64 threads hand a number each to a neighbour, through what is given: %r3 is the place of the thread's own,
// of four bytes; `body` has to leave the number in %r4. 20 bytes are declared beside it.
std::string kernel(const std::string& body, const std::string& target = "sm_80",
                   const std::string& declared = ".extern .shared .align 128 .b8 given[];") {
  return ".version 9.0\n.target " + target + "\n.address_size 64\n" + declared + R"(
.visible .entry k(
  .param .u64 k_param_0,
  .param .u64 k_param_1
)
{
  .reg .b32 %r<16>;
  .shared .align 4 .b8 parts[20];
  ld.param.u64 %rd1, [k_param_0];
  ld.param.u64 %rd2, [k_param_1];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  cvt.u64.u32 %rd3, %r2;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r9, given;
  add.s32 %r3, %r9, %r2;
  xor.b32 %r7, %r3, 4;
  ld.global.u32 %r4, [%rd4];
)" + body +
         R"(
  st.global.u32 [%rd5], %r4;
  ret;
}
)";
}

std::string fault_of(const std::string& ptx, int64_t given, int64_t most) {
  std::vector<GpuBuffer> buffers(2);
  buffers[0].bytes.assign(256, 7);
  buffers[1].bytes.resize(256);
  buffers[1].is_output = true;
  const GpuGrid grid{.blocks = 1, .threads = 64, .shared_bytes = given, .most_shared_bytes = most};
  try {
    run_ptx(parse_ptx(ptx), grid, std::move(buffers), {});
  } catch (const std::exception& fault) {
    return fault.what();
  }
  return "no fault";
}

const std::string kHandOver = "st.shared.u32 [%r3], %r4;\nbar.sync 0;\nld.shared.u32 %r4, [%r7];";

TEST(PtxGivenMemory, begins_behind_what_is_declared_at_a_multiple_of_its_alignment) {
  const PtxProgram program = parse_ptx(kernel(kHandOver));
  EXPECT_EQ(program.shared_bytes, 20);
  EXPECT_EQ(program.given_at, 128);
  EXPECT_EQ(fault_of(kernel(kHandOver), 256, 0), "no fault");
}

struct Planted {
  const char* name;
  std::string body;
  int64_t given, most;
  const char* report;
  const char* target = "sm_80";
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }
class PlantedInGivenMemory : public testing::TestWithParam<Planted> {};

TEST_P(PlantedInGivenMemory, is_found) {
  const Planted& planted = GetParam();
  EXPECT_THAT(fault_of(kernel(planted.body, planted.target), planted.given, planted.most),
              HasSubstr(planted.report));
}

const Planted kPlanted[] = {
    {"nothing_given", kHandOver, 0, 0, "outside the shared memory: byte 128 of 128"},
    {"too_little_given", kHandOver, 252, 0, "outside the shared memory: byte 380 of 380"},
    {"behind_what_is_given", "st.shared.u32 [%r3+4], %r4;", 256, 0, "outside the shared memory"},
    {"that_nobody_wrote", "ld.shared.u32 %r4, [%r3];", 256, 0, "reads shared memory that nobody wrote"},
    {"read_without_a_barrier", "st.shared.u32 [%r3], %r4;\nld.shared.u32 %r4, [%r7];", 256, 0,
     "race: a thread reads"},
    {"two_threads_write_one_place", "st.shared.u32 [%r9], %r4;", 256, 0, "race: two threads write"},
    {"more_than_48_KiB_without_asking", kHandOver, 48 << 10, 0,
     "gives 49152 bytes of shared memory, and the function was set to take 0"},
    {"more_than_was_asked_for", kHandOver, 65536, 65532, "the function was set to take 65532"},
    {"as_much_as_there_is", kHandOver, (163 << 10) - 128, 163 << 10, "no fault"},
    {"more_than_there_is", kHandOver, (163 << 10) - 124, 163 << 10,
     "166916 in all, and a block of sm_80 has at most 166912"},
    {"more_than_a_smaller_device_has", kHandOver, 100 << 10, 163 << 10, "a block of sm_89 has at most 101376",
     "sm_89"},
    {"device_that_is_not_known", kHandOver, 65536, 65536, "no device of sm_10 is known", "sm_10"},
};
INSTANTIATE_TEST_SUITE_P(Ptx, PlantedInGivenMemory, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PtxGivenMemory, is_not_given_to_a_kernel_that_has_no_name_for_it) {
  EXPECT_THAT(fault_of(kernel("mov.u32 %r3, parts;", "sm_80", ".global .align 4 .u32 given;"), 256, 0),
              HasSubstr("not understood: .global"));
  std::string ptx = kernel("", "sm_80", "");
  ptx.replace(ptx.find("mov.u32 %r9, given;"), 19, "mov.u32 %r9, parts;");
  EXPECT_THAT(fault_of(ptx, 256, 0), HasSubstr("256 bytes of shared memory that the kernel has no name for"));
  EXPECT_EQ(fault_of(ptx, 0, 0), "no fault");
}

}  // namespace
}  // namespace tilefuse
