#include "offline/plan_file.h"

#include <algorithm>
#include <set>

#include "core/constants.h"
#include "core/import/size_hints.h"
#include "core/import/storage_views.h"
#include "core/nearest_name.h"
#include "core/size_error.h"

namespace tilefuse {
namespace {

// What can be said of an operator by its name alone; where it is a guess, on the side of caution.
CallFacts guessed_facts(const Call& call) {
  const std::string name = call.op.substr(call.op.find("::") + 2);
  const bool is_aten = call.op.starts_with("aten::");
  return {.results_may_alias = !is_aten || aten::makes_views("aten." + name + ".default"),
          .writes_results = false,
          .is_ordered = true};
}

// A name that no region has was misspelt, and would change nothing.
void check_pins(const CompileOptions& options, const PlannedGraph& planned) {
  std::vector<std::string_view> names;
  names.reserve(planned.regions.size());
  for (const LoweredRegion& region : planned.regions) names.push_back(region.compiled.program.name);
  for (const auto& [name, unused] : options.pins) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string nearest = nearest_name(name, names).value_or("");
    if (nearest.empty() && !names.empty()) nearest = names.front();
    throw UserError("pin " + name + ": no region of the program has this name" +
                    (nearest.empty() ? "; it has none" : "; there is " + nearest));
  }
}

// What a program does not write into is constant; tensors that share an entry are written together.
Graph frozen(const ProgramFile& file, const Graph& graph) {
  const auto entry_of = [&](size_t position) {
    const ProgramInput& input = file.inputs().at(position);
    return input.kind == ProgramInput::Kind::State ? file.state().at(input.index).entry : std::string();
  };
  std::set<std::string> written;
  for (const auto& [position, value] : graph.mutations) written.insert(entry_of(size_t(position)));
  Graph result = freeze(graph);
  for (size_t i = 0; i < result.inputs.size(); ++i) {
    const std::optional<ValueId> tensor = result.inputs[i].tensor;
    if (tensor && written.contains(entry_of(i))) result.values[tensor->index].is_constant = false;
  }
  return result;
}

}  // namespace

bool is_fused(const ProgramFile& file) { return file.archive().has("extra/tilefuse/tilefuse.json"); }

Result<PlannedGraph> plan_file(const ProgramFile& file, const CompileOptions& options) {
  const Result<Graph> graph = import_program(file);
  if (!graph) return graph.unsupported();
  return plan_program(file, *graph, target_to_plan_for(graph->device, options), options);
}

PlannedGraph plan_program(const ProgramFile& file, const Graph& graph, const KernelTarget& target,
                          CompileOptions options) {
  options.hints = captured_size_hints(file.program());
  try {
    PlannedGraph planned = plan_graph(frozen(file, graph), target, options, {guessed_facts, "none"});
    check_pins(options, planned);
    return planned;
  } catch (const SizeError& error) {
    file.archive().fail(file.program_entry(), error.what());
  }
}

}  // namespace tilefuse
