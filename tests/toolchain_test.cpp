// Finding compilers, compiling, loading, and what happens when any of it fails.
#include "codegen/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>

#include "codegen/cpu_features.h"
#include "codegen/joined_sources.h"
#include "codegen/module.h"
#include "codegen/process.h"
#include "codegen/runtime/cpu_runtime.h"
#include "codegen/temporary_folder.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
constexpr int64_t kLimit = int64_t{1} << 30;
constexpr auto kSecond = std::chrono::seconds(1);

constexpr const char* kAddSource = R"(#define TILEFUSE_LANES 16
#include "tilefuse_cpu.h"
extern "C" void add_one(const void* const* buffers, const int64_t* sizes, int64_t first, int64_t last, void*) {
  for (int64_t i = first * kLanes; i < last * kLanes; i += kLanes) {
    store((float*)buffers[1] + i, load((const float*)buffers[0] + i, sizes[0] - i) + splat<float>(1), sizes[0] - i);
  }
}
)";

class ToolchainTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "tilefuse-toolchain-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    // Temporary files of our own, so that those of other processes do not count.
    fs::create_directory(root_ / "temporary");
    const char* before = getenv("TMPDIR");
    if (before != nullptr) temporary_before_ = before;
    setenv("TMPDIR", (root_ / "temporary").c_str(), 1);
  }
  void TearDown() override {
    if (temporary_before_.empty()) {
      unsetenv("TMPDIR");
    } else {
      setenv("TMPDIR", temporary_before_.c_str(), 1);
    }
    fs::remove_all(root_);
  }

  KernelCache cache() const { return {(root_ / "cache").string(), kLimit}; }
  // A program of our own that the toolchain will call.
  std::string script(const std::string& name, const std::string& body) const {
    const fs::path path = root_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  static Toolchain found(KernelCache& cache) {
    Result<Toolchain> toolchain = find_toolchain({}, cache);
    EXPECT_TRUE(toolchain);
    return *toolchain;
  }
  static std::vector<float> run_add_one(const Module& module, std::vector<float> values) {
    using Kernel = void (*)(const void* const*, const int64_t*, int64_t, int64_t, void*);
    auto* kernel = reinterpret_cast<Kernel>(module.symbol("add_one"));
    EXPECT_NE(kernel, nullptr);
    std::vector<float> results(values.size(), -1);
    const void* buffers[] = {values.data(), results.data()};
    const auto size = static_cast<int64_t>(values.size());
    kernel(buffers, &size, 0, (size + 15) / 16, nullptr);
    return results;
  }
  bool left_nothing_behind() const { return fs::is_empty(root_ / "temporary"); }

  fs::path root_;
  std::string temporary_before_;
};

