#include "codegen/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "codegen/instruction_rates.h"
#include "codegen/time_schedules.h"
#include "fusion/check_schedule.h"
#include "fusion/processor.h"
#include "fusion/target.h"
#include "fusion/target_profiles.h"

namespace tilefuse {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kInL1 = 2048;                      // f32 elements: 8 KiB in, 8 KiB out
constexpr int64_t kMemoryBytes = int64_t{64} << 20;  // of one array, beyond most last-level caches
constexpr int kLineBytes = 64;
constexpr double kWorthThreads = 1e6;  // us of a kernel whose tasks each get a thread

struct Refused {  // a kernel that does not build ends the calibration
  std::string reason;
};

// What the kernel knows of this processor's caches; sysconf reports those of the host of a virtual machine.
int64_t cache_bytes(int level, int64_t otherwise) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::ifstream level_file(folder + "level"), type_file(folder + "type"), size_file(folder + "size");
    int found = 0;
    std::string type;
    int64_t size = 0;
    char unit = ' ';
    if (!(level_file >> found) || !(type_file >> type) || !(size_file >> size >> unit)) continue;
    if (found == level && type != "Instruction") return size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
  }
  return otherwise;
}

// What this processor has of what some profile uses; others may be known, but no kernel was tried with them.
std::vector<std::string> usable_instructions(const Processor& processor) {
  std::vector<std::string> usable;
  for (const std::string& set : processor.instructions) {
    const bool is_used = std::ranges::any_of(embedded_profiles(), [&](const EmbeddedProfile& profile) {
      const Target target = parse_target(profile.json, std::string(profile.name));
      return std::ranges::find(target.instructions, set) != target.instructions.end();
    });
    if (is_used) usable.push_back(set);
  }
  return usable;
}

class Calibration {
 public:
  Calibration(const Toolchain& toolchain, KernelCache& cache)
      : toolchain_(toolchain), cache_(cache), base_(load_target(host_target_name())) {}

  std::string run();

 private:
  std::vector<double> fastest_us(const std::string& tiles, const std::vector<std::string>& schedules,
                                 int threads, const SizeHints& hints);
  double fastest_us(const std::string& tiles, const std::string& schedule, int threads,
                    const SizeHints& hints) {
    return fastest_us(tiles, std::vector<std::string>{schedule}, threads, hints).front();
  }
  double map_cycles(const std::string& function);  // of a vector, in L1
  double load_cycles();
  // Of each element of a vector, in L1.
  double element_cycles(const std::string& load, const std::string& store, int lanes,
                        const std::string& index = "load %ids[n]", const std::string& dtype = "f32");
  double sum_cycles(int unroll);
  double copy_gbs(int64_t bytes, bool streamed, int threads);
  double reread_gbs(int64_t bytes, int threads);
  double read_gbs(int64_t bytes, int threads);
  double write_gbs(int64_t bytes, bool streamed, int threads);
  int64_t usable_l3_bytes(int64_t reported);
  std::vector<double> line_ns(const std::string& kind, const std::vector<int>& rows, int64_t run_bytes,
                              int threads);
  void measure_functions();
  void measure_instructions();
  void measure_memory(int threads);
  void measure_rows(int threads);
  void put(const std::string& key, double value, const std::string& unit);
  std::string lanes(const std::string& axis) const {
    return "lanes " + axis + " = " + std::to_string(base_.vector_bytes / 4);
  }
  // Of copies, whose stores may go past the caches: those write whole lines.
  std::string line_lanes(const std::string& axis) const {
    return lanes(axis) + ", unroll " + std::to_string(std::max(1, kLineBytes / base_.vector_bytes));
  }
  double vectors(double elements) const { return elements * 4 / base_.vector_bytes; }

  const Toolchain& toolchain_;
  KernelCache& cache_;
  const Processor here_ = host_processor();
  Target base_;
  int jobs_ = 2;
  double clock_ghz_ = 1;
  Json rates_ = Json::object();
};

void Calibration::put(const std::string& key, double value, const std::string& unit) {
  rates_[key] = {{"value", value}, {"unit", unit}, {"source", "measured"}};
}

