// Runs a program and waits for it: no shell, its output captured, killed with all its children at a deadline.
//
//   ProcessResult run = run_process({"/usr/bin/g++", "--version"}, std::chrono::seconds(10));
//   if (run.succeeded()) use(run.output);
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace tilefuse {

struct ProcessResult {
  enum class End { Exited, Killed, TimedOut, NotStarted };
  End end = End::NotStarted;
  int code = 0;        // exit status; signal, where killed; errno, where not started
  std::string output;  // standard output and error together

  bool succeeded() const { return end == End::Exited && code == 0; }
};

// command[0] is searched on PATH unless it has a slash.
ProcessResult run_process(const std::vector<std::string>& command, std::chrono::milliseconds limit);

// "exited with status 1", "was killed by signal 9", "took longer than 60 s", "cannot be started: ..."
std::string to_text(const ProcessResult& result, std::chrono::milliseconds limit);

}  // namespace tilefuse
