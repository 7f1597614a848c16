#include "tools/stages.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "codegen/bundle_body.h"
#include "codegen/bundle_header.h"
#include "codegen/distinct_regions.h"
#include "codegen/emit.h"
#include "codegen/lower_gpu_region.h"
#include "codegen/lower_to_kernel.h"
#include "codegen/pipeline.h"
#include "core/canonicalize.h"
#include "core/graph.h"
#include "core/import/import_graph.h"
#include "core/nearest_name.h"
#include "core/result.h"
#include "core/structural_hash.h"
#include "fusion/chain.h"
#include "fusion/decompose_calls.h"
#include "fusion/gpu_axes.h"
#include "fusion/gpu_plan.h"
#include "fusion/online_reductions.h"
#include "fusion/reduce_concats.h"
#include "fusion/solve.h"
#include "fusion/structure.h"
#include "fusion/whole_graph_region.h"

namespace tilefuse {
namespace {

std::string run_graph(const StageOptions&, const std::string& input) {
  const Graph graph = parse_graph(input);
  verify(graph, "parse_graph");
  return to_text(graph);
}

std::string run_import(const StageOptions&, const std::string& input) {
  const Result<Graph> graph = import_graph(input);
  return graph ? to_text(*graph) : "unsupported: " + graph.unsupported().reason + "\n";
}

std::string run_canonicalize(const StageOptions&, const std::string& input) {
  return to_text(canonicalize(parse_graph(input)));
}

std::string run_reduce_concats(const StageOptions&, const std::string& input) {
  return to_text(reduce_concats(canonicalize(parse_graph(input))));
}

std::string run_hash(const StageOptions&, const std::string& input) {
  return to_text(structural_hash(parse_graph(input))) + "\n";
}

// The whole graph as one region.
std::string run_tiles(const StageOptions&, const std::string& input) {
  const Graph graph = parse_graph(input);
  const Result<TileGraph> tiles = lower_to_tiles(graph, whole_graph_region(graph));
  return tiles ? to_text(*tiles) : "unsupported: " + tiles.unsupported().reason + "\n";
}

std::string run_structure(const StageOptions&, const std::string& input) {
  const TileGraph tiles = parse_tile_graph(input);
  const Result<Structure> structure = analyze_structure(tiles);
  return structure ? to_text(*structure, tiles) : "unsupported: " + structure.unsupported().reason + "\n";
}

std::string run_online(const StageOptions&, const std::string& input) {
  const TileGraph tiles = parse_tile_graph(input);
  const Result<Structure> structure = analyze_structure(tiles);
  if (!structure) return "unsupported: " + structure.unsupported().reason + "\n";
  return to_text(derive_online(tiles, *structure), tiles);
}

std::string option(const StageOptions& options, const std::string& name, const std::string& otherwise) {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : found->second;
}

int number_option(const StageOptions& options, const std::string& name, int otherwise) {
  const std::string text = option(options, name, std::to_string(otherwise));
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) {
    throw UserError("--" + name + " must be a positive number, got " + text);
  }
  return number;
}

std::string without_spaces_around(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// "lanes=8,grid.row=4", or "lanes = 8, grid.row = 4"
Pins pins_option(const StageOptions& options) {
  Pins pins;
  std::istringstream list(option(options, "pins", ""));
  for (std::string pin; std::getline(list, pin, ',');) {
    const size_t equals = pin.find('=');
    if (equals == std::string::npos) throw UserError("--pins: '" + pin + "' is no name=value");
    pins.decisions[without_spaces_around(pin.substr(0, equals))] =
        without_spaces_around(pin.substr(equals + 1));
  }
  return pins;
}

// What a schedule of the tile graph may be, without the preferences of the search.
std::string run_constraints(const StageOptions& options, const std::string& input) {
  const TileGraph tiles = parse_tile_graph(input);
  const Target target = load_target(option(options, "target", "x86-avx2"));
  const Result<std::string> text = constraints_text(tiles, target, pins_option(options));
  return text ? *text : "unsupported: " + text.unsupported().reason + "\n";
}

std::string run_schedule(const StageOptions& options, const std::string& input) {
  const TileGraph tiles = parse_tile_graph(input);
  const Target target = load_target(option(options, "target", "x86-avx2"));
  SolveOptions solving;
  solving.threads = number_option(options, "threads", 1);
  solving.candidates = number_option(options, "candidates", 1);
  const Result<Solution> solution = solve(tiles, target, pins_option(options), solving);
  if (!solution) return "unsupported: " + solution.unsupported().reason + "\n";
  std::string text;
  for (const Schedule& schedule : solution->ranked) text += to_text(schedule, tiles);
  return text;
}

// Without the buffers that only other nests touch.
TileGraph with_its_buffers(TileGraph graph) {
  std::vector<BufferId*> uses;
  for (TileValue& value : graph.values) {
    if (auto* load = std::get_if<TileLoad>(&value.op)) uses.push_back(&load->buffer);
  }
  for (TileStore& store : graph.stores) uses.push_back(&store.buffer);
  std::vector<Buffer> buffers;
  for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
    const auto old = std::partition(uses.begin(), uses.end(), [&](BufferId* id) { return id->index != b; });
    if (old == uses.end()) continue;
    for (auto use = old; use != uses.end(); ++use) (*use)->index = static_cast<uint32_t>(buffers.size());
    uses.erase(old, uses.end());
    buffers.push_back(std::move(graph.buffers[b]));
  }
  graph.buffers = std::move(buffers);
  return graph;
}

std::string phase_text(ChainNest::Phase phase) {
  if (phase == ChainNest::Phase::InLoop) return "// once a block\n";
  return phase == ChainNest::Phase::Before ? "// once a task\n" : "// once a task, at the end\n";
}

// What a chain runs, under the schedule that the solver chooses.
std::string run_nests(const StageOptions& options, const std::string& input) {
  const TileGraph tiles = parse_tile_graph(input);
  const Target target = load_target(option(options, "target", "x86-avx2"));
  const Result<ChainAxes> axes = find_chain_axes(tiles);
  if (!axes) return "unsupported: " + axes.unsupported().reason + "\n";
  const Result<Solution> solution = solve(tiles, target, pins_option(options));
  if (!solution) return "unsupported: " + solution.unsupported().reason + "\n";
  const Schedule& schedule = solution->ranked.front();
  if (schedule.nests.empty()) return "unsupported: a single nest computes " + tiles.name + "\n";
  const Result<Chain> chain = make_chain(tiles, *axes, schedule);
  TILEFUSE_CHECK(chain, "a chain that was solved cannot be made");
  std::string text;
  for (const ChainNest& nest : chain->nests)
    text += phase_text(nest.phase) + to_text(with_its_buffers(nest.graph));
  return text;
}

// A tile graph and its schedule, in their text forms, one behind the other.
KernelProgram lowered_kernel(const std::string& input) {
  const size_t schedule = input.find("\nschedule ");
  if (schedule == std::string::npos) throw UserError("behind the tile graph comes its schedule");
  const TileGraph tiles = parse_tile_graph(input.substr(0, schedule + 1));
  return lower_to_kernel(tiles, parse_schedule(input.substr(schedule + 1), tiles));
}

std::string run_kernel(const StageOptions&, const std::string& input) {
  std::string text;
  for (const Kernel& kernel : lowered_kernel(input).kernels) text += to_text(kernel);
  return text;
}

std::string run_source(const StageOptions&, const std::string& input) {
  return emit(lowered_kernel(input).kernels, cpu_dialect());
}

std::string run_gpu_schedule(const StageOptions& options, const std::string& input) {
  const GpuTarget target = load_gpu_target(option(options, "target", "cuda-sm80"));
  const Result<GpuPlan> plan = plan_gpu(parse_tile_graph(input), target, pins_option(options));
  if (!plan) return "unsupported: " + plan.unsupported().reason + "\n";
  std::string text;
  for (const GpuNest& nest : plan->nests) text += to_text(nest);
  return text;
}

// Under the schedule behind the tile graph, or under those that the solver chooses: a source for each kernel.
std::string run_cuda(const StageOptions& options, const std::string& input) {
  const size_t given = input.find("\nschedule ");
  const TileGraph tiles = parse_tile_graph(input.substr(0, given));
  const GpuTarget target = load_gpu_target(option(options, "target", "cuda-sm80"));
  GpuPlan plan;
  if (given == std::string::npos) {
    Result<GpuPlan> found = plan_gpu(tiles, target, pins_option(options));
    if (!found) return "unsupported: " + found.unsupported().reason + "\n";
    plan = *std::move(found);
  } else {
    const TileGraph merged = merge_reduced_axes(tiles);
    plan.nests.push_back(parse_gpu_nest(input.substr(given + 1), merged));
  }
  std::string text;
  for (const GpuNest& nest : plan.nests) {
    const std::vector<std::string> findings = check_gpu_nest(nest, target);
    if (!findings.empty()) throw UserError("the schedule does not fit: " + findings.front());
    const Result<GpuProgram> program = lower_to_gpu_kernel(nest);
    if (!program) return "unsupported: " + program.unsupported().reason + "\n";
    text += emit({program->kernel}, cuda_dialect());
  }
  return text;
}

// The item with that name, or a UserError that names the nearest.
template <class Item>
const Item& named(const std::vector<Item>& items, const std::string& name, const std::string& what) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.name == name; });
  if (found != items.end()) return *found;
  std::vector<std::string_view> names;
  names.reserve(items.size());
  for (const Item& item : items) names.push_back(item.name);
  const auto nearest = nearest_name(name, names);
  throw UserError("there is no " + what + " '" + name + "'" +
                  (nearest ? "; did you mean '" + *nearest + "'?" : std::string()));
}

