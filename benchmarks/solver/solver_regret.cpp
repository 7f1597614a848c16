// How good are the solver's choices? For every region of a file: compiles and times the choice, what differs
// from it in one decision, and a sweep of legal schedules from the whole space, and prints one line of JSON:
//
//   {"region": "softmax_1024_512_f32", "first_us": 81.2, "best_us": 78.0, "regret_first": 0.041, ...}
//
// Regret: time over the fastest of all that were timed, less one. Three rounds: all; then the first eight
// that tuning tries (codegen/tune.h) and the fastest of the others; then the choice, the fastest of the first
// three and eight that are tried, and the fastest of all. The last round counts: whoever was chosen for a
// short time has been lucky, the more so the more it was chosen from.
//
// With --record, the time of every schedule goes to a file, so that another short list can be judged from it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "benchmarks/solver/rank_correlation.h"
#include "benchmarks/solver/regions.h"
#include "benchmarks/solver/sweep.h"
#include "codegen/time_schedules.h"
#include "codegen/tune.h"
#include "core/contains.h"
#include "core/options.h"
#include "core/result.h"
#include "fusion/solve.h"

namespace tilefuse {
namespace {

constexpr size_t kFirst = 8;      // that are tried: in the second round whatever they took in the first
constexpr size_t kFinalists = 8;  // of the others, the fastest
constexpr int kPlacements = 3;    // of the buffers, in the first round
constexpr int kMorePlacements = 9, kMostPlacements = 15;  // in the others: few schedules are left
constexpr size_t kPlacementBytes = size_t{1} << 22;

struct Arguments {
  std::string regions;
  int threads = 1;
  size_t listed = 96;  // the choice and what differs from it in one decision or two
  size_t sweep = 24;
  std::string filter;
  std::string record;
};

// Those of all launches, too.
std::string decisions_text(const Schedule& schedule, const TileGraph& graph) {
  std::istringstream lines(to_text(schedule, graph));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const size_t word = line.find_first_not_of(' ');
    const bool is_price = word != std::string::npos &&
                          (line.compare(word, 4, "cost") == 0 || line.compare(word, 5, "alone") == 0);
    if (!is_price) text += line + "\n";
  }
  return text;
}

using Times = std::vector<Result<double>>;

// Places of those that could be timed, the fastest first.
std::vector<size_t> in_order(const Times& times) {
  std::vector<size_t> places;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i]) places.push_back(i);
  }
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return *times[a] < *times[b]; });
  return places;
}

