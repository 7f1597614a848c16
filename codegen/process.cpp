#include "codegen/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace tilefuse {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) {
      read = ends[0];
      write = ends[1];
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (read >= 0) close(read);
    close_write();
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
};

// In a process group of its own, so that a deadline reaches the compiler behind the compiler driver too.
int spawn(const std::vector<std::string>& command, int output, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t unblocked;
  sigemptyset(&unblocked);
  posix_spawnattr_setsigmask(&attributes, &unblocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);

  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int error = posix_spawnp(pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// False at the deadline. The end of the pipe is the end of the program and of every child of it.
bool read_until_end(int pipe, Clock::time_point deadline, std::string* output) {
  char buffer[4096];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{pipe, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = read(pipe, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    output->append(buffer, static_cast<size_t>(count));
  }
}

void wait_for(pid_t pid, ProcessResult* result) {
  int status = 0;
  pid_t waited = -1;
  do {
    waited = waitpid(pid, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (waited < 0) {
    // Somebody else reaps our children (SIGCHLD ignored): what the program made has to speak for itself.
    result->end = ProcessResult::End::Exited;
  } else if (WIFEXITED(status)) {
    result->end = ProcessResult::End::Exited;
    result->code = WEXITSTATUS(status);
  } else {
    result->end = ProcessResult::End::Killed;
    result->code = WTERMSIG(status);
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  ProcessResult result;
  Pipe pipe;
  if (pipe.read < 0) {
    result.code = errno;
    return result;
  }
  pid_t pid = 0;
  result.code = spawn(command, pipe.write, &pid);
  if (result.code != 0) return result;
  pipe.close_write();

  const bool ended = read_until_end(pipe.read, Clock::now() + limit, &result.output);
  if (!ended) kill(-pid, SIGKILL);
  wait_for(pid, &result);
  if (!ended) result.end = ProcessResult::End::TimedOut;
  return result;
}

std::string to_text(const ProcessResult& result, std::chrono::milliseconds limit) {
  switch (result.end) {
    case ProcessResult::End::Exited:
      return "exited with status " + std::to_string(result.code);
    case ProcessResult::End::Killed:
      return "was killed by signal " + std::to_string(result.code);
    case ProcessResult::End::TimedOut:
      return "took longer than " + std::to_string(limit.count() / 1000) + " s";
    case ProcessResult::End::NotStarted:
      return "cannot be started: " + std::generic_category().message(result.code);
  }
  return "";
}

}  // namespace tilefuse
