// The pieces of a chain's factors in shared memory, and who brings them there: the threads that multiply, or
// one more warpgroup by tensor maps (cuda_bulk_chain.h). The rows of first factors lie in front, then the
// pieces of walked factors, a stage for each block of the walk that is there or on its way.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "codegen/gpu_sums.h"
#include "codegen/region_program.h"
#include "fusion/gpu_chain_schedule.h"

namespace tilefuse {

class GpuChainPieces : protected GpuSums {
 protected:
  GpuChainPieces(const GpuChain& chain, const GpuChainSchedule& schedule);

  // From the block's first row on; the walk goes from one place to another. Leaves `pieces_`. Threads that
  // only copy end in it.
  void begin_copies(const Code& first_row, const Code& from, const Code& to);
  // In front of the block of the walk that begins there: what threads copy themselves is there behind it, and
  // a further block on its way.
  void meet_at_block(const Code& first);
  // The stage of that block, and its pieces.
  Code stage_of(const Code& first, const std::string& name) {
    return scopes_.let(scopes_.depth(), name, index_type_, stage_at(first));
  }
  Code rows_piece(size_t scores) const;
  Code walked_piece(const Code& stage, size_t piece) const;
  // Where others copy: a piece is waited for, and left when the products that read it are done.
  void await_piece(size_t piece, const Code& first) { about_piece("wait_for_", piece, first); }
  void leave_piece(size_t piece, const Code& first) { about_piece("leave_", piece, first); }

  void effect(Code code, const std::string& note = "");

  const GpuChain& chain_;
  const GpuChainSchedule& s_;

 private:
  int copied_ahead() const { return s_.stages - (s_.ahead ? 2 : 1); }  // blocks
  Code step_of(const Code& first) const;
  Code stage_at(const Code& first);
  void begin_piece(const Code& to, const GpuFactor& factor, std::array<int, 2> tile, const Code& first,
                   const Code& step);
  void begin_block(const Code& first);
  void begin_bulk_copies(const Code& first_row);
  void about_piece(const std::string& verb, size_t piece, const Code& first);
  std::vector<int64_t> stage_sizes() const;

  Code pieces_, from_, to_;  // of the walk

 protected:
  std::vector<GpuTensorMap> tensor_maps_;
};

}  // namespace tilefuse