// What a placement of the buffers does to all schedules is no schedule's merit: its share is the mean of the
// logarithms of their times.
double log_mean(const Times& times) {
  double sum = 0;
  int count = 0;
  for (const Result<double>& time : times) {
    if (!time) continue;
    sum += std::log(*time);
    ++count;
  }
  return sum / std::max(count, 1);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// For each schedule the median over several placements, each in memory allocated anew: which pages the
// buffers get decides what a cache of physical addresses holds, a quarter of the time for some. Schedules
// take turns on the same pages, so that each placement compares them all; what it costs all of them is taken
// out before the medians. Not the least of the placements, which is the luckiest draw and differs from one
// set of draws to the next; and not the fastest run of all: behind something else that had the caches a
// kernel that reads from L2 may run a third faster for some calls (Zen 5: a dot product at 265 instead of 210
// GB/s).
Times timed_in_several_places(const TileGraph& graph, const std::vector<Schedule>& schedules, int placements,
                              const Toolchain& toolchain, KernelCache& cache, const TimingOptions& options) {
  std::vector<std::vector<char>> taken;  // the pages of earlier placements, which would be given out first
  std::vector<Times> timed;
  std::vector<double> shares;
  for (int placement = 0; placement < placements; ++placement) {
    taken.emplace_back(kPlacementBytes, char{1});
    timed.push_back(time_schedules(graph, schedules, toolchain, cache, options));
    shares.push_back(log_mean(timed.back()));
  }
  const double share = median(shares);
  Times usual = timed.front();
  for (size_t i = 0; i < usual.size(); ++i) {
    if (!usual[i]) continue;
    std::vector<double> beside;  // logarithms, as if each placement had been the usual one
    for (size_t p = 0; p < timed.size(); ++p) beside.push_back(std::log(*timed[p][i]) - shares[p] + share);
    usual[i] = std::exp(median(beside));
  }
  return usual;
}

// The first eight that tuning tries of the list, where they take what was measured.
std::vector<size_t> tried_of(const std::vector<Schedule>& listed, const Times& times) {
  std::vector<std::optional<double>> measured_us;
  const auto time = [&](const std::vector<size_t>& places) {
    std::vector<std::optional<double>> us;
    for (const size_t place : places)
      us.push_back(times[place] ? std::optional(*times[place]) : std::nullopt);
    return us;
  };
  return tried_by_prospects(listed, kFirst, time, measured_us);
}

// Of the schedules timed: those that tuning tries, in that order, and the fastest of the others.
std::vector<size_t> finalists_of(const std::vector<size_t>& tried, const Times& times) {
  std::vector<size_t> finalists;
  for (const size_t place : tried) {
    if (times[place]) finalists.push_back(place);
  }
  std::vector<size_t> others = in_order(times);
  std::erase_if(others, [&](size_t place) { return contains(finalists, place); });
  others.resize(std::min(kFinalists, others.size()));
  finalists.insert(finalists.end(), others.begin(), others.end());
  return finalists;
}

// The place of the fastest of the first `count`.
size_t fastest_of_first(size_t count, const Times& times) {
  size_t fastest = 0;
  for (size_t i = 1; i < std::min(count, times.size()); ++i) {
    if (*times[i] < *times[fastest]) fastest = i;
  }
  return fastest;
}

// The places without repetitions, and for each of `places` where it is among them.
struct Distinct {
  std::vector<size_t> places, index;
};
Distinct distinct(const std::vector<size_t>& places) {
  Distinct found;
  for (const size_t place : places) {
    const auto known = std::find(found.places.begin(), found.places.end(), place);
    found.index.push_back(size_t(known - found.places.begin()));
    if (known == found.places.end()) found.places.push_back(place);
  }
  return found;
}

std::vector<Schedule> at_places(const std::vector<Schedule>& schedules, const std::vector<size_t>& places) {
  std::vector<Schedule> found;
  for (const size_t place : places) found.push_back(schedules[place]);
  return found;
}

// A line of the record: the region's schedules in the order of the list, with what each was priced at and
// took.
nlohmann::ordered_json recorded(const TileGraph& graph, const std::vector<Schedule>& schedules,
                                const Times& times) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < schedules.size(); ++i) {
    nlohmann::ordered_json row = {{"decisions", decisions_text(schedules[i], graph)},
                                  {"predicted_us", schedules[i].cost_us}};
    if (times[i]) row["us"] = *times[i];
    rows.push_back(std::move(row));
  }
  return {{"region", graph.name}, {"schedules", std::move(rows)}};
}

// Predicted and measured times of all schedules with both, and how alike they order them.
void compare_prices(const std::vector<Schedule>& schedules, const Times& times,
                    nlohmann::ordered_json& line) {
  std::vector<double> predicted, measured;
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (!times[i] || schedules[i].cost_us == 0) continue;
    predicted.push_back(schedules[i].cost_us);
    measured.push_back(*times[i]);
  }
  nlohmann::ordered_json pairs = nlohmann::ordered_json::array();
  for (size_t i = 0; i < predicted.size(); ++i) pairs.push_back({predicted[i], measured[i]});
  line["priced"] = std::move(pairs);
  if (const auto correlation = rank_correlation(predicted, measured)) line["rank_correlation"] = *correlation;
}

