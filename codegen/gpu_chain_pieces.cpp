#include "codegen/gpu_chain_pieces.h"

#include <algorithm>

namespace tilefuse {

GpuChainPieces::GpuChainPieces(const GpuChain& chain, const GpuChainSchedule& schedule)
    : GpuSums(chain.graph, chain.of_scores, {chain.walked, chain.widest_access()}, chain.fits_int,
              schedule.block_threads()),
      chain_(chain),
      s_(schedule) {}

void GpuChainPieces::effect(Code code, const std::string& note) {
  scopes_.add({Effect{std::move(code)}, note});
}

Code GpuChainPieces::rows_piece(size_t scores) const {
  int64_t in_front = 0;
  for (size_t i = 0; i < scores; ++i) in_front += int64_t{s_.block_rows} * chain_.scores[i].length;
  return add(pieces_, integer(in_front));
}

Code GpuChainPieces::walked_piece(const Code& stage, size_t piece) const {
  int64_t behind = 0;
  for (size_t i = 0; i < piece; ++i) behind += int64_t{s_.block_walked} * chain_.pieces[i].length;
  const auto number = constant_of(stage);
  return add(pieces_, number ? integer(*number + behind) : add(stage, integer(behind)));
}

// Blocks from where the walk begins; those that threads copy themselves may be counted from anywhere.
Code GpuChainPieces::step_of(const Code& first) const {
  const auto number = constant_of(first), from = constant_of(from_);
  if (number && from) return integer((*number - *from) / s_.block_walked);
  const bool is_from_begin = s_.is_bulk() && constant_of(from_) != 0;
  return divided(is_from_begin ? operate(CodeOperator::Sub, {first, from_}) : first, s_.block_walked);
}

// Where the block of the walk that begins there lies.
Code GpuChainPieces::stage_at(const Code& first) {
  if (const auto number = constant_of(first)) {
    const int64_t stage = *number / s_.block_walked % s_.stages;
    return integer(stage * s_.stage_elements(chain_) + s_.rows_elements(chain_));
  }
  const Code stage = rest_of(step_of(first), s_.stages);
  return add(times(stage, s_.stage_elements(chain_)), integer(s_.rows_elements(chain_)));
}

void GpuChainPieces::begin_piece(const Code& to, const GpuFactor& factor, std::array<int, 2> tile,
                                 const Code& first, const Code& step) {
  effect(call("begin_piece", {to, matrix_of(factor, first), step, index_code(graph_[factor.step].extent)},
              {chain_.dtype}, {tile[0], tile[1], s_.block_threads()}),
         "%" + graph_[factor.load].name);
}

void GpuChainPieces::begin_block(const Code& first) {
  const auto from = constant_of(first), to = constant_of(to_);
  const bool is_there = from && to && *from < *to;
  const Code is_left = operate(CodeOperator::Less, {first, to_});
  in_condition(is_there ? std::vector<Code>{} : std::vector{is_left}, [&] {
    const Code at = scopes_.let(scopes_.depth(), "stage", index_type_, stage_at(first));
    for (size_t i = 0; i < chain_.pieces.size(); ++i) {
      const ChainPiece& piece = chain_.pieces[i];
      const Code to = walked_piece(at, i);
      if (piece.is_of_rows) {
        begin_piece(to, piece.factor, {s_.block_walked, piece.length}, first, integer(0));
      } else {
        begin_piece(to, piece.factor, {piece.length, s_.block_walked}, integer(0), first);
      }
    }
  });
  effect(call("commit_copies", {}));
}

void GpuChainPieces::begin_copies(const Code& first_row, const Code& from, const Code& to) {
  from_ = from;
  to_ = to;
  const CodeType pointer{chain_.dtype, CodeShape::Pointer};
  pieces_ = let("pieces", pointer, shared_elements(chain_.dtype, s_.shared_bytes(chain_)));
  if (s_.is_bulk()) return begin_bulk_copies(first_row);
  for (size_t i = 0; i < chain_.scores.size(); ++i) {
    const ChainScores& made = chain_.scores[i];
    begin_piece(rows_piece(i), made.rows, {s_.block_rows, made.length}, first_row, integer(0));
  }
  for (int block = 0; block < copied_ahead(); ++block)
    begin_block(add(from_, integer(int64_t{block} * s_.block_walked)));
}

// Of the two products that tensor maps copy for.
std::vector<int64_t> GpuChainPieces::stage_sizes() const {
  return {s_.block_rows, s_.block_walked, chain_.depth_sum(), chain_.width_sum(), s_.stages};
}

void GpuChainPieces::begin_bulk_copies(const Code& first_row) {
  const std::vector<int64_t> groups = {s_.warps / kGroupWarps};
  const Code none = integer(0);
  const auto factor = [&](const GpuFactor& of, const GpuBulkFactor& bulk, int lines, const Code& row) {
    const SymbolId map = declare_tensor_map(tensor_maps_, of, bulk, lines);
    return bulk_matrix_of(of, bulk, map, row);
  };
  // Lines of a box: of rows, where elements along them are next to each other, else of steps.
  const auto lines = [](const GpuFactor& of, int rows, int steps) { return of.is_along_k ? rows : steps; };
  const int walked = s_.block_walked;
  const ChainScores& made = chain_.scores[0];
  const ChainPiece &of_scores = chain_.pieces[made.piece], &of_total = chain_.pieces[chain_.totals[0].piece];
  const Code rows =
      factor(made.rows, made.rows_bulk, lines(made.rows, s_.block_rows, made.length), first_row);
  const Code second =
      factor(of_scores.factor, of_scores.bulk, lines(of_scores.factor, walked, of_scores.length), none);
  const Code third =
      factor(of_total.factor, of_total.bulk, lines(of_total.factor, of_total.length, walked), none);
  effect(call("begin_chain_stages", {pieces_}, {}, stage_sizes()));
  in_condition({call("is_copying", {}, {}, groups)}, [&] {
    effect(call("begin_copying_chain", {}, {}, groups));
    effect(call("copy_chain_in_bulk", {pieces_, rows, second, third, from_, to_}, {}, stage_sizes()));
    effect(call("end_thread", {}));
  });
  effect(call("begin_multiplying_chain", {}, {}, groups));
  effect(call("wait_for_rows", {pieces_}, {}, stage_sizes()));
}

void GpuChainPieces::meet_at_block(const Code& first) {
  if (s_.is_bulk()) return;
  effect(call("wait_for_copies", {}, {}, {copied_ahead() - 1}));
  if (s_.is_in_groups()) effect(call("show_to_products", {}));
  effect(call("meet_all", {}));
  const std::string name = "ahead_" + graph_[chain_.walked].name;
  begin_block(scopes_.let(scopes_.depth(), name, index_type_,
                          add(first, integer(int64_t{copied_ahead()} * s_.block_walked))));
}

void GpuChainPieces::about_piece(const std::string& verb, size_t piece, const Code& first) {
  if (!s_.is_bulk()) return;
  const char* name = chain_.pieces[piece].is_of_rows ? "second" : "third";
  effect(call(verb + name, {pieces_, step_of(first)}, {}, stage_sizes()));
}

}  // namespace tilefuse
