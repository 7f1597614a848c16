// How many of the regions that are bound by memory have a kernel for GPUs: every tile graph of the golden
// files, and those of the memory-bound benchmark (memory_cases.txt, its tile graphs at the smaller size),
// through all stages for every architecture, compiled for the second of them where their turn comes. What is
// compiled is run on the model of a GPU and compared with the interpreter of tile graphs.
//
// coverage_*.txt have a line for each: compiled, with the bytes moved over those there are; or declined, and
// why. TILEFUSE_BLESS=1 writes it. A region that has a kernel and loses it shows there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/result.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/tested_targets.h"
#include "tests/kernel_fixture.h"
#include "tests/sampled.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;

constexpr double kMostTraffic = 1.05;      // of regions of the benchmark
constexpr double kLeastBytes = 4096;       // touched, for that: a tensor of a few elements has a sector, too
constexpr double kMostElements = 1 << 18;  // of a tile graph that is run

struct Region {
  std::string name, text;
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The tile graphs in a text, each from its first line to the brace that ends it.
std::vector<Region> regions_in(const std::string& name, const std::string& text) {
  std::vector<Region> regions;
  const std::string all = "\n" + text;
  for (size_t at = all.find("\ntile_graph "); at != std::string::npos; at = all.find("\ntile_graph ", at)) {
    ++at;
    const size_t end = all.find("\n}\n", at);
    if (end == std::string::npos) break;
    regions.push_back({name, all.substr(at, end + 3 - at)});
    at = end;
  }
  return regions;
}

std::vector<Region> golden_regions() {
  const fs::path folder = fs::path(TILEFUSE_SOURCE_DIR) / "tests" / "golden";
  std::vector<Region> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    const std::string name = fs::relative(entry.path(), folder).replace_extension().string();
    for (Region& region : regions_in(name, contents(entry.path()))) all.push_back(std::move(region));
  }
  std::stable_sort(all.begin(), all.end(), [](const Region& a, const Region& b) { return a.name < b.name; });
  return all;
}

// `# name` stands before each.
std::vector<Region> benchmark_regions() {
  std::vector<Region> all;
  const std::string text = contents(fs::path(TILEFUSE_SOURCE_DIR) / "tests" / "gpu" / "memory_cases.txt");
  for (size_t at = text.find("# case "); at != std::string::npos;) {
    const size_t next = text.find("# case ", at + 1), line = text.find('\n', at);
    for (Region& region : regions_in(text.substr(at + 7, line - at - 7), text.substr(line, next - line)))
      all.push_back(std::move(region));
    at = next;
  }
  return all;
}

SymbolValues sizes_for(const TileGraph& graph) {
  SymbolValues symbols;
  int64_t size = 6;
  for (const std::string& symbol : symbols_in(graph)) symbols[symbol] = size++;
  for (const Buffer& buffer : graph.buffers) {
    for (const Expr& extent : buffer.shape) {
      for (const std::string& symbol : symbols_of(extent)) symbols.emplace(symbol, size);
    }
  }
  return symbols;
}

double elements_of(const TileGraph& graph, const SymbolValues& symbols) {
  double elements = 1;
  for (const Axis& axis : graph.axes) {
    elements *= double(evaluate(axis.extent, {}, [&](const std::string& name) { return symbols.at(name); }));
  }
  return elements;
}

// Sectors over those that have to be moved at least, which are all that are touched.
struct Traffic {
  double moved = 0;  // fetched or written by a small cache
  double asked = 0;  // by warps: what is in a cache of theirs, too
};
Traffic traffic_of(const std::vector<GpuRun>& runs) {
  Traffic traffic;
  double touched = 0;
  for (const GpuRun& run : runs) {
    touched += double(run.touched_sectors);
    traffic.moved += double(run.missed_sectors);
    for (const GpuBuffer& buffer : run.buffers) traffic.asked += double(buffer.sectors);
  }
  return {traffic.moved / touched, traffic.asked / touched};
}

std::string in_short(std::string reason) {
  const size_t line = reason.find('\n');
  return line == std::string::npos ? reason : reason.substr(0, line);
}

enum class Depth { Plan, Compile, Run };

