#include "codegen/size_program.h"

#include <algorithm>

#include "core/expr_algebra.h"
#include "core/expr_terms.h"
#include "core/result.h"

namespace tilefuse {
namespace {

// By zero only of sizes that nothing is computed with.
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : floor_divide(a, b); }
int64_t remainder(int64_t a, int64_t b) { return b == 0 ? a : floor_remainder(a, b); }

}  // namespace

SizeProgram::SizeProgram(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
  constants_.resize(symbols_.size(), 0);
}

int SizeProgram::fresh(int64_t value) {
  constants_.push_back(value);
  return int(constants_.size()) - 1;
}

int SizeProgram::constant(int64_t value) {
  const auto [found, inserted] = known_.try_emplace(Expr(value), 0);
  if (inserted) found->second = fresh(value);
  return found->second;
}

int SizeProgram::step(Operation operation, int a, int b) {
  const int target = fresh();
  steps_.push_back({operation, target, a, b});
  return target;
}

int SizeProgram::add_atom(const Expr::Atom& atom) {
  switch (atom.kind) {
    case Expr::AtomKind::Symbol: {
      const auto found = std::find(symbols_.begin(), symbols_.end(), atom.symbol);
      TILEFUSE_CHECK(found != symbols_.end(), "no input gives the size " + atom.symbol);
      return int(found - symbols_.begin());
    }
    case Expr::AtomKind::Index:
      break;
    case Expr::AtomKind::FloorDiv:
      return step(Operation::FloorDiv, add(atom.args[0]), add(atom.args[1]));
    case Expr::AtomKind::Mod:
      return step(Operation::Mod, add(atom.args[0]), add(atom.args[1]));
    case Expr::AtomKind::Min:
      return step(Operation::Min, add(atom.args[0]), add(atom.args[1]));
    case Expr::AtomKind::Max:
      return step(Operation::Max, add(atom.args[0]), add(atom.args[1]));
  }
  throw_internal_error("atom.kind", "an index variable in a size", __FILE__, __LINE__);
}

int SizeProgram::add_term(const Expr::Term& term) {
  int result = -1;
  for (const Expr::Atom& atom : term.factors) {
    const int factor = add_atom(atom);
    result = result < 0 ? factor : step(Operation::Mul, result, factor);
  }
  if (result < 0) return constant(term.coefficient);
  return term.coefficient == 1 ? result : step(Operation::Mul, result, constant(term.coefficient));
}

int SizeProgram::add(const Expr& expr) {
  if (const auto value = expr.constant()) return constant(*value);
  if (const auto found = known_.find(expr); found != known_.end()) return found->second;
  int result = -1;
  for (const Expr::Term& term : expr.terms()) {
    const int part = add_term(term);
    result = result < 0 ? part : step(Operation::Add, result, part);
  }
  known_.emplace(expr, result);
  return result;
}

int SizeProgram::add_list(const std::vector<Expr>& exprs) {
  std::vector<int> parts;
  parts.reserve(exprs.size());
  for (const Expr& expr : exprs) parts.push_back(expr.constant() ? -1 : add(expr));
  const int first = int(constants_.size());
  for (size_t i = 0; i < exprs.size(); ++i) {
    const int target = fresh(exprs[i].constant().value_or(0));
    if (parts[i] >= 0) steps_.push_back({Operation::Copy, target, parts[i], 0});
  }
  return first;
}

void SizeProgram::run(std::span<int64_t> registers) const {
  for (const Step& step : steps_) {
    const int64_t a = registers[size_t(step.a)], b = registers[size_t(step.b)];
    int64_t& target = registers[size_t(step.target)];
    switch (step.operation) {
      case Operation::Copy:
        target = a;
        break;
      case Operation::Add:
        target = checked_add(a, b);
        break;
      case Operation::Mul:
        target = checked_multiply(a, b);
        break;
      case Operation::FloorDiv:
        target = quotient(a, b);
        break;
      case Operation::Mod:
        target = remainder(a, b);
        break;
      case Operation::Min:
        target = std::min(a, b);
        break;
      case Operation::Max:
        target = std::max(a, b);
        break;
    }
  }
}

std::optional<SymbolBinding> bind_symbol(const Expr& size, int position, int dim,
                                         const std::vector<SymbolBinding>& known) {
  if (size.terms().empty() || size.terms().size() > 2) return std::nullopt;
  SymbolBinding binding;
  binding.position = position;
  binding.dim = dim;
  for (const Expr::Term& term : size.terms()) {
    if (term.factors.empty()) {
      binding.offset = term.coefficient;
      continue;
    }
    const Expr::Atom& atom = term.factors[0];
    if (term.factors.size() != 1 || atom.kind != Expr::AtomKind::Symbol) return std::nullopt;
    if (!binding.symbol.empty()) return std::nullopt;
    binding.symbol = atom.symbol;
    binding.factor = term.coefficient;
    binding.range = atom.range;
  }
  const auto is_known = [&](const SymbolBinding& other) { return other.symbol == binding.symbol; };
  if (binding.symbol.empty() || std::any_of(known.begin(), known.end(), is_known)) return std::nullopt;
  return binding;
}

}  // namespace tilefuse
