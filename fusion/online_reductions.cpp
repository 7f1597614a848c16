#include "fusion/online_reductions.h"

#include <algorithm>

#include "fusion/online_states.h"

namespace tilefuse {
namespace {

// Does `value` need one of the refused reductions?
std::optional<TileValueId> refused_operand(const TileGraph& graph, TileValueId value,
                                           const OnlinePass& pass) {
  std::vector<TileValueId> pending = operands_of(graph[value]);
  std::vector<bool> seen(graph.values.size(), false);
  while (!pending.empty()) {
    const TileValueId next = pending.back();
    pending.pop_back();
    if (seen[next.index]) continue;
    seen[next.index] = true;
    for (const OnlineRefusal& refusal : pass.refused) {
      if (refusal.reduction == next) return next;
    }
    for (const TileValueId operand : operands_of(graph[next])) pending.push_back(operand);
  }
  return std::nullopt;
}

OnlinePass derive_pass(const TileGraph& graph, OnlineReductions& derived,
                       const std::vector<TileValueId>& remaining, const std::vector<bool>& fixed,
                       const OnlineOptions& options) {
  OnlinePass pass;
  NormalForm normal_form(graph, derived.formulas, derived.axes, fixed, options);
  OnlineStates states(graph, derived.formulas, normal_form, pass);
  for (const TileValueId reduction : remaining) {
    normal_form.clear_refusal();
    if (const auto needed = refused_operand(graph, reduction, pass)) {
      normal_form.refuse(OnlineRefusalReason::DependsOnRefused, derived.formulas.of(*needed));
    } else {
      states.derive(reduction);
    }
    if (!normal_form.refusal()) continue;
    pass.refused.push_back(*normal_form.refusal());
    pass.refused.back().reduction = reduction;
  }
  return pass;
}

std::string anchor_line(const OnlineReductions& derived, const TileGraph& graph, const OnlinePass& pass,
                        size_t number) {
  const OnlineAnchor& anchor = pass.anchors[number];
  const bool is_exp = anchor.kind == AnchorKind::Exp;
  const char* kind = is_exp ? "exp" : anchor.kind == AnchorKind::Shift ? "shift" : "scale";
  return "  anchor a" + std::to_string(number) + " ~ " + derived.formulas.to_text(graph, anchor.target) +
         "    " + kind + " of " + derived.formulas.to_text(graph, anchor.k) +
         (anchor.bounded ? ", bounded\n" : "\n");
}

std::string state_line(const OnlineReductions& derived, const TileGraph& graph, const OnlinePass& pass,
                       size_t number) {
  const OnlineState& state = pass.states[number];
  std::string text = "  state s" + std::to_string(number) + " = " + info(state.kind).name + " " +
                     derived.formulas.to_text(graph, state.element);
  const bool is_moved = derived.formulas[state.moved].op != FormulaOp::State;
  if (is_moved) text += "    moved " + derived.formulas.to_text(graph, state.moved);
  return text + "\n";
}

}  // namespace

OnlineReductions derive_online(const TileGraph& graph, const Structure& structure,
                               const OnlineOptions& options) {
  OnlineReductions derived{Formulas(graph), structure.reduced, {}, {}};
  std::vector<TileValueId> remaining;
  for (const TileValueId id : structure.reductions) {
    const bool is_scan = std::holds_alternative<TileScan>(graph[id].op);
    (is_scan ? derived.serial : remaining).push_back(id);
  }
  std::vector<bool> fixed(graph.values.size(), false);
  while (!remaining.empty()) {
    OnlinePass pass = derive_pass(graph, derived, remaining, fixed, options);
    for (const OnlineStage& stage : pass.stages) fixed[stage.reduction.index] = true;
    remaining.clear();
    for (const OnlineRefusal& refusal : pass.refused) remaining.push_back(refusal.reduction);
    derived.passes.push_back(std::move(pass));
  }
  return derived;
}

const char* name_of(OnlineRefusalReason reason) {
  switch (reason) {
    case OnlineRefusalReason::NotSeparable:
      return "NotSeparable";
    case OnlineRefusalReason::ExponentMixes:
      return "ExponentMixes";
    case OnlineRefusalReason::PredicateMoves:
      return "PredicateMoves";
    case OnlineRefusalReason::RoundingMoves:
      return "RoundingMoves";
    case OnlineRefusalReason::NotMonotone:
      return "NotMonotone";
    case OnlineRefusalReason::NotDistributive:
      return "NotDistributive";
    case OnlineRefusalReason::TooManyStates:
      return "TooManyStates";
    case OnlineRefusalReason::InnerReductionMixes:
      return "InnerReductionMixes";
    case OnlineRefusalReason::GatherMoves:
      return "GatherMoves";
    case OnlineRefusalReason::SerialScan:
      return "SerialScan";
    case OnlineRefusalReason::DependsOnRefused:
      return "DependsOnRefused";
  }
  return "?";
}

std::string to_text(const OnlineReductions& derived, const TileGraph& graph) {
  std::string text;
  for (size_t number = 0; number < derived.passes.size(); ++number) {
    const OnlinePass& pass = derived.passes[number];
    text += "pass " + std::to_string(number) + "\n";
    size_t state = 0, anchor = 0;
    for (const OnlineStage& stage : pass.stages) {
      for (; anchor < stage.anchors; ++anchor) text += anchor_line(derived, graph, pass, anchor);
      for (; state < stage.states; ++state) text += state_line(derived, graph, pass, state);
      text += "  value %" + graph[stage.reduction].name + " = " +
              derived.formulas.to_text(graph, stage.final) + "\n";
    }
    for (const OnlineRefusal& refusal : pass.refused) {
      text += "  refused %" + graph[refusal.reduction].name + ": " + name_of(refusal.reason) + ": " +
              refusal.detail + "\n";
    }
  }
  for (const TileValueId scan : derived.serial) text += "serial %" + graph[scan].name + "\n";
  return text;
}

}  // namespace tilefuse