std::string run_on(const TileGraph& graph, const GpuTarget& target, Depth depth, bool limits_traffic) {
  const Result<GpuPlan> plan = plan_gpu(graph, target);
  if (!plan) return "declined: " + in_short(plan.unsupported().reason);
  if (depth == Depth::Plan) return "planned";
  std::vector<CudaKernel> kernels = compile_plan(*nvrtc(), *plan, target);
  std::string text = kernels.size() == 1 ? "1 kernel" : std::to_string(kernels.size()) + " kernels";
  for (const CudaKernel& kernel : kernels) {
    EXPECT_EQ(kernel.binary.resources.at(0).spill_bytes, 0) << kernel.source;
    EXPECT_EQ(kernel.binary.resources.at(0).stack_bytes, 0) << kernel.source;
  }
  const SymbolValues symbols = sizes_for(graph);
  if (depth != Depth::Run || elements_of(graph, symbols) > kMostElements) return text + ", not run";
  const std::vector<Tensor> inputs = random_buffers(graph, 7, symbols);
  const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
  const CudaPlanRun found = run_plan(std::move(kernels), *plan, graph, inputs, symbols);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(first_difference(found.outputs.at(i), expected[i], tolerance_of(graph)), "")
        << "output " << i << "\n"
        << found.kernels.back().source;
  }
  for (size_t k = 0; k < found.runs.size(); ++k)
    EXPECT_EQ(found.runs[k].bank_conflicts, 0) << found.kernels[k].source;
  const Traffic traffic = traffic_of(found.runs);
  if (limits_traffic) {
    EXPECT_LE(traffic.moved, kMostTraffic) << found.kernels.back().source;
  }
  char moved[64];
  std::snprintf(moved, sizeof moved, ", moves %.2f, asks for %.2f", traffic.moved, traffic.asked);
  return text + moved;
}

// Nothing for what is no tile graph: golden files of errors, and parts of one with scratch memory of their
// own.
std::string line_of(const Region& region, int number, bool limits_traffic) {
  TileGraph graph;
  try {
    graph = parse_tile_graph(region.text);
  } catch (const UserError&) {
    return "";
  }
  const std::string head = region.name + " " + graph.name + ": ";
  std::string first;
  for (const std::string& name : tested_targets()) {
    SCOPED_TRACE(head + name);
    std::string outcome;
    try {
      const Depth depth = name == tested_targets().front() ? Depth::Run
                          : number % sampled(3, 1) == 0    ? Depth::Compile
                                                           : Depth::Plan;
      outcome = run_on(graph, load_gpu_target(name), depth, limits_traffic);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << to_text(graph);
      outcome = "failed";
    }
    if (first.empty()) first = outcome;
    if (outcome.starts_with("declined") != first.starts_with("declined"))
      first += "; on " + name + " " + outcome;
  }
  return head + first + "\n";
}

std::string table_of(const std::vector<Region>& regions, bool limits_traffic) {
  std::string text;
  int runs = 0, all = 0;
  for (const Region& region : regions) {
    const std::string line = line_of(region, all, limits_traffic);
    if (line.empty()) continue;
    text += line;
    ++all;
    runs += line.find("declined") == std::string::npos;
  }
  return std::to_string(runs) + " of " + std::to_string(all) + " have a kernel\n" + text;
}

void expect_table(const std::string& file, const std::string& found) {
  const fs::path path = fs::path(TILEFUSE_SOURCE_DIR) / "tests" / "gpu" / file;
  if (std::getenv("TILEFUSE_BLESS") != nullptr) {
    std::ofstream(path, std::ios::binary) << found;
    return;
  }
  EXPECT_EQ(found, contents(path)) << "TILEFUSE_BLESS=1 writes what came out into " << path;
}

class Coverage : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }
};

TEST_F(Coverage, of_the_golden_tile_graphs) {
  expect_table("coverage_goldens.txt", table_of(golden_regions(), false));
}
TEST_F(Coverage, of_the_memory_bound_benchmark) {
  expect_table("coverage_benchmark.txt", table_of(benchmark_regions(), true));
}

}  // namespace
}  // namespace tilefuse
