#include "codegen/run_compiler.h"

#include "codegen/process.h"

namespace tilefuse {
namespace {

// The first complaint of the log and a few lines after it, not the context above it.
std::string first_error(const std::string& log) {
  constexpr size_t kMostBytes = 600;
  size_t at = log.find("error:");
  if (at == std::string::npos) at = 0;
  const size_t line = log.rfind('\n', at);
  const size_t start = line == std::string::npos ? 0 : line + 1;
  std::string text = log.substr(start, kMostBytes);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::optional<Unsupported> run_compiler(std::vector<std::string> command, std::chrono::milliseconds limit) {
  const std::string compiler = command.front();
  ProcessResult run = run_process(command, limit);
  // Most crashes of compilers are in their vectorisers; those of GCC 12 also in partial redundancies, where
  // parts of a vector are stored in a loop that it unrolls.
  if (!run.succeeded() && run.output.find("internal compiler error") != std::string::npos) {
    command.insert(command.end(), {"-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-tree-pre"});
    run = run_process(command, limit);
  }
  if (run.succeeded()) return std::nullopt;
  return Unsupported{"cannot compile a kernel: " + compiler + " " + to_text(run, limit) +
                     (run.output.empty() ? "" : ": " + first_error(run.output))};
}

}  // namespace tilefuse
