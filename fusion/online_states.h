// Turns the normal form of one reduction into anchors, carried states and a final value.
//
// Internal to derive_online. States and anchors are shared by equal elements within a pass.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "fusion/online_normal_form.h"

namespace tilefuse {

class OnlineStates {
 public:
  OnlineStates(const TileGraph& graph, Formulas& formulas, NormalForm& normal_form, OnlinePass& pass)
      : graph_(graph), formulas_(formulas), normal_form_(normal_form), pass_(pass) {}

  // Adds the stage to the pass. If the normal form has a refusal afterwards the pass is as it was.
  void derive(TileValueId reduction);

 private:
  using ShiftPowers = std::vector<std::pair<size_t, int>>;  // anchor, power; sorted
  struct SumOf {  // a state: sum of fixed * exp(k + a) * product of (k + a)^j * round(k * a)
    Monomial fixed;
    std::optional<size_t> exp, scale;
    ShiftPowers shifts;
  };
  struct Shifted {
    size_t anchor;
    int power;
    FormulaId away;  // from the anchor to where the shift should be
  };

  FormulaId derive_sum(const Polynomial& sum);
  FormulaId derive_product(const Monomial& product, double coefficient);
  FormulaId anchor_exponentials(const Monomial& product, SumOf& state, FormulaId rest);
  std::vector<Shifted> anchor_shifts(const Monomial& product, const SumOf& state);
  Monomial steady_part(const Monomial& product, Monomial& left) const;
  FormulaId peel(FormulaId id, ReduceKind kind);
  FormulaId peel_product(FormulaId id, ReduceKind kind);

  size_t anchor(AnchorKind kind, const Polynomial& k, const Polynomial& r);
  std::optional<FormulaId> bounded_target(const Polynomial& k, const Polynomial& r);
  std::optional<FormulaId> bound(FormulaId id, const Polynomial& k, double coefficient,
                                 const Monomial& others);
  FormulaId anchor_formula(size_t number) { return formulas_.anchor(number, pass_.anchors[number].domain); }
  FormulaId away_from(size_t number, const Polynomial& r) {
    return formulas_.sub(normal_form_.formula_of(r), anchor_formula(number));
  }

  FormulaId state(ReduceKind kind, FormulaId element, const std::function<FormulaId(FormulaId)>& moved = {});
  FormulaId sum_state(const SumOf& of);
  FormulaId moved_sum(const SumOf& of, FormulaId self);

  const TileGraph& graph_;
  Formulas& formulas_;
  NormalForm& normal_form_;
  OnlinePass& pass_;
  std::vector<AxisId> axes_;  // of the reduction at hand
  std::map<std::pair<AnchorKind, Polynomial>, size_t> anchors_;
  std::map<std::tuple<ReduceKind, std::vector<AxisId>, FormulaId>, size_t> states_;
};

}  // namespace tilefuse