nlohmann::ordered_json measure(const BenchmarkRegion& region, const Target& target,
                               const Toolchain& toolchain, KernelCache& cache, const Arguments& arguments,
                               std::ostream& record) {
  const int threads = arguments.threads;
  nlohmann::ordered_json line = {
      {"region", region.graph.name}, {"family", region.family}, {"threads", threads}};
  const auto start = std::chrono::steady_clock::now();
  const Result<Solution> choice = solve(region.graph, target, {}, {.threads = threads});
  const std::chrono::duration<double, std::milli> solve_time = std::chrono::steady_clock::now() - start;
  line["solve_ms"] = solve_time.count();
  if (!choice) {
    line["refused"] = choice.unsupported().reason;
    return line;
  }
  std::vector<Schedule> schedules =
      solve(region.graph, target, {}, {.threads = threads, .candidates = int(arguments.listed)})->ranked;
  const auto most = std::min(schedules.size(), size_t{kTunedAmong});
  const std::vector<Schedule> tuned_among(schedules.begin(), schedules.begin() + std::ptrdiff_t(most));
  std::set<std::string> known;
  for (const Schedule& schedule : schedules) known.insert(decisions_text(schedule, region.graph));
  for (Schedule& schedule : sweep(region.graph, target, threads, arguments.sweep)) {
    if (known.insert(decisions_text(schedule, region.graph)).second) schedules.push_back(std::move(schedule));
  }
  const TimingOptions options{.threads = threads, .rounds = 25, .most_ms = 60};
  const Times times =
      timed_in_several_places(region.graph, schedules, kPlacements, toolchain, cache, options);
  if (!times.front()) {
    line["refused"] = times.front().unsupported().reason;
    return line;
  }
  record << recorded(region.graph, schedules, times).dump() << std::endl;
  const std::vector<size_t> tried = tried_of(tuned_among, times);
  const std::vector<size_t> finalists = finalists_of(tried, times);
  const auto retimed = [&](const std::vector<Schedule>& some, int placements) {
    return timed_in_several_places(region.graph, some, placements, toolchain, cache, options);
  };
  const std::vector<Schedule> second = at_places(schedules, finalists);
  const Times second_times = retimed(second, kMorePlacements);
  std::vector<size_t> best_of;  // of one, three, eight and all
  for (const size_t count : {size_t{1}, size_t{3}, kFirst, schedules.size()}) {
    best_of.push_back(fastest_of_first(count, second_times));
  }
  // Each once: a schedule that is measured twice has regret against itself.
  const Distinct chosen = distinct(best_of);
  const std::vector<Schedule> third = at_places(second, chosen.places);
  const Times third_times = retimed(third, kMostPlacements);
  const size_t winner = in_order(third_times).front();
  const double best = *third_times[winner];
  const auto time_of = [&](size_t choice) { return *third_times[chosen.index[choice]]; };
  line["timed"] = schedules.size();
  compare_prices(schedules, times, line);
  line["predicted_us"] = schedules.front().cost_us;
  line["first_us"] = time_of(0);
  line["best_us"] = best;
  line["regret_first"] = time_of(0) / best - 1;
  line["regret_best_of_3"] = time_of(1) / best - 1;
  line["regret_best_of_8"] = time_of(2) / best - 1;
  line["chosen"] = decisions_text(schedules.front(), region.graph);
  line["winner"] = decisions_text(third[winner], region.graph);
  return line;
}

int run(const Arguments& arguments) {
  KernelCache cache((std::filesystem::temp_directory_path() / "tilefuse_solver_regret").string(),
                    int64_t{1} << 30);
  const auto toolchain = find_toolchain({"", read_environment().search_path, ""}, cache);
  if (!toolchain) {
    std::fprintf(stderr, "%s\n", toolchain.unsupported().reason.c_str());
    return 1;
  }
  const Target target = load_target(host_target_name());
  std::ofstream record(arguments.record);  // without a name nothing is written
  for (const BenchmarkRegion& region : read_regions(arguments.regions)) {
    if (region.graph.name.find(arguments.filter) == std::string::npos) continue;
    std::printf("%s\n", measure(region, target, *toolchain, cache, arguments, record).dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tilefuse

int main(int argc, char** argv) {
  CLI::App app(
      "Times the schedules of regions and prints the regret of the solver's choices, a line of JSON each.");
  tilefuse::Arguments arguments;
  app.add_option("regions", arguments.regions, "a file of tile graphs")->required()->check(CLI::ExistingFile);
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber);
  app.add_option("--listed", arguments.listed, "schedules that the solver ranks, per region")
      ->check(CLI::Range(8, 1000));
  app.add_option("--sweep", arguments.sweep, "schedules that the solver did not rank, per region");
  app.add_option("--filter", arguments.filter, "only regions with this in their names");
  app.add_option("--record", arguments.record, "a file for the times of all schedules");
  CLI11_PARSE(app, argc, argv);
  try {
    return tilefuse::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