// Schedules of one graph share its memory, whose pages cost more than the runs, and compile side by side.
std::vector<double> Calibration::fastest_us(const std::string& tiles,
                                            const std::vector<std::string>& schedules, int threads,
                                            const SizeHints& hints) {
  const TileGraph graph = parse_tile_graph(tiles);
  const TimingOptions options{.threads = threads, .rounds = 5, .most_ms = 30, .jobs = jobs_, .fastest = true};
  std::vector<Schedule> parsed;
  for (const std::string& schedule : schedules) {
    parsed.push_back(
        parse_schedule("schedule " + graph.name + " for " + base_.name + " {\n" + schedule + "}\n", graph));
    parsed.back().cost_us = kWorthThreads;
    const std::vector<std::string> findings = check_schedule(graph, parsed.back());
    TILEFUSE_CHECK(findings.empty(), "calibrate: " + findings.front() + "\n" + tiles);
  }
  std::vector<double> fastest;
  for (const auto& time : time_schedules(graph, parsed, toolchain_, cache_, options, hints)) {
    if (!time) throw Refused{time.unsupported().reason};
    fastest.push_back(*time);
  }
  return fastest;
}

std::string map_graph(const std::string& values, const std::string& result) {
  return "tile_graph timed {\n  symbol s0 in [64, inf] multiple_of 64\n  axes n: s0\n  buffers %x: f32[s0] "
         "in, %y: f32[s0] out\n  %0 = load %x[n] : "
         "f32[n]\n" +
         values + "  store " + result + " -> %y[n]\n}\n";
}

const char* const kRest = "rows 1\nsplit 1\nstage none\n";

// Of a map, as one task.
std::string in_one_task(const std::string& lanes) {
  return lanes + "\ngrid n = all\nwalk none\n" + kRest + "stores cached\n";
}

double Calibration::map_cycles(const std::string& function) {
  const std::string tiles = map_graph("  %1 = " + function + "(%0) : f32[n]\n", "%1");
  const double us = fastest_us(tiles, in_one_task(lanes("n")), 1, {{"s0", kInL1}});
  return us * 1e3 * clock_ghz_ / vectors(kInL1);
}

// Of a load among others whose maximum is stored: one simple function for each, which cores do as fast.
double Calibration::load_cycles() {
  constexpr int kLoads = 8;
  std::string values, last = "%0";
  for (int load = 1; load < kLoads; ++load) {
    const std::string name = std::to_string(load);
    values.append("  %x").append(name).append(" = load %x[n + s0*").append(name).append("] : f32[n]\n");
    values.append("  %").append(name).append(" = max(").append(last).append(", %x");
    values.append(name).append(") : f32[n]\n");
    last = "%" + name;
  }
  const std::string tiles =
      "tile_graph loaded {\n  symbol s0 in [64, inf] multiple_of 64\n  axes n: s0\n  buffers %x: f32[s0*8] "
      "in, "
      "%y: f32[s0] out\n  %0 = load %x[n] : f32[n]\n" +
      values + "  store " + last + " -> %y[n]\n}\n";
  constexpr int64_t kElements = kInL1 / kLoads;
  return fastest_us(tiles, in_one_task(lanes("n")), 1, {{"s0", kElements}}) * 1e3 * clock_ghz_ /
         vectors(kInL1);
}

// Few elements, so that lines they lie alone in stay in L1.
double Calibration::element_cycles(const std::string& load, const std::string& store, int lanes,
                                   const std::string& index, const std::string& dtype) {
  constexpr int64_t kElements = 256;
  const std::string tiles =
      "tile_graph picked {\n  symbol s0 in [64, inf] multiple_of 64\n  axes n: s0\n  buffers %x: " + dtype +
      "[s0*17] in, %ids: i64[s0] in, %y: f32[s0*17] out\n  %i = " + index + " : i64[n]\n  %x = load %x[" +
      load + " : " + dtype + "[n]\n  %0 = cast(%x) : f32[n]\n  store %0 -> %y[" + store + "]\n}\n";
  const std::string schedule = in_one_task("lanes n = " + std::to_string(lanes));
  return fastest_us(tiles, schedule, 1, {{"s0", kElements}}) * 1e3 * clock_ghz_ / kElements;
}

std::string sum_graph() {
  return "tile_graph summed {\n  symbol s0 in [64, inf] multiple_of 64\n  axes n: s0\n  buffers %x: f32[s0] "
         "in, %y: f32[] out\n  %0 = load %x[n] : "
         "f32[n]\n"
         "  %s = reduce.sum(%0) over n : f32[]\n  store %s -> %y[0]\n}\n";
}

// By what a longer sum takes more: a launch takes as long as some dozen vectors.
double Calibration::sum_cycles(int unroll) {
  const std::string schedule = lanes("n") + ", unroll " + std::to_string(unroll) +
                               "\ngrid none\nwalk multi_pass\n" + kRest + "stores cached\n";
  const double of_one = fastest_us(sum_graph(), schedule, 1, {{"s0", kInL1}});
  const double of_two = fastest_us(sum_graph(), schedule, 1, {{"s0", 2 * kInL1}});
  return std::max(of_two - of_one, of_one / 10) * 1e3 * clock_ghz_ / vectors(kInL1);
}

