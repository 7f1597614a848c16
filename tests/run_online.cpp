#include "tests/run_online.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/reference_op.h"

namespace tilefuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnset = kInfinity;

double identity_of(ReduceKind kind) {
  if (kind == ReduceKind::Max) return -kInfinity;
  if (kind == ReduceKind::Min) return kInfinity;
  return kind == ReduceKind::Prod ? 1 : 0;
}

double combined(ReduceKind kind, double a, double b) {
  if (kind == ReduceKind::Sum) return a + b;
  if (kind == ReduceKind::Prod) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return kind == ReduceKind::Max ? std::max(a, b) : std::min(a, b);
}

template <class Fn>
Tensor zipped(const Tensor& a, const Tensor& b, const Fn& fn) {
  Tensor result(DType::F64, a.shape());
  for (int64_t i = 0; i < a.count(); ++i) result.set_float(i, fn(a.float_at(i), b.float_at(i)));
  return result;
}

struct Partial {
  std::vector<Tensor> states, anchors;
  int64_t count = 0;
};

class Runner {
 public:
  Runner(const TileGraph& graph, const OnlineReductions& derived, const OnlinePass& pass,
         const std::vector<Tensor>& inputs, const TileEvaluation& evaluation, const OnlineRun& run,
         const KnownValues& fixed)
      : graph_(graph),
        derived_(derived),
        formulas_(derived.formulas),
        pass_(pass),
        inputs_(inputs),
        evaluation_(evaluation),
        run_(run),
        fixed_(fixed),
        context_{evaluation.symbols, {.rounds_floats = false}} {
    for (const Axis& axis : graph.axes) extents_.push_back(context_.size(axis.extent));
  }

  int64_t extent() const { return extents_[derived_.axes[0].index]; }

  Partial empty() const {
    Partial part;
    for (const OnlineState& state : pass_.states) {
      part.states.push_back(filled(state.domain, identity_of(state.kind)));
    }
    for (const OnlineAnchor& anchor : pass_.anchors) part.anchors.push_back(filled(anchor.domain, kUnset));
    return part;
  }

  // One step (a single part and a block) or one merge (several parts, no block).
  Partial fold(const std::vector<Partial>& parts, int64_t begin, int64_t end,
               KnownValues* results = nullptr) {
    Partial total = parts[0];
    total.count = end - begin;
    for (const Partial& part : parts) total.count += part.count;
    range_ = {begin, end};
    Memo block, running, target;
    std::vector<Memo> movers(parts.size());
    if (end > begin) {
      leaves_ = evaluate_values(graph_, inputs_, evaluation_, {{derived_.axes[0], range_}}, fixed_);
    }
    for (size_t p = 0; p < parts.size(); ++p) {
      for (size_t i = 0; i < parts[p].states.size(); ++i) set_state(movers[p], i, parts[p].states[i]);
    }
    size_t state = 0, anchor = 0;
    for (const OnlineStage& stage : pass_.stages) {
      for (; anchor < stage.anchors; ++anchor) {
        const Tensor old = joint(parts, anchor);
        const Tensor placed =
            place(pass_.anchors[anchor], old, evaluate(target, pass_.anchors[anchor].target));
        total.anchors[anchor] = placed;
        const FormulaId id = id_of(FormulaOp::Anchor, anchor);
        for (Memo* memo : {&block, &running, &target}) memo->insert_or_assign(id, used(anchor, placed));
        for (size_t p = 0; p < parts.size(); ++p)
          set_moves(movers[p], anchor, parts[p].anchors[anchor], placed);
      }
      for (; state < stage.states; ++state) {
        total.states[state] = advance(state, movers, block, end > begin);
        set_state(running, state, total.states[state]);
      }
      finish(stage, running, target, total.count);
      if (results != nullptr) (*results)[stage.reduction] = running.at(derived_id(stage.reduction));
    }
    return total;
  }

 private:
  using Memo = std::map<FormulaId, Tensor>;

  FormulaId derived_id(TileValueId value) const { return formulas_.of(value); }

  FormulaId id_of(FormulaOp op, size_t number) {
    if (op == FormulaOp::State) return formulas_.state(number, pass_.states[number].domain);
    const auto& domain = pass_.anchors[number].domain;
    if (op == FormulaOp::Anchor) return formulas_.anchor(number, domain);
    if (op == FormulaOp::Factor) return formulas_.factor(number, domain);
    return formulas_.delta(number, domain);
  }

