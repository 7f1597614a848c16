// The normal form of an element: a sum of products whose factors either vary along a walk or move with it.
//
//   exp(%x - %m) * (%x - %mu)   ->   1 * exp(k: %x, r: -%m) * shift(k: %x, r: -%mu)
//
// K varies along the walk, R depends on a reduction over it that is not yet fixed, I is neither, X both. The
// rules (online_rules.cpp) rewrite X; what they cannot is a refusal. K-only parts stay whole, so that they
// cost no states of their own.
#pragma once
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fusion/online_reductions.h"

namespace tilefuse {

struct OnlineFactor {  // a formula, or a special factor by number
  bool is_special = false;
  uint32_t number = 0;
  auto operator<=>(const OnlineFactor&) const = default;
};
using Monomial = std::map<OnlineFactor, double>;  // factor -> power
using Polynomial = std::map<Monomial, double>;    // product -> coefficient

struct SpecialFactor {
  enum class Kind : uint8_t { Exp, Shift, Rounded };  // exp(k + r), k + r, round(k * r)
  Kind kind;
  Polynomial k, r;  // Rounded: one product each
  auto operator<=>(const SpecialFactor&) const = default;
};

enum class MovingKind : uint8_t { I, K, R, X };

class NormalForm {
 public:
  NormalForm(const TileGraph& graph, Formulas& formulas, std::vector<AxisId> walk,
             const std::vector<bool>& fixed, const OnlineOptions& options);

  // The sum of products; with `flat` sums of K and R are not kept together as shifts. Empty, too, once
  // refusal() is set.
  Polynomial normal(FormulaId id, bool flat = false);

  bool moves(FormulaId id) const;
  bool varies(FormulaId id) const;
  MovingKind kind(FormulaId id) const;
  MovingKind kind(const OnlineFactor& factor) const;
  MovingKind kind(const Monomial& product) const;
  bool is_nonnegative(FormulaId id) const;

  Monomial times(const Monomial& a, const Monomial& b);
  static OnlineFactor plain(FormulaId id) { return {false, id.index}; }
  OnlineFactor special(SpecialFactor factor);
  const SpecialFactor* as_special(const OnlineFactor& factor) const;
  bool is_guard(const OnlineFactor& factor) const;

  // Back to formulas. Guards select, outermost: 0 * nan never appears.
  Monomial guards_of(const Monomial& product) const;
  FormulaId guarded(FormulaId id, const Monomial& guards);
  FormulaId formula_of(const Monomial& product, double coefficient = 1);
  FormulaId formula_of(const Polynomial& sum);

  void refuse(OnlineRefusalReason reason, FormulaId where, const std::string& detail = "");
  const std::optional<OnlineRefusal>& refusal() const { return refusal_; }
  void clear_refusal() { refusal_.reset(); }

 private:
  using Rewritten = std::optional<Polynomial>;  // nullopt: no rule, the formula stays whole
  Rewritten rewrite(FormulaId id, bool flat, bool mixed);
  Rewritten rewrite_sum(FormulaId id, bool flat, bool mixed);
  Rewritten rewrite_product(FormulaId id, bool flat);
  Rewritten rewrite_power(FormulaId id, bool mixed);
  Rewritten rewrite_exp(FormulaId id);
  Rewritten rewrite_log(FormulaId id, bool mixed);
  Rewritten rewrite_abs(FormulaId id, bool mixed);
  Rewritten rewrite_angle(FormulaId id, bool mixed);
  Rewritten rewrite_where(FormulaId id, bool mixed);
  Rewritten rewrite_round(FormulaId id, bool mixed);
  Rewritten power(const Polynomial& sum, double exponent);
  std::optional<Monomial> fractional_factor(OnlineFactor factor, double own, double exponent, int& unsure);
  Polynomial product(const Polynomial& a, const Polynomial& b);
  bool has_rounded_or_shift(const Monomial& product) const;
  void refuse_whole(FormulaId id);

  const TileGraph& graph_;
  Formulas& formulas_;
  std::vector<AxisId> walk_;
  OnlineOptions options_;
  std::vector<bool> value_moves_;  // by TileValueId
  std::vector<SpecialFactor> specials_;
  std::map<SpecialFactor, uint32_t> special_numbers_;
  std::optional<OnlineRefusal> refusal_;
};

void add_to(Polynomial& sum, const Monomial& product, double coefficient);
void add_to(Polynomial& sum, const Polynomial& other, double scale = 1);

}  // namespace tilefuse
