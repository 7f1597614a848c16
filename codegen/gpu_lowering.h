// The kernel of a row schedule under construction: the state that the parts of lower_to_gpu_kernel share.
//
// What one step computes is written once; whether it stands in a loop, in a condition, or in neither, is
// decided in `for_each_step`.
//
//   threads   lower_to_gpu_kernel.cpp   rows, coordinates, steps, passes, what is done across threads
//   extremes  lower_gpu_extremes.cpp    reductions to the position of an extreme
//   kept      lower_gpu_kept_rows.cpp   loads that stay in shared memory
//   carried   lower_gpu_carried.cpp     reductions across the rows that a block walks
//   scans     lower_gpu_scans.cpp       what threads pass on to each other, and steps to the next ones
//   tiles     lower_gpu_tiles.cpp       loads that go through shared memory
//   values    gpu_values.h              maps, loads, stores, expressions
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "codegen/gpu_values.h"
#include "codegen/lower_to_gpu_kernel.h"
#include "codegen/spell_reduce.h"

namespace tilefuse {

class GpuLowering final : GpuValues {
 public:
  GpuLowering(const TileGraph& graph, const GpuRegion& region, const GpuSchedule& schedule);
  GpuProgram run();

 private:
  struct Accumulator {
    TileValueId reduction;
    ReduceSpelling spelling;
    Code code;
    std::optional<Code> position;  // of an extreme: where `code` was found
  };

  // ---- threads
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
  void loop_up_to(const Code& last, int unroll, const std::function<void()>& body);
  std::vector<Code> if_row_exists() const {
    return row_exists_ ? std::vector{*row_exists_} : std::vector<Code>{};
  }
  void guarded_step(const std::function<void()>& body);
  void lower_pass(int pass);
  Accumulator begin(TileValueId reduction);
  Code identity_code(const ReduceSpelling& spelling, bool is_vector) const;
  Code element_of(TileValueId reduction, const ReduceSpelling& spelling);
  void take_in(const Accumulator& accumulator);
  void finish(const Accumulator& accumulator);
  void lower_row();
  Code total_along_lanes(const Accumulator& accumulator);
  Code total_of_cluster(const Accumulator& accumulator, Code of_block);
  Code total_across_rows(const Accumulator& accumulator);
  Code parts_of(TileValueId reduction, DType dtype, int count);
  int parts_along_lanes() const { return schedule_.block_threads() / kWarpThreads; }
  int parts_across_rows() const;

  // ---- from row to row
  void begin_carried();
  Code carried_code(const Accumulator& one) const;  // of the current step
  void take_in_carried();
  void walk_rows(const std::function<void()>& body);

  // ---- scans
  struct Scan {
    TileValueId id;
    ReduceSpelling spelling;
    Code carried;                  // what the steps before had
    std::optional<Code> parts;     // of the warps of a row
    std::optional<Code> elements;  // of all steps, computed in front of the first exchange
  };
  std::vector<Scan> begin_scans();
  void compute_elements(const std::vector<Scan>& scans);
  void assign_element(const Scan& scan, const Code& to);
  void lower_scans_across(const std::vector<Scan>& scans);
  void lower_scans_along(const std::vector<Scan>& scans);
  void remember_scan(TileValueId id, const Code& code);
  void for_each_whole_step(const std::function<void()>& body);
  std::vector<Code> step_conditions();
  void where_step_exists(const std::function<void()>& body);

  // ---- positions of extremes
  void begin_position(Accumulator& accumulator);
  void take_in_position(const Accumulator& accumulator, const Code& element);
  Code position_of(const Code& place, bool is_vector) const;
  Code position_along_lanes(const Accumulator& accumulator);
  Code position_across_rows(const Accumulator& accumulator);
  void add_parts(const Accumulator& accumulator, int count, std::vector<Code>& arguments);
  void emit_row_stores();

  // ---- tiles in shared memory
  void stage_tiles();
  void fetch_beside_tiles();
  void stage(TileValueId id);
  bool is_staged(TileValueId id) const;
  Computed load_staged(TileValueId id);

  // ---- rows in shared memory
  void place_kept_rows(const Code& own_row);
  int64_t kept_bytes() const;
  void loop_over_kept_row(const std::function<void()>& body);
  void loop_over_part(int64_t steps, int unroll, const std::function<void()>& body);
  void place_in_part(const Code& step);
  Code kept_address(const Code& row);

  // ---- values
  std::optional<Computed> held(TileValueId id) override;
  void hold(TileValueId id, Computed& computed) override;
  Computed load(TileValueId id, const TileLoad& load) override;
  Code kept_code(TileValueId id);
  std::string kept_name(TileValueId id) const;
  bool is_kept(TileValueId id) const;

  const GpuRegion& region_;
  const GpuSchedule& schedule_;
  Code thread_;                     // within its row, among those of all blocks that have it
  Code kept_place_;                 // of a block of a cluster: the current element within what it keeps
  std::optional<Code> row_exists_;  // absent: every row of every block does
  std::optional<Code> step_;        // of the loop over steps that is open
  Code first_column_;               // of a map's block
  Code first_row_;                  // of a block with staged tiles, along the turned axis
  std::map<TileValueId, SymbolId> tiles_;  // of staged loads
  std::vector<TileValueId> fetched_;       // loads beside them
  std::map<TileValueId, SymbolId> kept_;   // variables for what later passes need again
  std::map<TileValueId, int> kept_in_pass_;
  std::map<TileValueId, Code> kept_rows_;  // in shared memory: where the thread's row begins
  std::vector<Accumulator> carried_;       // across rows
  int pass_ = 0;
};

}  // namespace tilefuse
