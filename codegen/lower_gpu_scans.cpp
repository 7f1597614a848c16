// Scans. Where the lanes stand along the row, its threads take part in every step together
// (codegen/runtime/cuda_scans.h): what is scanned is computed where the step has an element, and the identity
// elsewhere; then all scan; then the rest of the step is done where it has an element. Where they stand
// across rows, a thread has a row to itself and walks on.
#include <algorithm>

#include "codegen/gpu_lowering.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

// By value: whether it is a scan, or made of one.
std::vector<bool> made_of_scans(const TileGraph& graph) {
  std::vector<bool> made(graph.values.size());
  for (uint32_t v = 0; v < made.size(); ++v) {
    made[v] = std::holds_alternative<TileScan>(graph.values[v].op);
    for (const TileValueId operand : operands_of(graph.values[v])) made[v] = made[v] || made[operand.index];
  }
  return made;
}

}  // namespace

// Of this pass, each behind those that it reads.
std::vector<GpuLowering::Scan> GpuLowering::begin_scans() {
  std::vector<Scan> scans;
  if (!tilefuse::scans(graph_)) return scans;
  const std::vector<bool> made = made_of_scans(graph_);
  const auto passes = values_of_passes(graph_, region_.structure, schedule_.keep);
  if (static_cast<size_t>(pass_) >= passes.size()) return scans;
  std::vector<TileValueId> values = passes[static_cast<size_t>(pass_)];
  std::sort(values.begin(), values.end());
  for (const TileValueId id : values) {
    const TileValue& v = graph_[id];
    const auto* op = std::get_if<TileScan>(&v.op);
    if (op == nullptr) continue;
    const ReduceSpelling spelling = spell_reduce(op->kind, v, graph_[v.operands[0]]);
    const DType dtype = spelling.types[0];
    const bool is_vector = region_.is_across() && schedule_.vector > 1;
    const CodeType type{dtype, is_vector ? CodeShape::Vector : CodeShape::Scalar};
    const Code carried = scopes_.var(name_of(id) + "_so_far", type, identity_code(spelling, is_vector));
    Scan scan{id, spelling, carried, std::nullopt, std::nullopt};
    if (!region_.is_across() && schedule_.threads > kWarpThreads)
      scan.parts = parts_of(id, dtype, parts_along_lanes());
    if (!region_.is_across() && schedule_.steps > 1 && !made[v.operands[0].index]) {
      const CodeShape shape = schedule_.vector > 1 ? CodeShape::Vector : CodeShape::Scalar;
      const SymbolId elements = scopes_.symbol(name_of(id), {dtype, shape});
      scopes_.add({Var{.symbol = elements, .initial = std::nullopt, .count = schedule_.steps}, ""});
      scan.elements = reference(elements);
    }
    scans.push_back(std::move(scan));
  }
  return scans;
}

void GpuLowering::lower_scans_across(const std::vector<Scan>& scans) {
  for (const Scan& scan : scans) {
    const Code code = element_of(scan.id, scan.spelling);
    scopes_.add({Assign{scan.carried, std::nullopt, combined(scan.spelling, scan.carried, code)},
                 "%" + graph_[scan.id].name});
    remember_scan(scan.id, scan.carried);
  }
}

void GpuLowering::compute_elements(const std::vector<Scan>& scans) {
  const bool has_any =
      std::any_of(scans.begin(), scans.end(), [](const Scan& scan) { return scan.elements.has_value(); });
  if (!has_any) return;
  for_each_whole_step([&] {
    for (const Scan& scan : scans) {
      if (scan.elements) assign_element(scan, subscript(*scan.elements, *step_));
    }
  });
}

// The identity, where the step has none.
void GpuLowering::assign_element(const Scan& scan, const Code& to) {
  const Code none = identity_code(scan.spelling, schedule_.vector > 1);
  if (!step_conditions().empty()) scopes_.add({Assign{to, std::nullopt, none}, ""});
  where_step_exists([&] { scopes_.add({Assign{to, std::nullopt, element_of(scan.id, scan.spelling)}, ""}); });
}

void GpuLowering::lower_scans_along(const std::vector<Scan>& scans) {
  for (const Scan& scan : scans) {
    Code scanned;
    if (scan.elements) {
      scanned = subscript(*scan.elements, *step_);
    } else {
      const CodeShape shape = schedule_.vector > 1 ? CodeShape::Vector : CodeShape::Scalar;
      const CodeType type{scan.spelling.types[0], shape};
      const SymbolId element = scopes_.symbol(name_of(scan.id), type);
      scopes_.add({Var{.symbol = element, .initial = std::nullopt}, ""});
      scanned = reference(element);
      assign_element(scan, scanned);
    }
    std::vector<Code> arguments = {scanned, scan.carried, integer(schedule_.threads)};
    if (scan.parts) arguments.push_back(*scan.parts);
    scopes_.add({Effect{call(named_across(scan.spelling, "scan_"), std::move(arguments))},
                 "%" + graph_[scan.id].name});
    remember_scan(scan.id, scanned);
  }
}

void GpuLowering::remember_scan(TileValueId id, const Code& code) {
  Computed computed{code, scopes_.depth(), schedule_.vector > 1};
  hold(id, computed);
  scopes_.remember("%" + std::to_string(id.index), computed);
}

// Every thread of the block takes every step, whether it has elements or not.
void GpuLowering::for_each_whole_step(const std::function<void()>& body) {
  const std::string& name = graph_[region_.inner].name;
  const bool is_loop = schedule_.walk == Walk::MultiPass;
  const int64_t width = int64_t{schedule_.threads} * schedule_.vector;
  const Code own = times(thread_, schedule_.vector);
  if (!is_loop && schedule_.steps == 1) {
    column_ = own;
    column_depth_ = scopes_.depth();
    return body();
  }
  const SymbolId counter = is_loop ? scopes_.symbol("first_" + name, index_type_)
                                   : scopes_.symbol("step", {DType::I32, CodeShape::Scalar});
  const Code last = is_loop ? let(name + "_end", index_type_, index_code(graph_[region_.inner].extent))
                            : integer(schedule_.steps);
  if (!is_loop) step_ = reference(counter);
  scopes_.open();
  column_ = add(times(reference(counter), is_loop ? 1 : width), own);
  column_depth_ = scopes_.depth();
  body();
  Block block = scopes_.close();
  const int64_t by = is_loop ? width : 1;
  const int unrolled = is_loop ? 1 : schedule_.steps;
  scopes_.add({For{counter, integer(0), last, by, name, std::move(block), unrolled}, ""});
  step_.reset();
}

std::vector<Code> GpuLowering::step_conditions() {
  const Expr& extent = graph_[region_.inner].extent;
  std::vector<Code> conditions = if_row_exists();
  if (!is_multiple_of(extent, int64_t{schedule_.threads} * schedule_.vector * schedule_.steps))
    conditions.push_back(operate(CodeOperator::Less, {column(), index_code(extent)}));
  return conditions;
}

void GpuLowering::where_step_exists(const std::function<void()>& body) {
  in_condition(step_conditions(), body);
}

}  // namespace tilefuse
