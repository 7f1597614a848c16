// Scans. Where the lanes stand along the row, its threads take part in every step together
// (codegen/runtime/cuda_scans.h): what is scanned is computed where the step has an element, and the identity
// elsewhere; then all scan; then the rest of the step is done where it has an element. Where they stand
// across rows, a thread has a row to itself and walks on.
#include <algorithm>

#include "codegen/gpu_lowering.h"
#include "fusion/region_facts.h"

namespace tilefuse {
namespace {

bool reads_a_scan(const TileGraph& graph, TileValueId id) {
  const TileValue& value = graph[id];
  if (std::holds_alternative<TileScan>(value.op)) return true;
  const std::vector<TileValueId> operands = operands_of(value);
  return std::any_of(operands.begin(), operands.end(),
                     [&](TileValueId operand) { return reads_a_scan(graph, operand); });
}

}  // namespace

// Of this pass, each behind those that it reads.
std::vector<GpuLowering::Scan> GpuLowering::begin_scans() {
  std::vector<Scan> scans;
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
    const Code none = is_vector ? call("splat", {spelling.identity}, {dtype}) : spelling.identity;
    const CodeType type{dtype, is_vector ? CodeShape::Vector : CodeShape::Scalar};
    Scan scan{id, spelling, scopes_.var(name_of(id) + "_so_far", type, none), std::nullopt, std::nullopt};
    if (!region_.is_across() && schedule_.threads > kWarpThreads)
      scan.parts = parts_of(id, dtype, parts_along_lanes());
    if (!region_.is_across() && schedule_.steps > 1 && !reads_a_scan(graph_, v.operands[0])) {
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
    const TileValueId id = graph_[scan.id].operands[0];
    Computed element = value(id);
    const bool is_vector = schedule_.vector > 1;
    if (is_vector && !element.is_vector) element = splat(id, element);
    const Code code = converted_element(scan.spelling, graph_[id].dtype, element.code);
    scopes_.add({Assign{scan.carried, std::nullopt, combined(scan.spelling, scan.carried, code)},
                 "%" + graph_[scan.id].name});
    remember_scan(scan.id, scan.carried, is_vector);
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
  const TileValueId id = graph_[scan.id].operands[0];
  const bool is_vector = schedule_.vector > 1;
  const Code none =
      is_vector ? call("splat", {scan.spelling.identity}, {scan.spelling.types[0]}) : scan.spelling.identity;
  if (!step_conditions().empty()) scopes_.add({Assign{to, std::nullopt, none}, ""});
  where_step_exists([&] {
    Computed element = value(id);
    if (is_vector && !element.is_vector) element = splat(id, element);
    scopes_.add(
        {Assign{to, std::nullopt, converted_element(scan.spelling, graph_[id].dtype, element.code)}, ""});
  });
}

void GpuLowering::lower_scans_along(const std::vector<Scan>& scans) {
  for (const Scan& scan : scans) {
    const bool is_vector = schedule_.vector > 1;
    Code scanned;
    if (scan.elements) {
      scanned = subscript(*scan.elements, *step_);
    } else {
      const CodeType type{scan.spelling.types[0], is_vector ? CodeShape::Vector : CodeShape::Scalar};
      const SymbolId element = scopes_.symbol(name_of(scan.id), type);
      scopes_.add({Var{.symbol = element, .initial = std::nullopt}, ""});
      scanned = reference(element);
      assign_element(scan, scanned);
    }
    std::vector<Code> arguments = {scanned, scan.carried, integer(schedule_.threads)};
    if (scan.parts) arguments.push_back(*scan.parts);
    const std::string across = scan.spelling.across;  // scan_add of reduce_add
    scopes_.add({Effect{call("scan_" + across.substr(std::string("reduce_").size()), std::move(arguments))},
                 "%" + graph_[scan.id].name});
    remember_scan(scan.id, scanned, is_vector);
  }
}

void GpuLowering::remember_scan(TileValueId id, const Code& code, bool is_vector) {
  Computed computed{code, scopes_.depth(), is_vector};
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