// Of a cache: each thread reads bytes of its own many times, one line further each time, or starting threads
// would take longer than they read.
double Calibration::reread_gbs(int64_t bytes, int threads) {
  const std::string tiles =
      "tile_graph read_again {\n  symbol s0 in [1, inf]\n  symbol s1 in [64, inf] multiple_of 64\n  axes "
      "own: "
      "s0, again: 64, n: s1\n  buffers %x: f32[s0*s1 + 1024] in, %y: f32[s0, 64] out\n"
      "  %0 = load %x[own*s1 + again*16 + n] : f32[own, again, n]\n"
      "  %s = reduce.sum(%0) over n : f32[own, again]\n  store %s -> %y[own*64 + again]\n}\n";
  const std::string schedule =
      lanes("n") + ", unroll 4\ngrid own = 1, again = all\nwalk multi_pass\n" + kRest + "stores cached\n";
  const double us =
      fastest_us(tiles, schedule, threads, {{"s0", threads}, {"s1", bytes / 4 / threads / 64 * 64}});
  return 64 * double(bytes) / us / 1e3;
}

double Calibration::read_gbs(int64_t bytes, int threads) {
  const std::string schedule = lanes("n") + ", unroll 4\ngrid none\nwalk multi_pass\nrows 1\nsplit " +
                               std::to_string(std::max(2, threads)) + "\nstage none\nstores cached\n";
  return double(bytes) / fastest_us(sum_graph(), schedule, threads, {{"s0", bytes / 4}}) / 1e3;
}

std::string map_schedule(const std::string& lanes, int64_t elements, int threads, bool streamed) {
  return lanes + "\ngrid n = " + std::to_string(std::max<int64_t>(elements / threads / 64 * 64, 64)) +
         "\nwalk none\n" + kRest + "stores " + (streamed ? "%y: streamed" : "cached") + "\n";
}

double Calibration::copy_gbs(int64_t bytes, bool streamed, int threads) {
  const std::string tiles = map_graph("  %1 = neg(%0) : f32[n]\n", "%1");
  const double us = fastest_us(tiles, map_schedule(line_lanes("n"), bytes / 8, threads, streamed), threads,
                               {{"s0", bytes / 8}});
  return double(bytes) / us / 1e3;
}

double Calibration::write_gbs(int64_t bytes, bool streamed, int threads) {
  const std::string tiles =
      "tile_graph filled {\n  symbol s0 in [64, inf] multiple_of 64\n  axes n: s0\n  buffers %y: f32[s0] "
      "out\n  %0 = constant 1.5 : f32[]\n  store %0 "
      "-> %y[n]\n}\n";
  const double us = fastest_us(tiles, map_schedule(line_lanes("n"), bytes / 4, threads, streamed), threads,
                               {{"s0", bytes / 4}});
  return double(bytes) / us / 1e3;
}

// Of an L3 that many machines share, a virtual one has a part, and nothing says which: the largest array that
// is read more like one just beyond L2 than like one in memory.
int64_t Calibration::usable_l3_bytes(int64_t reported) {
  const double beyond_l2 = read_gbs(2 * base_.l2_bytes, 1), memory = read_gbs(kMemoryBytes, 1);
  if (beyond_l2 < 1.2 * memory) return std::min(reported, kMemoryBytes / 2);  // no telling them apart
  int64_t usable = 2 * base_.l2_bytes;
  while (2 * usable < kMemoryBytes && read_gbs(2 * usable, 1) > std::sqrt(beyond_l2 * memory)) usable *= 2;
  return std::min(reported, usable);
}