Partition partition_of(const Graph& graph, const StageOptions& options) {
  PartitionOptions partition_options;
  partition_options.threads = number_option(options, "threads", 1);
  if (options.contains("fuse-limit")) partition_options.fuse_limit = number_option(options, "fuse-limit", 0);
  return partition(graph, load_target(option(options, "target", "portable-cpu")), partition_options);
}

std::string run_partition(const StageOptions& options, const std::string& input) {
  const Graph graph = parse_graph(input);
  return to_text(partition_of(graph, options), graph);
}

std::string run_products(const StageOptions& options, const std::string& input) {
  const Target target = load_target(option(options, "target", "portable-cpu"));
  RegionPrices prices(target, number_option(options, "threads", 1), {});
  PartitionOptions partitioning;
  partitioning.threads = prices.threads();
  const Decomposed decomposed =
      decompose_calls(parse_graph(input), ProductChoice::Auto, partitioning, prices);
  std::string text = to_text(decomposed.graph);
  for (const auto& [call, verdict] : decomposed.library) {
    text += "%" + decomposed.graph[decomposed.graph[call].results[0]].name + ": " +
            to_text(FusionRefusal(verdict)) + "\n";
  }
  return text;
}

// Regions without programs; every Call can write into given memory.
std::string run_plan(const StageOptions& options, const std::string& input) {
  const Graph graph = parse_graph(input);
  const Partition partition = partition_of(graph, options);
  const DistinctRegions distinct = find_distinct_regions(graph, partition, {});
  std::vector<CompiledRegion> regions;
  for (int r : distinct.representative) {
    CompiledRegion& region = regions.emplace_back();
    region.name = partition.regions[size_t(r)].name;
  }
  const auto facts = [](const Call&) { return CallFacts{false, true, false}; };
  return to_text(plan(graph, partition, std::move(regions), distinct.region_of, facts));
}