// ------------------------------------------------------------------ processes
TEST(Process, gives_output_and_status) {
  const ProcessResult run = run_process({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, 10 * kSecond);
  EXPECT_EQ(run.output, "out\nerr\n");
  EXPECT_EQ(run.code, 3);
  EXPECT_FALSE(run.succeeded());
  EXPECT_EQ(to_text(run, kSecond), "exited with status 3");
}
TEST(Process, passes_arguments_without_a_shell) {
  EXPECT_EQ(run_process({"/bin/echo", "a  b", "$HOME", ";", "'"}, 10 * kSecond).output, "a  b $HOME ; '\n");
}
TEST(Process, says_when_a_program_does_not_exist) {
  const ProcessResult run = run_process({"/nowhere/compiler"}, kSecond);
  EXPECT_EQ(run.end, ProcessResult::End::NotStarted);
  EXPECT_EQ(to_text(run, kSecond), "cannot be started: No such file or directory");
}
TEST(Process, kills_a_program_and_its_children_at_the_deadline) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult run = run_process({"/bin/sh", "-c", "sleep 60 & echo $!; wait"}, kSecond);
  EXPECT_EQ(run.end, ProcessResult::End::TimedOut);
  EXPECT_EQ(to_text(run, kSecond), "took longer than 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20 * kSecond);
  const auto sleeper = static_cast<pid_t>(std::stol(run.output));
  for (int i = 0; i < 100 && kill(sleeper, 0) == 0; ++i) {
    // An orphan that nobody reaps stays as a zombie.
    std::ifstream status("/proc/" + std::to_string(sleeper) + "/stat");
    std::string text((std::istreambuf_iterator<char>(status)), {});
    if (text.find(") Z") != std::string::npos) return;
    usleep(20000);
  }
  EXPECT_NE(kill(sleeper, 0), 0);
}
TEST(Process, tells_of_a_signal) {
  const ProcessResult run = run_process({"/bin/sh", "-c", "kill -SEGV $$"}, 10 * kSecond);
  EXPECT_EQ(to_text(run, kSecond), "was killed by signal 11");
}

// ------------------------------------------------------------------ finding
TEST_F(ToolchainTest, takes_the_first_compiler_that_answers) {
  fs::create_directory(root_ / "bin");
  script("bin/c++", "exit 1");
  const std::string second = script("bin/g++", "echo 'g++ 99.1'");
  script("bin/clang++", "echo 'clang version 99'");
  KernelCache none("", 0);
  const Result<Toolchain> toolchain =
      find_toolchain({.cxx = "", .search_path = (root_ / "bin").string(), .python = ""}, none);
  ASSERT_TRUE(toolchain);
  EXPECT_EQ(toolchain->command, std::vector<std::string>{second});
  EXPECT_EQ(toolchain->version, "g++ 99.1");
  EXPECT_FALSE(toolchain->is_clang);
}
TEST_F(ToolchainTest, falls_back_to_the_wheel_of_the_given_python) {
  const std::string python =
      script("python", "[ \"$*\" = '-m ziglang c++ --version' ] && echo 'clang version 20 (zig)'");
  KernelCache none("", 0);
  const Result<Toolchain> toolchain =
      find_toolchain({.cxx = "", .search_path = "/nowhere", .python = python}, none);
  ASSERT_TRUE(toolchain);
  EXPECT_EQ(toolchain->command, (std::vector<std::string>{python, "-m", "ziglang", "c++"}));
  EXPECT_TRUE(toolchain->is_clang);
}
TEST_F(ToolchainTest, says_what_it_looked_for_when_there_is_no_compiler) {
  KernelCache none("", 0);
  const Result<Toolchain> toolchain =
      find_toolchain({.cxx = "", .search_path = "/nowhere", .python = ""}, none);
  ASSERT_FALSE(toolchain);
  EXPECT_EQ(toolchain.unsupported().reason,
            "cannot compile kernels: found no C++ compiler (c++, g++, clang++, or the ziglang wheel)");
}
TEST_F(ToolchainTest, uses_no_other_compiler_than_the_one_asked_for) {
  KernelCache none("", 0);
  const Result<Toolchain> missing =
      find_toolchain({.cxx = "/nowhere/c++", .search_path = "", .python = ""}, none);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.unsupported().reason, "cannot use the compiler '/nowhere/c++': there is no such program");
  const Result<Toolchain> failing =
      find_toolchain({.cxx = "/bin/false", .search_path = "", .python = ""}, none);
  ASSERT_FALSE(failing);
  EXPECT_EQ(failing.unsupported().reason,
            "cannot use the compiler '/bin/false': /bin/false --version exited with status 1");
}
TEST_F(ToolchainTest, asks_for_the_version_once_and_again_when_the_program_changes) {
  const std::string log = (root_ / "log").string();
  const auto questions = [&] {
    std::ifstream file(log);
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  const std::string cxx = script("cxx", "echo asked >> " + log + "; echo version 1");
  KernelCache kept = cache();
  const std::string first = find_toolchain({.cxx = cxx, .search_path = "", .python = ""}, kept)->identity;
  EXPECT_EQ(find_toolchain({.cxx = cxx, .search_path = "", .python = ""}, kept)->identity, first);
  EXPECT_EQ(questions(), 1);
  script("cxx", "echo asked >> " + log + "; echo version 2 of it");
  EXPECT_NE(find_toolchain({.cxx = cxx, .search_path = "", .python = ""}, kept)->identity, first);
  EXPECT_EQ(questions(), 2);
}
TEST_F(ToolchainTest, identity_names_the_processor) {
  KernelCache kept = cache();
  EXPECT_THAT(found(kept).identity, HasSubstr(cpu_features()));
  EXPECT_GT(cpu_features().size(), 10U);
}

// ------------------------------------------------------------------ building
TEST_F(ToolchainTest, builds_a_kernel_that_runs) {
  KernelCache kept = cache();
  const Toolchain toolchain = found(kept);
  const Result<Module> module = build(kAddSource, toolchain, {}, kept);
  ASSERT_TRUE(module) << module.unsupported().reason;
  EXPECT_FALSE(module->from_cache());
  EXPECT_EQ(module->symbol("no_such_kernel"), nullptr);
  EXPECT_EQ(run_add_one(*module, std::vector<float>(21, 4.0F)), std::vector<float>(21, 5.0F));
}
TEST_F(ToolchainTest, a_second_process_compiles_nothing) {
  const std::string log = (root_ / "log").string();
  KernelCache none("", 0);
  const std::string real = found(none).command.front();
  const std::string cxx = script("cxx", "echo called >> " + log + "; exec " + real + " \"$@\"");
  const auto child = [&](int expected_calls) {
    const pid_t pid = fork();
    if (pid == 0) {
      KernelCache kept = cache();
      const Result<Toolchain> toolchain = find_toolchain({.cxx = cxx, .search_path = "", .python = ""}, kept);
      const Result<Module> module = build(kAddSource, *toolchain, {}, kept);
      std::ifstream file(log);
      const auto calls = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
      _exit(module && calls == expected_calls && run_add_one(*module, {1})[0] == 2.0F ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(child(2), 0) << "version and compilation";
  EXPECT_EQ(child(2), 0) << "neither again";
}
TEST_F(ToolchainTest, two_processes_build_the_same_kernel_at_once) {
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      KernelCache kept = cache();
      const Result<Module> module = build(kAddSource, found(kept), {}, kept);
      _exit(module && run_add_one(*module, {1})[0] == 2.0F ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  KernelCache kept = cache();
  EXPECT_TRUE(build(kAddSource, found(kept), {}, kept)->from_cache());
}
TEST_F(ToolchainTest, a_corrupt_entry_is_built_again) {
  KernelCache kept = cache();
  const Toolchain toolchain = found(kept);
  ASSERT_TRUE(build(kAddSource, toolchain, {}, kept));
  for (const auto& entry : fs::directory_iterator(kept.directory())) {
    std::ofstream(entry.path(), std::ios::binary | std::ios::in) << "damaged";
  }
  const Result<Module> again = build(kAddSource, toolchain, {}, kept);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->from_cache());
  EXPECT_EQ(run_add_one(*again, {1}), std::vector<float>{2});
  EXPECT_TRUE(build(kAddSource, toolchain, {}, kept)->from_cache());
}
TEST_F(ToolchainTest, builds_without_a_cache) {
  KernelCache none("", 0);
  const Toolchain toolchain = found(none);
  const Result<Module> module = build(kAddSource, toolchain, {}, none);
  ASSERT_TRUE(module);
  EXPECT_EQ(run_add_one(*module, {1}), std::vector<float>{2});
  EXPECT_TRUE(left_nothing_behind());
}
TEST_F(ToolchainTest, flags_and_compiler_are_part_of_the_key) {
  KernelCache kept = cache();
  Toolchain toolchain = found(kept);
  ASSERT_TRUE(build(kAddSource, toolchain, {}, kept));
  EXPECT_FALSE(build(kAddSource, toolchain, {.eager_numerics = true}, kept)->from_cache());
  toolchain.identity += " on another processor";
  EXPECT_FALSE(build(kAddSource, toolchain, {}, kept)->from_cache());
}
TEST_F(ToolchainTest, a_source_with_an_error_is_a_refusal_with_the_compilers_words) {
  KernelCache kept = cache();
  const Result<Module> module = build("int f() { return missing_name; }", found(kept), {}, kept);
  ASSERT_FALSE(module);
  EXPECT_THAT(module.unsupported().reason, HasSubstr("exited with status 1"));
  EXPECT_THAT(module.unsupported().reason, HasSubstr("missing_name"));
  EXPECT_TRUE(left_nothing_behind());
}
TEST_F(ToolchainTest, a_compiler_that_fails_hangs_or_writes_nonsense_is_a_refusal) {
  const auto reason = [&](const std::string& body) {
    KernelCache none("", 0);
    const std::string cxx = script("cxx", "[ \"$1\" = --version ] && echo version && exit\n" + body);
    const Result<Toolchain> toolchain = find_toolchain({.cxx = cxx, .search_path = "", .python = ""}, none);
    const Result<Module> module =
        build(kAddSource, *toolchain, {.eager_numerics = false, .limit = kSecond}, none);
    return module ? std::string() : module.unsupported().reason;
  };
  EXPECT_THAT(reason("exit 7"), HasSubstr("exited with status 7"));
  EXPECT_THAT(reason("sleep 60"), HasSubstr("took longer than 1 s"));
  EXPECT_THAT(reason("kill -9 $$"), HasSubstr("was killed by signal 9"));
  EXPECT_THAT(reason("exit 0"), HasSubstr("cannot load a kernel"));
  EXPECT_THAT(reason("while [ \"$1\" != -o ]; do shift; done; echo nonsense > $2"),
              HasSubstr("cannot load a kernel"));
  EXPECT_TRUE(left_nothing_behind());
}
TEST_F(ToolchainTest, a_compiler_that_crashes_is_asked_again_for_fewer_optimisations) {
  for (const std::string flag : {"-fno-tree-vectorize", "-fno-tree-pre"}) {
    KernelCache none("", 0);
    const std::string cxx =
        script("cxx", "[ \"$1\" = --version ] && echo version && exit\ncase \"$*\" in *" + flag +
                          "*) exec c++ \"$@\";; esac\necho internal compiler error; exit 1");
    const Result<Toolchain> toolchain = find_toolchain({.cxx = cxx, .search_path = "", .python = ""}, none);
    EXPECT_TRUE(build(kAddSource, *toolchain, {}, none)) << flag;
  }
}
TEST_F(ToolchainTest, a_compiler_that_hangs_is_waited_for_once) {
  KernelCache none("", 0);
  const std::string cxx = script("cxx", "[ \"$1\" = --version ] && echo version && exit\nsleep 60");
  const Result<Toolchain> toolchain = find_toolchain({.cxx = cxx, .search_path = "", .python = ""}, none);
  const auto start = std::chrono::steady_clock::now();
  const BuildOptions options{.eager_numerics = false, .limit = kSecond};
  const auto modules = build_all({kAddSource, kAddSource, kAddSource, kAddSource}, *toolchain, options, none,
                                 /*jobs=*/1, /*progress=*/{});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3 * kSecond);
  ASSERT_EQ(modules.size(), 4U);
  EXPECT_THAT(modules.front().unsupported().reason, HasSubstr("took longer than 1 s"));
  EXPECT_THAT(modules.back().unsupported().reason, HasSubstr("took too long for another"));
}
TEST_F(ToolchainTest, builds_many_in_parallel_in_their_order_and_reports_each) {
  std::vector<std::string> sources;
  for (int i = 0; i < 5; ++i)
    sources.push_back("extern \"C\" int value() { return " + std::to_string(i) + "; }");
  sources[3] = "this is not C++";
  KernelCache kept = cache();
  std::vector<int> reports;
  const auto modules = build_all(sources, found(kept), {}, kept, 2, [&](int done, int total) {
    EXPECT_EQ(total, 5);
    reports.push_back(done);
  });
  EXPECT_EQ(reports, (std::vector<int>{1, 2, 3, 4, 5}));
  ASSERT_EQ(modules.size(), 5U);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(static_cast<bool>(modules[i]), i != 3);
    if (modules[i]) {
      EXPECT_EQ(reinterpret_cast<int (*)()>(modules[i]->symbol("value"))(), i);
    }
  }
  EXPECT_TRUE(build_all({}, found(kept), {}, kept, 2).empty());
}
// Compiled at once, the same names in all of them; one that does not compile costs the others nothing.
TEST_F(ToolchainTest, builds_kernels_together_and_finds_each_of_them_again) {
  const auto value = [](int lanes, int number) {
    return "#define TILEFUSE_LANES " + std::to_string(lanes) + "\n#include \"tilefuse_cpu.h\"\n" +
           "extern \"C\" float value(const float* x) {\n  return x[" + std::to_string(number) + "];\n}\n";
  };
  std::vector<std::string> sources;
  for (int i = 0; i < 7; ++i) sources.push_back(value(i == 5 ? 8 : 16, i));
  const float numbers[] = {10, 11, 12, 13, 14, 15, 16};
  const auto expect_all = [&](const std::vector<Result<Module>>& modules, bool from_cache) {
    ASSERT_EQ(modules.size(), sources.size());
    for (size_t i = 0; i < 7; ++i) {
      ASSERT_TRUE(modules[i]) << modules[i].unsupported().reason;
      EXPECT_EQ(modules[i]->from_cache(), from_cache);
      EXPECT_EQ(reinterpret_cast<float (*)(const float*)>(modules[i]->symbol("value"))(numbers), numbers[i]);
    }
  };
  const BuildOptions together{.together = true};
  KernelCache kept = cache();
  expect_all(build_all(sources, found(kept), together, kept, 1), false);
  expect_all(build_all(sources, found(kept), together, kept, 1), true);
  const Result<Module> third = build(sources[2], found(kept), {}, kept);
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->from_cache());
  EXPECT_TRUE(build_object(sources[2], found(kept), {}, kept));

  KernelCache none("", 0);
  sources.push_back("#define TILEFUSE_LANES 16\n#include \"tilefuse_cpu.h\"\nthis is not C++\n");
  const auto modules = build_all(sources, found(none), together, none, 2);
  for (size_t i = 0; i < 7; ++i) EXPECT_TRUE(modules[i]);
  EXPECT_THAT(modules[7].unsupported().reason, HasSubstr("cannot compile a kernel"));
}
TEST(JoinedSources, holds_every_source_once_with_others_that_begin_alike) {
  std::vector<std::string> sources;
  for (int i = 0; i < 30; ++i) {
    sources.push_back("#define TILEFUSE_LANES " + std::string(i % 5 == 0 ? "8" : "16") +
                      "\n#include \"tilefuse_cpu.h\"\nextern \"C\" void f(int) {}\n" +
                      std::string(size_t(100 * (i % 7)), ' '));
  }
  sources.emplace_back("extern \"C\" void f() {}\n");  // without the runtime: alone
  sources.emplace_back("extern \"C\" void g() {}\n");
  for (const int jobs : {1, 2, 8, 64}) {
    const auto groups = groups_to_join(sources, jobs);
    EXPECT_GE(groups.size(), std::min<size_t>(size_t(jobs), sources.size()));
    std::vector<size_t> all;
    for (const std::vector<size_t>& group : groups) {
      all.insert(all.end(), group.begin(), group.end());
      for (const size_t member : group) {
        EXPECT_EQ(sources[member].substr(0, 26), sources[group.front()].substr(0, 26));
        EXPECT_TRUE(group.size() == 1 || member < 30);
      }
    }
    std::sort(all.begin(), all.end());
    std::vector<size_t> each(sources.size());
    std::iota(each.begin(), each.end(), size_t{0});
    EXPECT_EQ(all, each);
  }
}
TEST(JoinedSources, tells_names_of_sources_apart) {
  const std::vector<std::string> sources = {
      "#include \"tilefuse_cpu.h\"\n\nextern \"C\" void f(int) {}\nextern \"C\" void f_sum(int) {}\n",
      "#include \"tilefuse_cpu.h\"\n\nextern \"C\" void f(int) {}\n"};
  const JoinedSource joined = join_sources(sources, {0, 1});
  EXPECT_EQ(joined.text,
            "#include \"tilefuse_cpu.h\"\n\nextern \"C\" void f_0(int) {}\nextern \"C\" void "
            "f_sum_0(int) {}\n\nextern \"C\" void f_1(int) {}\n");
  EXPECT_EQ(joined.suffixes, (std::vector<std::string>{"_0", "_1"}));
}
// What a kernel does not name is left out of its text; nothing that it needs is.
TEST_F(ToolchainTest, every_function_of_the_runtime_compiles_with_what_it_needs_alone) {
  std::vector<std::string> sources;
  for (const char* expression : {"exp(x)",
                                 "exp2(x)",
                                 "expm1(x)",
                                 "log(x)",
                                 "log2(x)",
                                 "log10(x)",
                                 "log1p(x)",
                                 "pow(x, x)",
                                 "sigmoid(x)",
                                 "tanh(x)",
                                 "sinh(x)",
                                 "cosh(x)",
                                 "erf(x)",
                                 "erfc(x)",
                                 "sin(x)",
                                 "cos(x)",
                                 "tan(x)",
                                 "asin(x)",
                                 "acos(x)",
                                 "atan(x)",
                                 "atan2(x, x)",
                                 "max_nan(x, x)",
                                 "floor_div(x, x)",
                                 "remainder(x, x)",
                                 "round(x)",
                                 "sign(x)",
                                 "inclusive_scan_add(x)",
                                 "splat<float>(reduce_max(x))",
                                 "convert<bf16>(x)",
                                 "convert<f16>(x)",
                                 "convert<float>(convert<signed char>(x))",
                                 "select(is_inf(x), x, rsqrt(x))",
                                 "exp2_nonpositive(x, first_lanes(3))",
                                 "exp_nonpositive_bf16(x)",
                                 "gather(p, convert<int64_t>(x))",
                                 "load_strided(p, 3)",
                                 "splat<float>(reduce_add_4(x, x, x, x).r[0])",
                                 "splat<float>(reduce_max_index(x, iota<int64_t>()).value)"}) {
    sources.push_back(std::string("#include \"tilefuse_cpu.h\"\nextern \"C\" void f(float* p) {\n") +
                      "  const Vec<float> x = load(p);\n  store(p, Vec<float>(" + expression + "));\n}\n");
  }
  KernelCache none("", 0);
  const auto modules = build_all(sources, found(none), {}, none, 2);
  for (size_t i = 0; i < modules.size(); ++i) {
    EXPECT_TRUE(modules[i]) << sources[i] << modules[i].unsupported().reason;
  }
  EXPECT_LT(complete_source(sources.front()).size(), cpu_runtime_text().size() / 2);
}
TEST_F(ToolchainTest, a_kernel_compiles_without_a_warning) {
  KernelCache none("", 0);
  const Toolchain toolchain = found(none);
  const std::string source = (root_ / "kernel.cpp").string();
  std::ofstream(source) << complete_source(kAddSource);
  std::vector<std::string> command = toolchain.command;
  for (const std::string& flag : compile_flags(toolchain, false)) {
    if (flag != "-w") command.push_back(flag);
  }
  command.insert(command.end(), {"-Wall", "-Wextra", "-o", (root_ / "kernel.so").string(), source});
  const ProcessResult run = run_process(command, 60 * kSecond);
  EXPECT_TRUE(run.succeeded());
  EXPECT_EQ(run.output, "");
}

// ------------------------------------------------------------------ objects in memory
class ObjectTest : public ToolchainTest {
 protected:
  // The object of a kernel that adds `number`, and does nothing else.
  std::string object_that_adds(int number) const {
    std::string source = kAddSource;
    source.replace(source.find("splat<float>(1)"), 15, "splat<float>(" + std::to_string(number) + ")");
    KernelCache kernels = cache();
    const Result<Toolchain> toolchain = find_toolchain({}, kernels);
    EXPECT_TRUE(toolchain);
    const auto bytes = build_object(source, *toolchain, {}, kernels);
    EXPECT_TRUE(bytes);
    return *bytes;
  }
  static float loaded_adds(const std::string& object) {
    const Result<Module> module = load_object(object);
    EXPECT_TRUE(module);
    return run_add_one(*module, {0})[0];
  }
};
// Whatever the random letters at its end are.
TEST(TemporaryFolder, no_two_of_a_process_have_one_path) {
  std::set<std::string> paths;
  for (int i = 0; i < 100; ++i) {
    const TemporaryFolder folder;
    ASSERT_TRUE(folder.exists());
    const std::string path = folder.file("");
    const std::string name = path.substr(0, path.rfind('-'));
    EXPECT_TRUE(paths.insert(name).second) << name << " came twice";
  }
}
TEST_F(ObjectTest, one_that_was_unloaded_is_not_taken_for_the_next) {
  const std::vector<std::string> objects = {object_that_adds(2), object_that_adds(3), object_that_adds(4)};
  const Result<Module> kept = load_object(objects[0]);
  ASSERT_TRUE(kept);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(loaded_adds(objects[size_t(i)]), float(i + 2));
  }
  EXPECT_EQ(run_add_one(*kept, {0})[0], 2);
  EXPECT_TRUE(left_nothing_behind());
}
TEST_F(ObjectTest, bytes_that_are_none_are_refused) {
  const Result<Module> module = load_object("no object");
  ASSERT_FALSE(module);
  EXPECT_THAT(module.unsupported().reason, HasSubstr("cannot load a kernel"));
  EXPECT_TRUE(left_nothing_behind());
}
// For this process from here on: no files in memory.
bool forbid_memory_files() {
  std::array<sock_filter, 4> filter = {{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program = {filter.size(), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 && syscall(SYS_memfd_create, "x", 0) < 0;
}
bool can_forbid_memory_files() {
  const pid_t child = fork();
  if (child == 0) _exit(forbid_memory_files() ? 0 : 1);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
TEST_F(ObjectTest, loads_from_a_temporary_file_where_there_are_none_in_memory) {
  if (!can_forbid_memory_files()) GTEST_SKIP() << "this machine filters no system calls (seccomp)";
  const std::string object = object_that_adds(2);
  EXPECT_EXIT(_exit(forbid_memory_files() && loaded_adds(object) == 2 && left_nothing_behind() ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tilefuse