  std::vector<int64_t> shape_of(const std::vector<AxisId>& axes) const {
    std::vector<int64_t> shape;
    for (const AxisId axis : axes) {
      shape.push_back(axis == derived_.axes[0] ? range_.end - range_.begin : extents_[axis.index]);
    }
    return shape;
  }

  Tensor filled(const std::vector<AxisId>& domain, double value) const {
    Tensor result(DType::F64, shape_of(domain));
    for (int64_t i = 0; i < result.count(); ++i) result.set_float(i, value);
    return result;
  }

  void set_state(Memo& memo, size_t number, const Tensor& value) {
    memo.insert_or_assign(id_of(FormulaOp::State, number), value);
  }

  static Tensor wide(const Tensor& tensor) {
    if (!is_float(tensor.dtype())) return tensor;
    Tensor result(DType::F64, tensor.shape());
    for (int64_t i = 0; i < tensor.count(); ++i) result.set_float(i, tensor.float_at(i));
    return result;
  }

  const Tensor& evaluate(Memo& memo, FormulaId id) {
    const auto found = memo.find(id);
    if (found != memo.end()) return found->second;
    return memo.emplace(id, compute(memo, id)).first->second;
  }

  Tensor compute(Memo& memo, FormulaId id) {
    const Formula formula = formulas_[id];
    if (formula.op == FormulaOp::Constant) return filled({}, formula.constant);
    if (formula.op == FormulaOp::Value) {
      const auto known = fixed_.find({formula.number});
      return wide(known != fixed_.end() ? known->second : leaves_[formula.number]);
    }
    TILEFUSE_CHECK(formula.op == FormulaOp::Map || formula.op == FormulaOp::Indicator,
                   "a state or an anchor is read before it is known");
    const std::vector<int64_t> shape = shape_of(formula.axes);
    std::vector<Tensor> operands;
    std::vector<const Tensor*> pointers;
    for (const FormulaId arg : formula.args) {
      operands.push_back(spread(evaluate(memo, arg), formulas_[arg].axes, formula.axes, shape));
    }
    for (const Tensor& operand : operands) pointers.push_back(&operand);
    const bool is_test = formula.op == FormulaOp::Map && (info(formula.fn).result == ResultKind::Bool ||
                                                          operands.back().dtype() == DType::Bool);
    TensorType type{is_test ? DType::Bool : DType::F64, {}};
    for (const int64_t size : shape) type.shape.emplace_back(size);
    const MapFn fn = formula.op == FormulaOp::Map ? formula.fn : MapFn::Cast;
    return reference_map(context_, fn, pointers, type);
  }

  double finite_or(size_t number, double value) const {
    const double rest = pass_.anchors[number].kind == AnchorKind::Scale ? 1 : 0;
    return std::isfinite(value) ? value : rest;
  }
  Tensor used(size_t number, const Tensor& anchor) const {
    return zipped(anchor, anchor, [&](double a, double) { return finite_or(number, a); });
  }

  Tensor joint(const std::vector<Partial>& parts, size_t number) const {
    Tensor old = parts[0].anchors[number];
    const bool bounded = pass_.anchors[number].bounded;
    for (const Partial& part : parts) {
      old = zipped(old, part.anchors[number], [&](double a, double b) {
        return bounded ? std::min(a, b) : std::isfinite(a) ? a : b;
      });
    }
    return old;
  }

  // Any finite anchor is right. A bounded one stays unset while nothing but exp(-inf) has been added.
  Tensor place(const OnlineAnchor& anchor, const Tensor& old, const Tensor& target) const {
    const size_t number = static_cast<size_t>(&anchor - pass_.anchors.data());
    const Tensor aligned = spread(target, formulas_[anchor.target].axes, anchor.domain, old.shape());
    return zipped(old, aligned, [&](double was, double goal) {
      const bool good = std::isfinite(goal) && (goal != 0 || anchor.kind != AnchorKind::Scale);
      double now = good ? goal : was;
      if (anchor.kind == AnchorKind::Shift) {
        if (run_.shift == ShiftPolicy::Zero) return 0.0;
        if (run_.shift == ShiftPolicy::First && std::isfinite(was)) now = was;
      } else if (run_.threshold > 0 && std::isfinite(was) && std::abs(was - goal) <= run_.threshold) {
        now = was;
      }
      return anchor.bounded ? now : finite_or(number, now);
    });
  }

  void set_moves(Memo& mover, size_t number, const Tensor& old, const Tensor& placed) {
    const bool is_scale = pass_.anchors[number].kind == AnchorKind::Scale;
    auto factor = [&](double was, double now) {
      if (!std::isfinite(was)) return 0.0;
      return is_scale ? finite_or(number, now) / was : std::exp(finite_or(number, now) - was);
    };
    auto delta = [&](double was, double now) { return finite_or(number, now) - finite_or(number, was); };
    mover.insert_or_assign(id_of(FormulaOp::Factor, number), zipped(old, placed, factor));
    mover.insert_or_assign(id_of(FormulaOp::Delta, number), zipped(old, placed, delta));
  }