// Rows of `run_bytes` walked side by side: their sum alone, or each row again from cache to subtract it.
std::vector<double> Calibration::line_ns(const std::string& kind, const std::vector<int>& rows,
                                         int64_t run_bytes, int threads) {
  const bool copies = kind != "read";
  std::string tiles =
      "tile_graph rows {\n  symbol s0 in [64, inf] multiple_of 64\n  symbol s1 in [64, inf] multiple_of 64\n "
      " axes row: s0, col: s1\n  buffers %x: f32[s0, s1] in, %y: f32[";
  tiles += copies ? "s0, s1] out\n" : "s0] out\n";
  tiles += "  %0 = load %x[row*s1 + col] : f32[row, col]\n  %s = reduce.sum(%0) over col : f32[row]\n";
  tiles += copies ? "  %1 = sub(%0, %s) : f32[row, col]\n  store %1 -> %y[row*s1 + col]\n}\n"
                  : "  store %s -> %y[row]\n}\n";
  const int64_t bytes = kMemoryBytes, count = bytes / run_bytes;
  std::vector<std::string> schedules;
  schedules.reserve(rows.size());
  for (const int side_by_side : rows) {
    schedules.push_back((copies ? line_lanes("col") : lanes("col")) +
                        "\ngrid row = " + std::to_string(std::max<int64_t>(count / threads / 8 * 8, 8)) +
                        "\nwalk multi_pass\nrows " + std::to_string(side_by_side) +
                        "\nsplit 1\nstage none\nstores " +
                        (kind == "copy_streamed" ? "%y: streamed\n" : "cached\n"));
  }
  std::vector<double> times = fastest_us(tiles, schedules, threads, {{"s0", count}, {"s1", run_bytes / 4}});
  for (double& time : times) time *= 1e3 / (double(bytes) / kLineBytes);
  return times;
}

void Calibration::measure_functions() {
  const double copy = map_cycles("neg");
  const std::pair<const char*, const char*> functions[] = {
      {"divide", "reciprocal"}, {"square_root", "sqrt"}, {"exp", "exp"}, {"log", "log"},
      {"trigonometric", "sin"}, {"tanh", "tanh"},        {"erf", "erf"}};
  for (const auto& [cost, function] : functions) {
    put(std::string("clk_per_vector.") + cost, std::max(0.5, map_cycles(function) - copy),
        "cycles per vector of f32");
  }
  const std::string unit = "cycles per element of a vector, one by one";
  const int full = base_.vector_bytes / 4, half = full / 2;
  const double copied = element_cycles("n]", "n", full), copied_in_halves = element_cycles("n]", "n", half);
  put("clk_per_element.strided_load", std::max(0.1, element_cycles("n*17]", "n", full) - copied), unit);
  put("clk_per_element.strided_load_half",
      std::max(0.1, element_cycles("n*17]", "n", half) - copied_in_halves), unit + ", half of one");
  const std::string ids = "load %ids[n]";
  put("clk_per_element.strided_load_narrow",
      std::max(0.1, element_cycles("n*17]", "n", full, ids, "bf16") -
                        element_cycles("n]", "n", full, ids, "bf16")),
      unit + ", of two bytes");
  put("clk_per_element.strided_store", std::max(0.1, element_cycles("n]", "n*17", full) - copied), unit);
  put("clk_per_element.gather",
      std::max(0.1, element_cycles("0] + wrap(%i, extent 64, stride 1)", "n", full) - copied),
      "cycles per element loaded by its index");
  put("clk_per_element.gather_near",
      std::max(0.1, element_cycles("0] + wrap(%i, extent s0, stride 1)", "n", full, "index n // 2") - copied),
      "cycles per element loaded by an index that is computed, near the one before");
  put("chain.add_f32", 1 / sum_cycles(1), "dependent vectors per cycle");
  put("rate.load", std::max(1 / sum_cycles(4), 1 / load_cycles()), "vectors per cycle");
}

// Has a price, as all arithmetic.
struct Price {
  const char *rate, *unit;
};
const std::map<std::string, Price> kArithmetic = {
    {"fma", {"clk_per_vector.fma", "cycles per vector of f32"}},
    {"dot_bf16", {"clk_per_vector.dot_bf16", "cycles per vector of f32 that two products each are added to"}},
    {"dot_i8", {"clk_per_vector.dot_i8", "cycles per vector of i32 that four products each are added to"}},
    {"tile_bf16", {"clk_per_tile.bf16", "cycles per 16 x 16 sums that 32 products each are added to"}},
    {"tile_i8", {"clk_per_tile.i8", "cycles per 16 x 16 sums that 64 products each are added to"}}};

void Calibration::measure_instructions() {
  const std::map<std::string, double> rates = instruction_rates(here_, base_.vector_bytes);
  for (const auto& [name, rate] : rates) {
    const auto unit = kArithmetic.find(name);
    if (unit != kArithmetic.end()) put(unit->second.rate, 1 / rate, unit->second.unit);
    if (unit == kArithmetic.end()) put("rate." + name, rate, "vectors per cycle");
  }
}

