#include "fusion/gpu_chain_factors.h"

#include <algorithm>

namespace tilefuse {
namespace {

// Whether both are the same lines of memory, all of them next to each other along the same axis.
bool is_same_piece(const TileGraph& graph, const ChainPiece& a, const ChainPiece& b) {
  const auto line = [](const ChainPiece& piece) {
    return piece.is_of_rows ? piece.factor.step : piece.factor.row;
  };
  const auto& from = std::get<TileLoad>(graph[a.factor.load].op);
  const auto& other = std::get<TileLoad>(graph[b.factor.load].op);
  const Expr offset = substitute_index(from.offset, static_cast<int>(line(a).index),
                                       Expr::index(static_cast<int>(line(b).index)));
  return from.buffer == other.buffer && a.length == b.length && a.is_along_walk() == b.is_along_walk() &&
         a.factor.is_wide == b.factor.is_wide && a.factor.pitch == b.factor.pitch &&
         graph[line(a)].extent == graph[line(b)].extent && offset == other.offset;
}

}  // namespace

size_t add_piece(GpuChain& chain, ChainPiece piece, bool may_share) {
  for (size_t i = 0; may_share && i < chain.pieces.size(); ++i) {
    if (is_same_piece(chain.graph, chain.pieces[i], piece)) return i;
  }
  chain.pieces.push_back(std::move(piece));
  return chain.pieces.size() - 1;
}

void describe_bulk_copies(GpuChain& chain) {
  if (!chain.is_pair()) {
    chain.why_not_bulk =
        "it has " + std::to_string(chain.scores.size() + chain.totals.size()) + " products, not two";
    return;
  }
  const auto describe = [&](const GpuFactor& factor, GpuBulkFactor& bulk) {
    Result<GpuBulkFactor> described = describe_bulk_factor(chain.graph, factor, chain.batch);
    if (described) {
      bulk = *std::move(described);
    } else if (chain.why_not_bulk.empty()) {
      chain.why_not_bulk = described.unsupported().reason;
    }
  };
  describe(chain.scores[0].rows, chain.scores[0].rows_bulk);
  for (ChainPiece& piece : chain.pieces) describe(piece.factor, piece.bulk);
}

int GpuChain::depth_sum() const {
  int sum = 0;
  for (const ChainScores& made : scores) sum += made.length;
  return sum;
}
int GpuChain::width_sum() const {
  int sum = 0;
  for (const ChainTotal& made : totals) sum += width_of(made).length;
  return sum;
}
int GpuChain::piece_sum() const {
  int sum = 0;
  for (const ChainPiece& piece : pieces) sum += piece.length;
  return sum;
}

int GpuChain::widest_access() const {
  int widest = of_scores.widest;
  for (const ChainWidth& width : widths) widest = std::max(widest, width.accesses.widest);
  return widest;
}

}  // namespace tilefuse
