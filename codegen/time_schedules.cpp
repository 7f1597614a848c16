#include "codegen/time_schedules.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "codegen/emit.h"
#include "codegen/lower_to_kernel.h"
#include "codegen/memory_plan.h"
#include "codegen/run_region.h"
#include "codegen/timing_inputs.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

constexpr size_t kLineBytes = 64;
constexpr double kLeastRunUs = 20;  // shorter ones are repeated, or the clock is what is timed

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void run_serially(int64_t tiles, int64_t, void* context, TileBody body) { body(context, 0, tiles); }

template <int kThreads>
void run_on(int64_t tiles, int64_t grain, void* context, TileBody body) {
  const int64_t pieces = std::clamp<int64_t>(tiles / std::max<int64_t>(grain, 1), 1, kThreads);
  std::vector<std::jthread> threads;
  for (int64_t piece = 1; piece < pieces; ++piece) {
    threads.emplace_back([=] { body(context, tiles * piece / pieces, tiles * (piece + 1) / pieces); });
  }
  body(context, 0, tiles / pieces);
}

// A function pointer holds no number: one function for each power of two.
ParallelFor parallel_for_threads(int threads) {
  constexpr std::pair<int, ParallelFor> kTable[] = {{64, run_on<64>}, {32, run_on<32>}, {16, run_on<16>},
                                                    {8, run_on<8>},   {4, run_on<4>},   {2, run_on<2>}};
  for (const auto& [count, function] : kTable) {
    if (threads >= count) return function;
  }
  return run_serially;
}

// Buffers lie as a call has them: not all at the same place in their pages (see kStaggerBytes).
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t bytes, size_t place = 0) : storage_(bytes + kPageBytes + kLineBytes, 0) {
    size_t room = storage_.size();
    void* start = storage_.data();
    std::align(kLineBytes, bytes, start, room);
    data_ = static_cast<char*>(start) + place_in_page(place);
  }
  void* data() const { return data_; }

 private:
  std::vector<char> storage_;
  void* data_ = nullptr;
};

class Memory {  // of one tile graph: inputs and outputs, shared by all variants
 public:
  Memory(const TileGraph& graph, const SizeHints& hints) {
    const std::vector<int64_t> positions = extents_of_positions(graph, hints);
    for (const Buffer& buffer : graph.buffers) {
      int64_t last = 0;  // strides may leave gaps
      for (size_t d = 0; d < buffer.shape.size(); ++d) {
        const int64_t stride = buffer.strides.empty() ? 0 : hinted_size(buffer.strides[d], hints);
        last += (hinted_size(buffer.shape[d], hints) - 1) * stride;
      }
      int64_t count = 1;
      for (const Expr& size : buffer.shape) count *= hinted_size(size, hints);
      count = std::max(count, last + 1);
      const auto bytes = static_cast<size_t>(count) * static_cast<size_t>(size_in_bytes(buffer.dtype));
      const int64_t extent = positions[buffers_.size()];
      buffers_.emplace_back(bytes, buffers_.size());
      fill_input(buffers_.back().data(), count, buffer.dtype, extent);
    }
  }
  const std::vector<AlignedBuffer>& buffers() const { return buffers_; }

 private:
  std::vector<AlignedBuffer> buffers_;
};

class Variant {  // one schedule, loaded
 public:
  Variant(RegionProgram program, Module module, const TileGraph& graph, const SizeHints& hints)
      : program_(std::move(program)), module_(std::move(module)), sizes_(symbols_of_program(program_)) {
    region_ = load_region(program_, sizes_, [&](const std::string& symbol) {
      return reinterpret_cast<KernelFunction>(module_.symbol(symbol));
    });
    registers_ = sizes_.constants();
    for (size_t s = 0; s < sizes_.symbols().size(); ++s) {
      registers_[s] = hinted_size(Expr::symbol(sizes_.symbols()[s]), hints);
    }
    sizes_.run(registers_);
    buffers_.resize(graph.buffers.size());
    for (int bytes : region_.workspace_bytes) {
      workspaces_.emplace_back(static_cast<size_t>(registers_[static_cast<size_t>(bytes)]));
    }
    for (const LoadedPack& pack : region_.packs) packs_.emplace_back(static_cast<size_t>(pack.bytes));
  }

