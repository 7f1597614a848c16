#include "offline/plan_file.h"

#include "core/import/size_hints.h"
#include "core/import/storage_views.h"
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

}  // namespace

bool is_fused(const ProgramFile& file) { return file.archive().has("extra/tilefuse/tilefuse.json"); }

Result<PlannedGraph> plan_file(const ProgramFile& file, CompileOptions options) {
  const Result<Graph> graph = import_program(file);
  if (!graph) return graph.unsupported();
  options.hints = captured_size_hints(file.program());
  try {
    return plan_graph(*graph, options, {guessed_facts, "none"});
  } catch (const SizeError& error) {
    file.archive().fail(file.program_entry(), error.what());
  }
}

}  // namespace tilefuse
