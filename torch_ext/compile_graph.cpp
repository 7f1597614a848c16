#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "codegen/pipeline.h"
#include "codegen/region_executable.h"
#include "codegen/report.h"
#include "core/faults.h"
#include "core/match.h"
#include "torch_ext/call_operator.h"
#include "torch_ext/library.h"
#include "torch_ext/region_operators.h"
#include "torch_ext/register_ops.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr size_t kNameDigits = 16;

// What this process has compiled. Never destroyed: operators live as long as the process.
struct Compiled {
  std::mutex mutex;
  std::vector<std::string> reports;     // by report id
  std::map<std::string, Json> answers;  // by plan key
};
Compiled& compiled() {
  static auto* all = new Compiled;
  return *all;
}

// Graphs of one model have the same names.
int next_dump() {
  static std::atomic<int> next{0};
  return next++;
}

Framework framework() { return {facts_of, std::string("torch ") + TILEFUSE_TORCH_VERSION}; }

void show_progress(int done, int total) {
  if (::isatty(STDERR_FILENO) == 0) return;
  const char* end = done == total ? "\r\033[K" : "";
  std::fprintf(stderr, "\rtilefuse: compiled %d of %d kernels%s", done, total, end);
  std::fflush(stderr);
}

Json output_kinds(const Executable& executable) {
  Json kinds = Json::array();
  for (const ExecutableOutput& output : executable.outputs) {
    kinds.push_back(match(
        output, [](const SlotId&) { return "tensor"; }, [](const Expr&) { return "size"; },
        [](const NoneArgument&) { return "none"; }));
  }
  return kinds;
}

Json input_kinds(const Executable& executable) {
  Json kinds = Json::array();
  for (const ExecutableInput& input : executable.inputs) {
    kinds.push_back(std::holds_alternative<Expr>(input.value) ? "size" : "tensor");
  }
  return kinds;
}

// An operator that exists stays as it is.
template <class Code>
void register_new(const std::string& name, Executable executable, const Code& code) {
  if (!is_registered(name))
    register_executable(name, std::make_shared<GraphRunner>(std::move(executable), code));
}

Json register_compiled(CompiledGraph graph) {
  Json regions = Json::array();
  RegionSymbols symbols;
  const Place place = graph.executable.place;
  // Operators live forever, and so do the modules whose kernels they call.
  static auto* modules = new std::vector<std::optional<Module>>;
  for (size_t r = 0; r < graph.executable.regions.size(); ++r) {
    const CompiledRegion& region = graph.executable.regions[r];
    const std::string name = operator_name(region);
    regions.push_back(name);
    if (place.is_gpu()) {
      register_new(name, region_executable(region, place), RegionKernels{graph.gpu_kernels[r]});
      continue;
    }
    symbols.push_back(symbols_of(graph.modules[r]));
    modules->push_back(graph.modules[r]);
    register_new(name, region_executable(region), RegionSymbols{symbols.back()});
  }
  const std::string name = "graph_" + graph.key.substr(0, kNameDigits);
  Json inputs = input_kinds(graph.executable), outputs = output_kinds(graph.executable);
  const bool lists = takes_lists(graph.executable);
  const bool packs = std::any_of(graph.executable.regions.begin(), graph.executable.regions.end(),
                                 [](const CompiledRegion& region) { return !region.program.packs.empty(); });
  const Json held = frees_inputs(graph.executable) ? Json(held_name(name)) : Json();
  if (place.is_gpu()) {
    register_new(name, std::move(graph.executable), graph.gpu_kernels);
  } else {
    register_new(name, std::move(graph.executable), symbols);
  }
  compiled().reports.push_back(std::move(graph.report));
  return {{"op", name},
          {"fallback_reason", nullptr},
          {"inputs", std::move(inputs)},
          {"takes_lists", lists},
          {"held", held},
          {"outputs", std::move(outputs)},
          {"packs", packs},
          {"report_id", compiled().reports.size() - 1},
          {"regions", std::move(regions)},
          {"warnings", std::move(graph.warnings)},
          {"notes", std::move(graph.notes)},
          {"unmet_pins", std::move(graph.unmet_pins)},
          {"cached", graph.cached}};
}

Json fallback(const std::string& reason, bool strict) {
  if (strict) throw UserError("a graph cannot be compiled: " + reason);
  return {{"op", nullptr},          {"fallback_reason", reason},   {"outputs", Json::array()},
          {"report_id", nullptr},   {"regions", Json::array()},    {"warnings", Json::array()},
          {"notes", Json::array()}, {"unmet_pins", Json::array()}, {"cached", false}};
}

Json compile_new(const std::string& graph_json, const CompileOptions& options) {
  auto graph = compile_captured(graph_json, options, framework(), show_progress);
  if (!graph) return fallback(graph.unsupported().reason, options.strict);
  const std::lock_guard lock(compiled().mutex);
  const std::string key = graph->key;
  // What ran into trouble is tried again when it is asked for again.
  const bool is_sound = graph->warnings.empty();
  if (!graph->cache_refusal.empty()) graph->warnings.push_back(graph->cache_refusal);
  Json answer = register_compiled(*std::move(graph));
  if (is_sound) compiled().answers[key] = answer;
  return answer;
}

Json compile_or_fall_back(const std::string& graph_json, const CompileOptions& options) {
  auto answer = unless_faulty([&] { return compile_new(graph_json, options); });
  return answer ? *std::move(answer) : fallback(answer.unsupported().reason, options.strict);
}

}  // namespace

std::string compile_graph(const std::string& graph_json, const std::string& options_json) {
  StageTimes times;
  CompileOptions options = parse_compile_options(options_json, read_environment());
  if (!options.dump.empty()) options.dump_dir += "/graph_" + std::to_string(next_dump());
  Json answer = times.measure("all", [&] {
    const std::string key = plan_key(graph_json, options, framework());
    {
      const std::lock_guard lock(compiled().mutex);
      const auto known = compiled().answers.find(key);
      const bool reusable = options.dump.empty() && !options.strict;
      if (known != compiled().answers.end() && reusable) return known->second;
    }
    return compile_or_fall_back(graph_json, options);
  });
  answer["milliseconds"] = times.stages().front().milliseconds;
  return answer.dump();
}

std::string report_of(int64_t report_id) {
  const std::lock_guard lock(compiled().mutex);
  const auto& reports = compiled().reports;
  if (report_id < 0 || size_t(report_id) >= reports.size()) {
    throw UserError("there is no report " + std::to_string(report_id));
  }
  return reports[size_t(report_id)];
}

std::string explain_graph(const std::string& graph_json, const std::string& options_json) {
  const CompileOptions options = parse_compile_options(options_json, read_environment());
  auto report = explain_captured(graph_json, options, framework());
  if (!report) throw UserError("the graph runs with the framework: " + report.unsupported().reason);
  return *std::move(report);
}

}  // namespace tilefuse
