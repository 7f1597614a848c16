#include "codegen/toolchain.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>

#include "codegen/cpu_features.h"
#include "codegen/process.h"
#include "core/contains.h"
#include "fusion/instruction_sets.h"

namespace tilefuse {
namespace {

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";
constexpr auto kVersionLimit = std::chrono::seconds(20);

// The absolute path of a program, or nothing.
std::optional<std::string> find_program(const std::string& name, const std::string& search_path) {
  const auto is_program = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    const std::string path = std::filesystem::absolute(name, error).string();
    return !error && is_program(path) ? std::optional(path) : std::nullopt;
  }
  std::istringstream folders(search_path.empty() ? kDefaultPath : search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = folder;
    path.append("/").append(name);
    if (!folder.empty() && folder.front() == '/' && is_program(path)) return path;
  }
  return std::nullopt;
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Changes whenever a package manager replaces the program.
std::string file_facts(const std::string& path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return path;
  std::error_code error;
  return std::filesystem::canonical(path, error).string() + " " + std::to_string(facts.st_size) + " " +
         std::to_string(facts.st_mtim.tv_sec) + "." + std::to_string(facts.st_mtim.tv_nsec);
}

// Asks the compiler who it is, unless the cache knows.
Result<Toolchain> ask(std::vector<std::string> command, KernelCache& cache) {
  Toolchain toolchain;
  toolchain.command = std::move(command);
  const std::string called = joined(toolchain.command) + " " + file_facts(toolchain.command.front());
  const std::string key = "version of " + called;
  std::optional<std::string> answer = cache.load(key);
  if (!answer) {
    std::vector<std::string> question = toolchain.command;
    question.emplace_back("--version");
    const ProcessResult run = run_process(question, kVersionLimit);
    if (!run.succeeded() || run.output.empty()) {
      return Unsupported{"cannot use the compiler '" + joined(toolchain.command) + "': " + joined(question) +
                         " " + to_text(run, kVersionLimit)};
    }
    answer = run.output;
    cache.store(key, *answer);
  }
  toolchain.version = answer->substr(0, answer->find('\n'));
  toolchain.is_clang = answer->find("clang") != std::string::npos;
  toolchain.identity = called + "\n" + *answer + "\n" + cpu_features();
  return toolchain;
}

Result<Toolchain> use_requested(const ToolchainRequest& request, KernelCache& cache) {
  std::vector<std::string> command = split_words(request.cxx);
  const auto program = command.empty() ? std::nullopt : find_program(command.front(), request.search_path);
  if (!program) return Unsupported{"cannot use the compiler '" + request.cxx + "': there is no such program"};
  command.front() = *program;
  return ask(std::move(command), cache);
}

#if defined(__x86_64__) || defined(__i386__)
constexpr const char* kThisProcessor = "-march=native";
constexpr const char* kAnyProcessor = "-march=x86-64";
#else
constexpr const char* kThisProcessor = "-mcpu=native";
constexpr const char* kAnyProcessor = "";  // what the compiler makes unless told
#endif

std::vector<std::string> processor_flags(const std::vector<std::string>& instructions) {
  std::vector<std::string> flags = compiler_flags(instructions);
  if (*kAnyProcessor != '\0') flags.insert(flags.begin(), kAnyProcessor);
  return flags;
}

// Left alone, GCC 12 puts blocks of sums on the stack, or what the innermost loop multiplies them with.
constexpr std::array kBlocksInRegisters = {
    // It allocates registers over loops that it takes for easy together with what is around them: constants
    // of an epilogue push out what is loaded in every step.
    "-fira-region=all",
    // It takes a block at the start of its loop, in it and behind it for one variable wherever it can, which
    // then is on the stack everywhere if it is anywhere.
    "-fno-tree-coalesce-vars",
};

}  // namespace

Result<Toolchain> find_toolchain(const ToolchainRequest& request, KernelCache& cache) {
  if (!request.cxx.empty()) return use_requested(request, cache);

  std::vector<std::vector<std::string>> candidates;
  for (const char* name : {"c++", "g++", "clang++"}) {
    if (const auto program = find_program(name, request.search_path)) candidates.push_back({*program});
  }
  if (!request.python.empty()) candidates.push_back({request.python, "-m", "ziglang", "c++"});

  std::string tried;
  for (std::vector<std::string>& candidate : candidates) {
    Result<Toolchain> toolchain = ask(std::move(candidate), cache);
    if (toolchain) return toolchain;
    tried += "; " + toolchain.unsupported().reason;
  }
  return Unsupported{
      "cannot compile kernels: found no C++ compiler (c++, g++, clang++, or the ziglang wheel)" + tried};
}

std::vector<std::string> compile_flags(const Toolchain& toolchain, bool eager_numerics,
                                       const std::optional<std::vector<std::string>>& instructions) {
  std::vector<std::string> flags = {
      "-std=c++20",
      "-O3",
      "-fPIC",
      "-shared",
      "-fno-math-errno",
      "-fno-trapping-math",
      "-fno-semantic-interposition",
      "-fwrapv",  // integers wrap, as torch's do
      "-w",       // warnings are for the tests of the emitter
  };
  const std::vector<std::string> processor =
      instructions ? processor_flags(*instructions) : std::vector<std::string>{kThisProcessor};
  flags.insert(flags.end(), processor.begin(), processor.end());
  flags.emplace_back(eager_numerics ? "-ffp-contract=off" : "-ffp-contract=fast");
  if (eager_numerics) flags.emplace_back("-DTILEFUSE_EXACT_BF16");
  if (!toolchain.is_clang) flags.insert(flags.end(), kBlocksInRegisters.begin(), kBlocksInRegisters.end());
  // clang splits 512-bit vectors unless told: a quarter of the speed.
  const bool is_wide = instructions ? contains(*instructions, "avx512f") : cpu_has_avx512();
  if (toolchain.is_clang && is_wide) flags.emplace_back("-mprefer-vector-width=512");
  return flags;
}

}  // namespace tilefuse
