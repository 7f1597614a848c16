// A GPU kernel under construction: the state that the parts of lower_to_gpu_kernel share.
//
// A value is computed when it is first asked for: in the block of the current step where it varies along the
// inner axis, else in the function's block, before the loop that is open. What one step computes is written
// once; whether it stands in a loop, in a condition, or in neither, is decided in `for_each_step`.
//
//   threads   lower_to_gpu_kernel.cpp   rows, coordinates, steps, passes, what is done across threads
//   tiles     lower_gpu_tiles.cpp       loads that go through shared memory
//   values    lower_gpu_values.cpp      maps, loads, stores, expressions
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/lower_to_gpu_kernel.h"
#include "codegen/scope_stack.h"
#include "codegen/spell_reduce.h"
#include "core/expr_terms.h"

namespace tilefuse {

class GpuLowering {
 public:
  GpuLowering(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule);
  GpuLowering(const GpuLowering&) = delete;
  GpuLowering& operator=(const GpuLowering&) = delete;
  GpuProgram run();

 private:
  struct Accumulator {
    TileValueId reduction;
    ReduceSpelling spelling;
    Code code;
  };

  // ---- threads
  void declare_arguments();
  void bind_threads();
  void bind_rows(Code row, const std::vector<AxisId>& axes, const Expr& count, bool may_be_beyond);
  void bind_turned_rows(const Code& own_row);
  void bind_outer_axes(const std::vector<AxisId>& axes);
  Expr extent_of_rows(AxisId axis) const;
  Expr row_count() const;
  Expr blocks_of_rows() const;
  Code block_of_rows();
  Expr blocks() const;
  bool steps_cover_row() const;
  void for_each_step(const std::function<void()>& body);
  void loop_over_row(const std::function<void()>& body);
  std::vector<Code> if_row_exists() const {
    return row_exists_ ? std::vector{*row_exists_} : std::vector<Code>{};
  }
  void guarded_step(const std::function<void()>& body);
  void lower_pass(int pass);
  Accumulator begin(TileValueId reduction);
  void take_in(const Accumulator& accumulator);
  void finish(const Accumulator& accumulator);
  Code total_along_lanes(const Accumulator& accumulator);
  Code total_across_rows(const Accumulator& accumulator);
  Code parts_of(const Accumulator& accumulator, int count);
  void emit_row_stores();
  void emit_store(const TileStore& store);
  void in_condition(const std::vector<Code>& conditions, const std::function<void()>& body);

  // ---- tiles in shared memory
  void stage_tiles();
  void stage(TileValueId id);
  Computed load_staged(TileValueId id);

  // ---- values
  Computed value(TileValueId id);
  Computed compute(TileValueId id);
  Computed compute_map(TileValueId id, MapFn fn);
  Computed compute_where(TileValueId id);
  Computed load(TileValueId id, const TileLoad& load);
  Computed predicate(TileValueId id, const TilePredicate& predicate);
  Computed splat(TileValueId id, const Computed& scalar);
  Code kept_code(TileValueId id);
  Code checked_index(const IndexTerm& term);
  Code pointer_at(BufferId buffer, const Expr& offset);
  Code index_code(const Expr& e);
  Code column();
  Code atom_code(const Expr::Atom& atom);
  Code condition(const std::vector<Expr>& guards);
  std::vector<Expr> open_guards(const std::vector<Expr>& guard) const;
  bool is_staged(TileValueId id) const;
  bool is_inner(TileValueId id) const { return varies_along(graph_, id, region_.inner); }
  int depth_of(TileValueId id) const { return is_inner(id) ? scopes_.depth() : 0; }
  bool is_kept(TileValueId id) const;
  std::string name_of(TileValueId id) const;
  CodeType type_of(TileValueId id, bool is_vector) const;
  Code let(const std::string& name, CodeType type, Code value) {
    return scopes_.let(0, name, type, std::move(value));
  }

  const TileGraph& graph_;
  const GpuRegion& region_;
  const GpuSchedule& schedule_;
  Kernel kernel_;
  ScopeStack scopes_;
  CodeType index_type_;
  std::vector<Expr> extents_;
  std::vector<std::string> symbols_;
  std::map<std::string, Code> sizes_;   // by symbol
  std::vector<Code> pointers_;          // by BufferId
  std::map<AxisId, Code> coordinates_;  // of the outer axes
  Code column_;                         // of the current step; it has a name once it is asked for
  int column_depth_ = 0;
  Code thread_;                            // within its row
  std::optional<Code> row_exists_;         // absent: every row of every block does
  std::optional<Code> step_;               // of the loop over steps that is open
  Code first_column_;                      // of a map's block
  Code first_row_;                         // of a block with staged tiles, along the turned axis
  std::map<TileValueId, SymbolId> tiles_;  // of staged loads
  std::map<TileValueId, SymbolId> kept_;   // variables for what later passes need again
  std::map<TileValueId, int> kept_in_pass_;
  int pass_ = 0;
};

}  // namespace tilefuse
