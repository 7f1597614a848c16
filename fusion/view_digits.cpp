#include "fusion/view_digits.h"

#include <algorithm>

#include "core/expr_terms.h"

namespace tilefuse {
namespace {

using AtomKind = Expr::AtomKind;

struct Digit {
  int index;
  Expr divisor, extent;
  Expr coefficient;  // in the sum that is an input coordinate
};

std::optional<int> plain_index(const Expr& e) {
  const auto& terms = e.terms();
  if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].factors.size() != 1) return std::nullopt;
  const Expr::Atom& atom = terms[0].factors[0];
  if (atom.kind != AtomKind::Index) return std::nullopt;
  return atom.index;
}

const Expr::Atom* only_atom(const Expr& e) {
  const auto& terms = e.terms();
  const bool is_atom = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  return is_atom ? terms[0].factors.data() : nullptr;
}

bool depends_on_index(const Expr::Atom& atom) {
  if (atom.kind == AtomKind::Index) return true;
  return std::any_of(atom.args.begin(), atom.args.end(),
                     [](const Expr& arg) { return !indices_of(arg).empty(); });
}

// index, index // c, index % m, index // c % m, index % m // c
std::optional<Digit> digit_of_atom(const Expr::Atom& atom, const std::vector<Expr>& extents) {
  if (atom.kind == AtomKind::Index) return Digit{atom.index, 1, extents[atom.index], 1};
  if (atom.kind != AtomKind::FloorDiv && atom.kind != AtomKind::Mod) return std::nullopt;
  const Expr& operand = atom.args[0];
  const Expr& constant = atom.args[1];
  if (!indices_of(constant).empty()) return std::nullopt;
  std::optional<Digit> digit;
  if (const auto index = plain_index(operand)) {
    digit = Digit{*index, 1, extents[*index], 1};
  } else if (const Expr::Atom* inner = only_atom(operand)) {
    digit = digit_of_atom(*inner, extents);
  }
  if (!digit) return std::nullopt;
  if (atom.kind == AtomKind::Mod) {
    digit->extent = constant;
    return digit;
  }
  const auto extent = exact_divide(digit->extent, constant);
  if (!extent) return std::nullopt;
  digit->divisor = digit->divisor * constant;
  digit->extent = *extent;
  return digit;
}

std::optional<Digit> digit_of_term(const Expr::Term& term, const std::vector<Expr>& extents) {
  std::optional<Digit> digit;
  Expr coefficient = term.coefficient;
  for (const Expr::Atom& atom : term.factors) {
    if (!depends_on_index(atom)) {
      if (atom.kind != AtomKind::Symbol) return std::nullopt;
      coefficient = coefficient * Expr::symbol(atom.symbol, atom.range);
      continue;
    }
    if (digit) return std::nullopt;
    digit = digit_of_atom(atom, extents);
    if (!digit) return std::nullopt;
  }
  if (digit) digit->coefficient = coefficient;
  return digit;
}

// The digits of one input coordinate, outermost first, if together they count through the whole dimension.
std::optional<std::vector<Digit>> digits_of_coordinate(const Expr& coordinate, const Expr& extent,
                                                       const std::vector<Expr>& output_extents) {
  std::vector<Digit> unordered;
  for (const Expr::Term& term : coordinate.terms()) {
    auto digit = digit_of_term(term, output_extents);
    if (!digit) return std::nullopt;
    if (!digit->extent.is_constant(1)) unordered.push_back(std::move(*digit));
  }
  std::vector<Digit> ordered;
  Expr covered = 1;
  while (!unordered.empty()) {
    const auto next = std::find_if(unordered.begin(), unordered.end(),
                                   [&](const Digit& digit) { return digit.coefficient == covered; });
    if (next == unordered.end()) return std::nullopt;
    covered = covered * next->extent;
    ordered.insert(ordered.begin(), *next);
    unordered.erase(next);
  }
  if (covered != extent) return std::nullopt;
  return ordered;
}

// Cuts `extent` at the digits' borders. Empty if the digits overlap.
std::vector<Digit> tile_dimension(std::vector<Digit> digits, int index, const Expr& extent) {
  std::vector<Digit> tiles;
  Expr covered = 1;
  while (!digits.empty()) {
    auto next = std::find_if(digits.begin(), digits.end(),
                             [&](const Digit& digit) { return digit.divisor == covered; });
    if (next == digits.end()) {  // a piece that the input does not depend on, up to the closest border
      std::optional<Expr> gap;
      for (const Digit& digit : digits) {
        const auto candidate = exact_divide(digit.divisor, covered);
        if (candidate && (!gap || exact_divide(*gap, *candidate))) gap = candidate;
      }
      if (!gap) return {};
      tiles.insert(tiles.begin(), {index, covered, *gap, 0});
      covered = covered * *gap;
      continue;
    }
    tiles.insert(tiles.begin(), *next);
    const Digit& digit = tiles.front();
    covered = covered * digit.extent;
    std::erase_if(digits, [&](const Digit& other) {
      return other.divisor == digit.divisor && other.extent == digit.extent;
    });
    const bool overlaps = std::any_of(digits.begin(), digits.end(), [&](const Digit& other) {
      return !exact_divide(other.divisor, covered);
    });
    if (overlaps) return {};
  }
  if (covered == extent) return tiles;
  const auto rest = exact_divide(extent, covered);
  if (!rest) return {};
  tiles.insert(tiles.begin(), {index, covered, *rest, 0});
  return tiles;
}

}  // namespace

ViewDigits digits_of(const IndexMap& map, const std::vector<Expr>& input_shape) {
  const size_t output_rank = map.extents.size();
  std::vector<std::optional<std::vector<Digit>>> coordinates;
  std::vector<std::vector<Digit>> used(output_rank);
  for (size_t dim = 0; dim < input_shape.size(); ++dim) {
    coordinates.push_back(digits_of_coordinate(map.coordinates[dim], input_shape[dim], map.extents));
    if (!coordinates.back()) continue;
    for (const Digit& digit : *coordinates.back()) used[digit.index].push_back(digit);
  }
  ViewDigits result;
  std::vector<std::vector<Digit>> tiles(output_rank);
  for (size_t dim = 0; dim < output_rank; ++dim) {
    tiles[dim] = tile_dimension(used[dim], static_cast<int>(dim), map.extents[dim]);
    std::vector<Expr>& extents = result.output.emplace_back();
    for (const Digit& tile : tiles[dim]) extents.push_back(tile.extent);
  }
  for (const auto& digits : coordinates) {
    auto& pieces = result.input.emplace_back();
    if (!digits) continue;
    pieces.emplace();
    for (const Digit& digit : *digits) {
      const auto& row = tiles[digit.index];
      const auto piece = std::find_if(row.begin(), row.end(), [&](const Digit& tile) {
        return tile.divisor == digit.divisor && tile.extent == digit.extent;
      });
      if (piece == row.end()) {
        pieces.reset();
        break;
      }
      pieces->emplace_back(digit.index, static_cast<int>(piece - row.begin()));
    }
  }
  return result;
}

}  // namespace tilefuse
