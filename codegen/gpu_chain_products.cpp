#include "codegen/gpu_chain_products.h"

namespace tilefuse {
namespace {

constexpr CodeType kInt{DType::I32, CodeShape::Scalar};
constexpr CodeType kFloat{DType::F32, CodeShape::Scalar};

}  // namespace

SymbolId GpuChainProducts::array(const std::string& name, int count) {
  const SymbolId symbol = scopes_.symbol(name, kFloat);
  scopes_.add({Var{.symbol = symbol, .initial = std::nullopt, .count = count}, ""});
  return symbol;
}

// Begins or makes the scores of the block at hand.
void GpuChainProducts::multiply(const std::string& function, size_t i) {
  const ChainScores& made = chain_.scores[i];
  const SymbolId sums = array(name_of(made.scores) + "_sums", scores());
  scores_[made.scores] = sums;
  std::vector<int64_t> numbers = {s_.block_rows, s_.block_walked, made.length};
  if (!s_.is_in_groups()) numbers.push_back(s_.warp_rows());
  numbers.push_back(int64_t{made.rows.is_along_k});
  numbers.push_back(int64_t{made.walked.is_along_k});
  await_piece(made.piece, first_walked_);
  effect(call(function, {reference(sums), rows_piece(i), walked_piece(stage_, made.piece)}, {chain_.dtype},
              numbers),
         "%" + graph_[made.scores].name);
}

void GpuChainProducts::make_scores(size_t i) {
  multiply(s_.is_in_groups() ? "multiply_pieces_in_groups" : "multiply_pieces", i);
  leave_piece(chain_.scores[i].piece, first_walked_);
}

void GpuChainProducts::add_to_total(size_t i) {
  const ChainTotal& made = chain_.totals[i];
  std::vector<int64_t> numbers = {chain_.width_of(made).length, s_.block_walked};
  if (!s_.is_in_groups()) numbers.push_back(s_.warp_rows());
  numbers.push_back(int64_t{made.factor.is_along_k});
  await_piece(made.piece, first_walked_);
  effect(call(s_.is_in_groups() ? "add_product_in_groups" : "add_product",
              {reference(results_[i]), reference(weights_.at(i)), walked_piece(stage_, made.piece)},
              {chain_.dtype}, numbers),
         "%" + graph_[made.total].name);
  leave_piece(made.piece, first_walked_);
}

void GpuChainProducts::declare_pairs() {
  pairs_ = scopes_.symbol(name_of(chain_.totals[0].weights) + "_pairs", kInt);
  scopes_.add({Var{.symbol = pairs_, .initial = std::nullopt, .count = scores() / 2}, ""});
}

void GpuChainProducts::begin_both() {
  const ChainScores& made = chain_.scores[0];
  multiply("begin_scores", 0);
  if (!is_first_) begin_second(block_before());
  effect(call("wait_for_products", {}, {}, {is_first_ ? 0 : 1}));
  effect(call("settle", {reference(scores_.at(made.scores))}));
  leave_piece(made.piece, first_walked_);
}

Code GpuChainProducts::block_before() const {
  return operate(CodeOperator::Sub, {first_walked_, integer(s_.block_walked)});
}

void GpuChainProducts::begin_second(const Code& first) {
  const ChainTotal& made = chain_.totals[0];
  await_piece(made.piece, first);
  const Code piece = walked_piece(stage_of(first, "stage_behind"), made.piece);
  effect(call("begin_product", {reference(results_[0]), reference(pairs_), piece}, {chain_.dtype},
              {chain_.width_of(made).length, s_.block_walked, int64_t{made.factor.is_along_k}}),
         "%" + graph_[made.total].name);
}

void GpuChainProducts::end_second() {
  if (is_first_) return;
  effect(call("wait_for_products", {}, {}, {0}));
  effect(call("settle", {reference(results_[0])}));
  leave_piece(chain_.totals[0].piece, block_before());
}

void GpuChainProducts::narrow_weights() {
  effect(call("narrow_pairs", {reference(pairs_), reference(weights_.at(0))}, {chain_.dtype},
              {s_.block_walked}));
}

void GpuChainProducts::end_walk_ahead(const Code& last) {
  begin_second(last);
  effect(call("wait_for_products", {}, {}, {0}));
  effect(call("settle", {reference(results_[0])}));
}

}  // namespace tilefuse
