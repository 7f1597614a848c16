// How long each stage took, for explain.
//
//   const Graph graph = times.measure("canonicalize", [&] { return canonicalize(std::move(captured)); });
#pragma once
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace tilefuse {

class StageTimes {
 public:
  struct Stage {
    std::string name;
    double milliseconds = 0;
  };

  template <class Work>
  auto measure(const char* stage, Work work) {
    const Timer timer(*this, stage);
    return work();
  }
  const std::vector<Stage>& stages() const { return stages_; }  // in the order of their first use

 private:
  using Clock = std::chrono::steady_clock;
  struct Timer {
    Timer(StageTimes& times, const char* stage) : times(times), stage(stage), start(Clock::now()) {}
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer() { times.add(stage, std::chrono::duration<double, std::milli>(Clock::now() - start).count()); }
    StageTimes& times;
    const char* stage;
    Clock::time_point start;
  };
  void add(const char* stage, double milliseconds) {
    for (Stage& known : stages_) {
      if (known.name == stage) {
        known.milliseconds += milliseconds;
        return;
      }
    }
    stages_.push_back({stage, milliseconds});
  }

  std::vector<Stage> stages_;
};

}  // namespace tilefuse
