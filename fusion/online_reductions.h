// Derives one-pass forms of cascaded reductions: what must be carried along the walk, how it is corrected.
//
//   %m = reduce.max(%x) over r            state s0 = max %x                          %m = s0
//   %e = exp(%x - %m)                     anchor a0 ~ -%m     exp of %x, bounded
//   %l = reduce.sum(%e) over r            state s1 = sum exp(%x + a0), moved s1 * f0  %l = exp(-%m - a0) * s1
//
// A reduction whose element depends on an earlier one joins its pass when the element is a sum of products
//   g(x) * exp(A(x) + b(r)) * (B(x) + c(r))^n * h(r)
// with x what varies along the walk and r what the earlier reductions give. States are taken relative to an
// anchor, a number per row that may be any finite one: when it moves, a state s that stands under it becomes
// `moved` (f: exp(new - old), or new / old of a scale; d: new - old), and the value at the end is exact for
// wherever the anchor is. Where it goes is the schedule's business:
//   bounded  the exponent plus the anchor is at most 0 when the anchor is at its target: follow the target
//            (or lazily, when the exponent exceeds a threshold); unset while the target is not finite, with
//            factor 0 out of unset;
//   others   any finite place; the first finite target suits almost all rows. While the walk is under way a
//            target is read with every sum scaled by extent / elements so far, so that sum / n is a mean.
//
// One step for a block of the walk, stage by stage: place the new anchors of the stage (targets from the
// values so far), correct its states by `moved` (which reads states from before the step), add the block's
// elements, compute the stage's value so far. Merging two partial walks is the same with two old sides, each
// with its own factors. What a pass refuses, with a reason, goes to the next one, where earlier results are
// fixed; a pass with a serial scan must not be split.
#pragma once
#include <string>
#include <vector>

#include "fusion/formula.h"
#include "fusion/structure.h"

namespace tilefuse {

enum class OnlineRefusalReason : uint8_t {
  NotSeparable,         // the element is no sum of products of what varies and what moves
  ExponentMixes,        // x * r in an exponent
  PredicateMoves,       // a condition compares x with a moving value
  RoundingMoves,        // rounding on a grid that moves
  NotMonotone,          // a max or min of what is not monotone in x
  NotDistributive,      // a product, argmax, ... of a moving element
  TooManyStates,        // more products than kMaxOnlineTerms
  InnerReductionMixes,  // a reduction over other axes holds both
  GatherMoves,          // a load's index moves
  SerialScan,           // a scan of a moving value
  DependsOnRefused,     // needs a reduction that was refused
};
const char* name_of(OnlineRefusalReason reason);

inline constexpr size_t kMaxOnlineTerms = 24;

struct OnlineState {
  ReduceKind kind;
  FormulaId element;           // over the anchors of its pass
  std::vector<AxisId> axes;    // reduced
  std::vector<AxisId> domain;  // what is left, sorted
  FormulaId moved;             // over states and anchors' moves; the state itself if nothing corrects it
};

enum class AnchorKind : uint8_t { Exp, Shift, Scale };
struct OnlineAnchor {
  AnchorKind kind;
  FormulaId target;  // the good place, over values of the pass so far
  bool bounded;      // Exp only: k + target <= 0 is proved
  FormulaId k;       // what varies: the anchor is added to it (Scale: multiplied with it)
  std::vector<AxisId> domain;
};

struct OnlineStage {
  TileValueId reduction;
  FormulaId final;         // its value: over states, anchors, and reductions of earlier stages
  size_t states, anchors;  // how many there are once this stage is done
};

struct OnlineRefusal {
  TileValueId reduction;
  OnlineRefusalReason reason;
  std::string detail;
};

struct OnlinePass {
  std::vector<OnlineState> states;
  std::vector<OnlineAnchor> anchors;
  std::vector<OnlineStage> stages;
  std::vector<OnlineRefusal> refused;  // a later pass takes them
};

struct OnlineReductions {
  Formulas formulas;
  std::vector<AxisId> axes;  // of the walk
  std::vector<OnlinePass> passes;
  std::vector<TileValueId> serial;  // scans along the walk
};

struct OnlineOptions {
  bool approximate = false;  // round(k * r) ~ r / a * round(k * a)
};

// Every reduction over the structure's reduced axes is in exactly one pass.
OnlineReductions derive_online(const TileGraph& graph, const Structure& structure,
                               const OnlineOptions& options = {});

std::string to_text(const OnlineReductions& derived, const TileGraph& graph);

}  // namespace tilefuse
