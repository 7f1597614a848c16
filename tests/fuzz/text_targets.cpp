// Targets over text and JSON: graphs, programs, tile graphs, sizes.
#include <nlohmann/json.hpp>

#include "codegen/emit.h"
#include "codegen/executable_json.h"
#include "codegen/lower_to_kernel.h"
#include "codegen/pipeline.h"
#include "codegen/size_program.h"
#include "core/canonicalize.h"
#include "core/import/document.h"
#include "core/import/import_graph.h"
#include "core/import/inline_graphs.h"
#include "core/import/size_hints.h"
#include "core/import/sympy_text.h"
#include "fusion/check_schedule.h"
#include "fusion/solve.h"
#include "offline/fused_program.h"
#include "offline/region_files.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tools/stages.h"

namespace tilefuse::fuzz {
namespace {

// Beyond these, planning takes longer than is useful here.
constexpr size_t kMostNodes = 96, kMostTileValues = 48, kMostAxes = 10;
constexpr const char* kTarget = "x86-avx2";
constexpr std::string_view kPins = "pins: ";

const tilefuse::Target& profile() {
  static const tilefuse::Target target = load_target(kTarget);
  return target;
}

CallFacts cautious(const Call&) {
  return {.results_may_alias = true, .writes_results = false, .is_ordered = true};
}

PlannedGraph planned(const Graph& graph, const SizeHints& hints) {
  CompileOptions options;
  options.target = kTarget;
  options.threads = 2;
  options.hints = hints;
  return plan_graph(graph, options, {cautious, "none"});
}

// What is printed reads as what it was.
void require_text_form(const Graph& graph) {
  const std::string text = to_text(graph);
  require(to_text(parse_graph(text)) == text, "a graph prints as something else than it reads: " + text);
}

// Region operators are named after their texts: these, too, have to read as what they were.
std::vector<std::string> operators_of(const PlannedGraph& planned) {
  std::vector<std::string> operators;
  for (size_t r = 0; r < planned.regions.size(); ++r) {
    require_text_form(planned.region_graphs[r]);
    operators.push_back(
        region_operator(planned.regions[r].compiled.name, to_text(planned.region_graphs[r]), false));
  }
  return operators;
}

}  // namespace

void run_graph(std::string_view bytes) {
  try {
    const Graph graph = parse_graph(bytes);
    verify(graph, "parse_graph");
    require_text_form(graph);
    require_text_form(canonicalize(graph));
    if (graph.nodes.size() <= kMostNodes) planned(graph, {});
  } catch (const UserError&) {
  }
}

void run_program(std::string_view bytes) {
  try {
    const Result<Graph> graph = import_graph(bytes);
    if (!graph) return;
    require_text_form(*graph);
    if (graph->nodes.size() > kMostNodes) return;
    const PlannedGraph plan = planned(*graph, captured_size_hints(bytes));
    nlohmann::json document = parse_document(bytes, "program");
    inline_graphs(document);
    fused_program(document, plan.executable, operators_of(plan)).dump();
  } catch (const UserError&) {
  }
}

namespace {

// With the decisions that somebody pinned, as tilefuse-opt takes them.
std::string solved(const std::string& text, const std::string& pins) {
  const StageOptions options = {{"target", kTarget}, {"pins", pins}};
  run_stage("constraints", options, text);
  const std::string schedule = run_stage("schedule", options, text);
  return schedule.starts_with("schedule ") ? schedule : "";
}

void run_tile_graph(const std::string& text, const std::string& pins, std::string schedule_text) {
  const TileGraph tiles = parse_tile_graph(text);
  const std::string printed = to_text(tiles);
  require(to_text(parse_tile_graph(printed)) == printed,
          "a tile graph prints as something else than it reads");
  if (tiles.values.size() > kMostTileValues || tiles.axes.size() > kMostAxes) return;
  const bool is_given = !schedule_text.empty();
  if (!is_given) {
    run_stage("online", {}, text);
    schedule_text = solved(text, pins);
  }
  if (schedule_text.empty()) return;
  const Schedule schedule = parse_schedule(schedule_text, tiles);
  const std::vector<std::string> findings = check_schedule(tiles, schedule, &profile());
  if (is_given && !findings.empty()) return;
  require(findings.empty(), "the solver breaks a rule of its own: " + (findings.empty() ? "" : findings[0]));
  const std::string again = to_text(schedule, tiles);
  require(to_text(parse_schedule(again, tiles), tiles) == again,
          "a schedule prints as something else than it reads: " + again);
  emit(lower_to_kernel(tiles, schedule).kernels, cpu_dialect());
}

}  // namespace

void run_tile_graph(std::string_view bytes) {
  std::string pins;
  if (bytes.starts_with(kPins)) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    pins = bytes.substr(kPins.size(), end - kPins.size());
    bytes.remove_prefix(end);
  }
  const size_t schedule = bytes.find("\nschedule ");
  try {
    run_tile_graph(std::string(bytes.substr(0, schedule)), pins,
                   schedule == std::string_view::npos ? "" : std::string(bytes.substr(schedule + 1)));
  } catch (const UserError&) {
  }
}

namespace {

// Questions and answers of an expression, over indices of a few extents.
void ask(const Expr& e) {
  const std::vector<Expr> extents = {Expr::symbol("n", {.low = 2}), Expr(7), Expr(64)};
  const Expr simpler = simplify(e, extents);
  bounds(simpler, extents);
  proves_nonnegative(e, extents);
  is_multiple_of(e, 16);
  const Expr again = parse_expr(to_text(e));
  require(to_text(again) == to_text(e),
          "an expression prints as something else than it reads: " + to_text(e));
  const std::vector<int64_t> indices(64, 3);
  const bool has_all = indices_of(e).empty() || indices_of(e).back() < int(indices.size());
  if (has_all) evaluate(e, indices, [](const std::string&) { return int64_t{5}; });
  if (!indices_of(e).empty()) return;
  SizeProgram program(symbols_of(e));
  program.add(e);
  std::vector<int64_t> registers(program.constants().begin(), program.constants().end());
  for (size_t i = 0; i < symbols_of(e).size(); ++i) registers[i] = INT64_MAX / 3;
  program.run(registers);
}

}  // namespace

void run_size_expression(std::string_view bytes) {
  try {
    ask(parse_expr(bytes));
  } catch (const UserError&) {
  }
  try {
    const auto range = [](const std::string& name, SymbolRange assumed) {
      return name == "s1" ? SymbolRange{.low = 4, .high = 4096, .multiple_of = 4} : assumed;
    };
    const Result<Expr> sympy = aten::parse_sympy(bytes, range);
    if (sympy) ask(*sympy);
  } catch (const UserError&) {
  }
}

void run_executable(std::string_view bytes) {
  try {
    const Executable executable = parse_executable(bytes);
    const std::string text = to_json(executable);
    require(to_json(parse_executable(text)) == text, "an executable is written otherwise than it was read");
  } catch (const UserError&) {
  } catch (const InternalError&) {  // of a plan that this program did not write
  }
}

}  // namespace tilefuse::fuzz