  Tensor advance(size_t number, std::vector<Memo>& movers, Memo& block, bool has_block) {
    const OnlineState& state = pass_.states[number];
    const auto combine = [&](double a, double b) { return combined(state.kind, a, b); };
    auto aligned = [&](const Tensor& tensor, FormulaId id) {
      return spread(tensor, formulas_[id].axes, state.domain, shape_of(state.domain));
    };
    Tensor value = aligned(evaluate(movers[0], state.moved), state.moved);
    for (size_t p = 1; p < movers.size(); ++p) {
      value = zipped(value, aligned(evaluate(movers[p], state.moved), state.moved), combine);
    }
    return has_block ? zipped(value, reduced(state, evaluate(block, state.element)), combine) : value;
  }

  Tensor reduced(const OnlineState& state, const Tensor& element) const {
    std::vector<AxisId> axes = state.domain;
    axes.insert(axes.end(), state.axes.begin(), state.axes.end());
    std::sort(axes.begin(), axes.end());
    Reduce plain{state.kind, {}};
    for (size_t i = 0; i < axes.size(); ++i) {
      const bool gone = std::find(state.axes.begin(), state.axes.end(), axes[i]) != state.axes.end();
      if (gone) plain.dims.push_back(static_cast<int>(i));
    }
    TensorType type{DType::F64, {}};
    for (const int64_t size : shape_of(state.domain)) type.shape.emplace_back(size);
    const auto& from = formulas_[state.element].axes;
    return reference_reduce(context_, plain, spread(element, from, axes, shape_of(axes)), type);
  }

  // The value so far; targets see sums as if the rest of the walk were like what has been seen.
  void finish(const OnlineStage& stage, Memo& running, Memo& target, int64_t count) {
    const FormulaId id = derived_id(stage.reduction);
    const Tensor final = evaluate(running, stage.final);
    const auto& domain = formulas_[id].axes;
    const Tensor value = spread(final, formulas_[stage.final].axes, domain, shape_of(domain));
    running.insert_or_assign(id, value);
    const bool is_sum = std::get<TileReduce>(graph_[stage.reduction].op).kind == ReduceKind::Sum;
    const double scale = is_sum && count > 0 ? static_cast<double>(extent()) / static_cast<double>(count) : 1;
    target.insert_or_assign(id, zipped(value, value, [&](double x, double) { return x * scale; }));
  }

  const TileGraph& graph_;
  const OnlineReductions& derived_;
  Formulas formulas_;
  const OnlinePass& pass_;
  const std::vector<Tensor>& inputs_;
  const TileEvaluation& evaluation_;
  const OnlineRun& run_;
  const KnownValues& fixed_;
  ReferenceContext context_;
  std::vector<int64_t> extents_;
  AxisRange range_;
  std::vector<Tensor> leaves_;
};

}  // namespace

KnownValues run_online(const TileGraph& graph, const OnlineReductions& derived,
                       const std::vector<Tensor>& inputs, const TileEvaluation& evaluation,
                       const OnlineRun& run) {
  KnownValues fixed;
  for (const OnlinePass& pass : derived.passes) {
    Runner runner(graph, derived, pass, inputs, evaluation, run, fixed);
    std::vector<Partial> parts;
    for (int split = 0; split < run.splits; ++split) {
      const int64_t begin = runner.extent() * split / run.splits;
      const int64_t end = runner.extent() * (split + 1) / run.splits;
      Partial part = runner.empty();
      for (int64_t at = begin; at < end; at += run.block) {
        part = runner.fold({part}, at, std::min(at + run.block, end));
      }
      parts.push_back(std::move(part));
    }
    while (run.pairwise && parts.size() > 1) {
      std::vector<Partial> merged;
      for (size_t i = 0; i < parts.size(); i += 2) {
        const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(i);
        const auto end = parts.begin() + static_cast<std::ptrdiff_t>(std::min(i + 2, parts.size()));
        merged.push_back(runner.fold({begin, end}, 0, 0));
      }
      parts = std::move(merged);
    }
    KnownValues results;
    runner.fold(parts, 0, 0, &results);
    for (auto& [reduction, value] : results) fixed.insert_or_assign(reduction, std::move(value));
  }
  return fixed;
}

}  // namespace tilefuse