// The header of the library that a graph becomes, and how it runs; every input is the caller's.
std::string run_bundle(const StageOptions& options, const std::string& input) {
  const Graph graph = parse_graph(input);
  CompileOptions compile;
  compile.target = option(options, "target", "x86-avx2");
  compile.threads = number_option(options, "threads", 1);
  compile.products = ProductChoice::Own;
  const PlannedGraph planned = plan_graph(graph, compile, {[](const Call&) { return CallFacts{}; }, "none"});
  BundleRequest request;
  request.name = graph.name;
  request.origin = graph.name + ".pt2";
  for (const GraphInput& given : graph.inputs) {
    request.inputs.emplace_back(given.tensor ? BundleInput(BundleArgument{graph[*given.tensor].name})
                                             : BundleInput(BundleLiteral{}));
  }
  const BundlePlan plan = plan_bundle(planned.executable, request);
  SourceWriter body;
  write_bundle_body(body, planned.executable, plan, request);
  return bundle_header(plan, request) + "\n" + body.text();
}

}  // namespace

const std::vector<Stage>& stages() {
  static const std::vector<Stage> table = {
      {"graph", "parse, verify and print a graph", {}, run_graph},
      {"import", "the graph of a captured graph in JSON", {}, run_import},
      {"canonicalize", "a graph without what is dead, equal or known", {}, run_canonicalize},
      {"reduce-concats",
       "a graph whose concatenations with single elements are reduced part by part",
       {},
       run_reduce_concats},
      {"products",
       "a graph with the products decomposed that a region computes faster than the library",
       {{"target", "name of a target, or its profile"}, {"threads", "of the process"}},
       run_products},
      {"hash", "the structural hash of a graph", {}, run_hash},
      {"partition",
       "the regions of a graph, and why the rest was not fused",
       {{"target", "name of a target, or its profile"},
        {"threads", "of the process"},
        {"fuse-limit", "stop after so many merges"}},
       run_partition},
      {"tiles", "the tile graph of a graph taken as one region", {}, run_tiles},
      {"structure", "the loop nest that a tile graph needs", {}, run_structure},
      {"online", "the reductions of a tile graph carried in one pass", {}, run_online},
      {"constraints",
       "what a schedule of a tile graph may be",
       {{"target", "name of a target, or its profile"}, {"pins", "lanes=8,grid.row=4"}},
       run_constraints},
      {"schedule",
       "the schedule of a tile graph",
       {{"target", "name of a target, or its profile"},
        {"pins", "lanes=8,grid.row=4"},
        {"threads", "of the process"},
        {"candidates", "how many schedules to list"}},
       run_schedule},
      {"nests",
       "the tile graphs of the nests that a chain runs",
       {{"target", "name of a target, or its profile"}, {"pins", "grid.q=64,block=128"}},
       run_nests},
      {"kernel", "the kernels of a tile graph with its schedule", {}, run_kernel},
      {"source", "the source of a tile graph with its schedule", {}, run_source},
      {"gpu-schedule",
       "the schedule of a tile graph for a GPU",
       {{"target", "name of a target, or its profile"}, {"pins", "vector=4,threads=128"}},
       run_gpu_schedule},
      {"cuda",
       "the CUDA source of a tile graph, with its schedule or the one that is solved",
       {{"target", "name of a target, or its profile"}, {"pins", "vector=4,threads=128"}},
       run_cuda},
      {"plan",
       "the slots and instructions of a graph",
       {{"target", "name of a target, or its profile"},
        {"threads", "of the process"},
        {"fuse-limit", "stop after so many merges"}},
       run_plan},
      {"bundle",
       "the C header of a graph as a library, and how it runs",
       {{"target", "name of a target, or its profile"}, {"threads", "of the process"}},
       run_bundle},
  };
  return table;
}

std::string run_stage(const std::string& name, const StageOptions& options, const std::string& input) {
  const Stage& stage = named(stages(), name, "stage");
  for (const auto& [option, value] : options) named(stage.options, option, "option of stage " + name);
  return stage.run(options, input);
}

}  // namespace tilefuse
