// The products of a chain for one block of the walk: what is multiplied of its pieces, into which sums, and
// in which order, one after another or the first one of a block beside the second one of the block before.
//
//   multiply_pieces<bf16, ...>(s_sums, pieces, pieces + stage);       scores
//   add_product<bf16, ...>(o, p_weights, pieces + stage + 4096);      to a total
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/gpu_chain_pieces.h"

namespace tilefuse {

class GpuChainProducts : protected GpuChainPieces {
 protected:
  using GpuChainPieces::GpuChainPieces;

  SymbolId array(const std::string& name, int count);                             // of f32
  int scores() const { return s_.warp_rows() * s_.block_walked / kWarpThreads; }  // of a thread

  void make_scores(size_t i);
  void add_to_total(size_t i);

  // Of two products, where scores are made ahead.
  void declare_pairs();
  void begin_both();
  void end_second();
  void narrow_weights();
  void end_walk_ahead(const Code& last);  // block

  Code first_walked_;      // of the block of the walk at hand
  Code stage_;             // of that block
  bool is_first_ = false;  // of the blocks of the walk
  std::map<TileValueId, SymbolId> scores_;
  std::vector<SymbolId> results_;       // of totals
  std::map<size_t, SymbolId> weights_;  // of totals

 private:
  void multiply(const std::string& function, size_t i);
  void begin_second(const Code& first);
  Code block_before() const;

  SymbolId pairs_;  // of weights, narrowed, that are being multiplied
};

}  // namespace tilefuse