void Calibration::measure_memory(int threads) {
  const std::string on = "." + std::to_string(threads), unit = "GB/s, all threads";
  const int64_t l2 = base_.l2_bytes / 2, l3 = std::max(base_.l3_bytes / 3, 2 * l2 * threads);
  if (threads == 1) {  // every core has one: no more is measured
    // Written: what a copy takes beyond its reading, which is half of its bytes.
    const double read = 1 / read_gbs(l2, 1), copied = 2 / copy_gbs(l2, false, 1);
    put("bandwidth.L2.read.1", 1 / read, unit);
    put("bandwidth.L2.write.1", 1 / std::max(copied - read, read / 2), unit);
  }
  put("bandwidth.L3.read" + on, reread_gbs(l3, threads), unit);
  put("bandwidth.DRAM.read" + on, read_gbs(kMemoryBytes, threads), unit);
  put("bandwidth.DRAM.write" + on, write_gbs(kMemoryBytes, false, threads), unit);
  put("bandwidth.DRAM.write_streamed" + on, write_gbs(kMemoryBytes, true, threads), unit);
  put("bandwidth.DRAM.copy" + on, copy_gbs(kMemoryBytes, false, threads), unit);
  put("bandwidth.DRAM.copy_streamed" + on, copy_gbs(kMemoryBytes, true, threads), unit);
}

void Calibration::measure_rows(int threads) {
  for (const char* kind : {"read", "copy", "copy_streamed"}) {
    for (int64_t run : {256, 512, 2048, 4096, 65536}) {
      const std::vector<int> walked = {1, 2, 4};
      const std::vector<double> ns = line_ns(kind, walked, run, threads);
      for (size_t i = 0; i <= walked.size(); ++i) {  // no kernel walks eight: as four
        const size_t measured = std::min(i, walked.size() - 1);
        put(std::string("interleaved.") + kind + "." + std::to_string(1 << i) + "." + std::to_string(run) +
                "." + std::to_string(threads),
            ns[measured], "ns a line read from DRAM, all threads");
      }
    }
  }
}

std::string Calibration::run() {
  base_.l1_bytes = cache_bytes(1, base_.l1_bytes);
  base_.l2_bytes = std::max(cache_bytes(2, base_.l2_bytes), base_.l1_bytes);
  base_.l3_bytes = std::max(cache_bytes(3, base_.l3_bytes), base_.l2_bytes);
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  jobs_ = cores;
  const double additions = additions_per_ns();
  clock_ghz_ = additions > 0 ? additions : base_.clock_ghz;
  const int64_t reported_l3 = base_.l3_bytes;
  base_.l3_bytes = usable_l3_bytes(reported_l3);
  measure_functions();
  measure_instructions();
  for (int threads = 1; threads <= std::min(cores, 64); threads *= 2) {
    measure_memory(threads);
    if (threads <= 2) measure_rows(threads);
  }
  const std::string taken = "profile " + base_.name;
  const auto quantity = [](double value, const std::string& unit, const std::string& source) {
    return Json{{"value", value}, {"unit", unit}, {"source", source}};
  };
  for (const auto& [key, value] : base_.rates) {
    const bool table =
        key.starts_with("columns.") || key.starts_with("interleaved.") || key.starts_with("bandwidth.");
    if (!table && !rates_.contains(key)) rates_[key] = quantity(value, "as in that profile", taken);
  }
  Json profile = {{"name", "host"}, {"kind", "cpu"}, {"instructions", usable_instructions(here_)}};
  profile["measured_on"] = {{"vendor", here_.vendor}, {"family", here_.family}};
  profile["vector_bytes"] = quantity(base_.vector_bytes, "bytes", taken);
  profile["datapath_bytes"] = quantity(base_.datapath_bytes, "bytes", taken);
  profile["vector_registers"] = quantity(base_.vector_registers, "registers", taken);
  profile["cores"] = quantity(cores, "cores", "operating system");
  profile["clock_ghz"] = quantity(clock_ghz_, "GHz", "measured");
  profile["l1_bytes"] = quantity(double(base_.l1_bytes), "bytes per core", "operating system");
  profile["l2_bytes"] = quantity(double(base_.l2_bytes), "bytes per core", "operating system");
  profile["l3_bytes"] = quantity(double(base_.l3_bytes), "bytes shared",
                                 base_.l3_bytes == reported_l3 ? "operating system" : "measured");
  profile["rates"] = std::move(rates_);
  return profile.dump(2) + "\n";
}

}  // namespace

Result<std::string> calibrate(const Toolchain& toolchain, KernelCache& cache) {
  try {
    return Calibration(toolchain, cache).run();
  } catch (const Refused& refused) {
    return Unsupported{"cannot calibrate: " + refused.reason};
  }
}

}  // namespace tilefuse