  double run(const Memory& memory, ParallelFor parallel_for, int repetitions) {
    for (size_t b = 0; b < memory.buffers().size(); ++b) buffers_[b] = memory.buffers()[b].data();
    buffers_.resize(memory.buffers().size());
    for (const AlignedBuffer& workspace : workspaces_) buffers_.push_back(workspace.data());
    for (const AlignedBuffer& pack : packs_) buffers_.push_back(pack.data());
    if (!std::exchange(is_packed_, true)) pack();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repetitions; ++i) {
      (void)run_region(region_, registers_.data(), buffers_.data(), parallel_for);
    }
    return us_since(start) / repetitions;
  }

 private:
  void pack() {
    for (size_t p = 0; p < packs_.size(); ++p) {
      const LoadedPack& pack = region_.packs[p];
      run_pack(region_, pack, registers_.data(), buffers_[pack.input], packs_[p].data(), run_serially);
    }
  }
  static std::vector<std::string> symbols_of_program(const RegionProgram& program) {
    std::vector<std::string> names;
    names.reserve(program.sizes.size());
    for (const Expr& size : program.sizes) names.push_back(to_text(size));
    return names;
  }

  RegionProgram program_;
  Module module_;
  SizeProgram sizes_;
  LoadedRegion region_;
  std::vector<int64_t> registers_;
  std::vector<const void*> buffers_;
  std::vector<AlignedBuffer> workspaces_, packs_;
  bool is_packed_ = false;
};

double lower_median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Times that the variants took, by variant. They take turns, each after a run that is not timed, and in
// another order each round: a variant that streams its stores leaves the next one cold caches for longer.
std::vector<double> take_turns(std::vector<std::optional<Variant>>& variants, const Memory& memory,
                               const TimingOptions& options) {
  const ParallelFor parallel_for = parallel_for_threads(options.threads);
  std::vector<std::vector<double>> times(variants.size());
  std::vector<int> repetitions(variants.size(), 1), rounds(variants.size(), 0);
  for (size_t v = 0; v < variants.size(); ++v) {
    if (!variants[v]) continue;
    variants[v]->run(memory, parallel_for, 1);  // pages, caches, clock
    const double once = variants[v]->run(memory, parallel_for, 1);
    repetitions[v] = std::max(1, static_cast<int>(kLeastRunUs / std::max(once, 0.01)));
    const double affordable = options.most_ms * 1e3 / (once * repetitions[v]);
    rounds[v] = std::clamp(static_cast<int>(affordable), 1, options.rounds);
  }
  std::vector<size_t> order(variants.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random;
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t v : order) {
      if (round >= rounds[v]) continue;
      variants[v]->run(memory, parallel_for, 1);
      times[v].push_back(variants[v]->run(memory, parallel_for, repetitions[v]));
    }
  }
  std::vector<double> results;
  for (const std::vector<double>& of_variant : times) {
    if (of_variant.empty()) {
      results.push_back(0);
    } else if (options.fastest) {
      results.push_back(*std::min_element(of_variant.begin(), of_variant.end()));
    } else {
      results.push_back(lower_median(of_variant));
    }
  }
  return results;
}

}  // namespace

std::vector<Result<double>> time_schedules(const TileGraph& graph, const std::vector<Schedule>& schedules,
                                           const Toolchain& toolchain, KernelCache& cache,
                                           const TimingOptions& options, const SizeHints& hints) {
  std::vector<RegionProgram> programs;
  std::vector<std::string> sources;
  for (const Schedule& schedule : schedules) {
    KernelProgram program = lower_to_kernel(graph, schedule);
    sources.push_back(emit(program.kernels, cpu_dialect()));
    programs.push_back(std::move(program.launches));
  }
  std::vector<Result<Module>> built =
      build_all(sources, toolchain, {.eager_numerics = options.eager_numerics}, cache, options.jobs);
  const Memory memory(graph, hints);
  std::vector<std::optional<Variant>> variants(schedules.size());
  for (size_t v = 0; v < variants.size(); ++v) {
    if (built[v]) variants[v].emplace(std::move(programs[v]), *built[v], graph, hints);
  }
  const std::vector<double> times = take_turns(variants, memory, options);
  std::vector<Result<double>> results;
  results.reserve(variants.size());
  for (size_t v = 0; v < variants.size(); ++v) {
    results.push_back(built[v] ? Result<double>(times[v]) : Result<double>(built[v].unsupported()));
  }
  return results;
}

}  // namespace tilefuse
