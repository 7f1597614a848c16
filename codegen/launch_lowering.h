// One launch of a region on its way to a kernel: the state that the parts of lower_to_kernel share.
//
// The loop nest is opened from outside in; a value is computed when it is first asked for, in the outermost
// open block in which all its axes are bound (that is the hoisting), and remembered there. What one iteration
// computes is written once, in emit_roots; main loop, remainder and masked tail differ only in `copies_`.
//
//   loops        lower_loops.cpp      grid, tasks, lanes, rows, breakpoints
//   passes       lower_passes.cpp     walks over the reduced axes, the innermost iteration
//   values       lower_values.cpp     placement, maps, splats, kept values
//   accesses     lower_access.cpp     addresses, loads, stores, gathers
//   expressions  lower_index.cpp      integer expressions
//   reductions   lower_reduce.cpp     accumulators, scans
//   scratch      lower_scratch.cpp    kept values, accumulators that are rows
//   online       lower_online.cpp     blocks, and what is carried from one to the next
//   parts        lower_split.cpp      partial results and their combination
//   pairs        lower_pairs.cpp      two vectors by one load
//   chains       lower_chain.cpp      nests one after the other inside a task
//   staging      lower_stage.cpp      blocks turned in registers
//   panels       lower_panel.cpp      operands that rows share, packed for the lanes
//   tiles        lower_tiles.cpp      rows of matrix tiles
//   dots         lower_dots.cpp       narrow factors, several neighbours at a time
//   settled      lower_settled.cpp    blocks of results of which a condition on coordinates holds as a whole
//   packs        lower_pack.cpp       panels of constants, packed by a kernel of their own
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/lowering_facts.h"
#include "codegen/region_program.h"
#include "codegen/scope_stack.h"
#include "codegen/spell_reduce.h"
#include "fusion/dots.h"
#include "fusion/expand_online.h"
#include "fusion/lane_pattern.h"
#include "fusion/schedule.h"
#include "fusion/value_bounds.h"

namespace tilefuse {

// The coordinates a loop walks. Ends that are size expressions are known as such.
struct LoopRange {
  Code first, last;
  std::optional<int64_t> first_value, last_value;
  int64_t granule = 1;  // a power of two that both ends are multiples of
  int depth = 0;        // of the block in which both ends are known
  Expr low, high;       // bounds of the coordinate: low <= it < high
};

class LaunchLowering {
 public:
  LaunchLowering(const LoweringFacts& facts, LaunchPart part, std::string kernel_name);
  LaunchLowering(const LaunchLowering&) = delete;
  LaunchLowering& operator=(const LaunchLowering&) = delete;

  void run();
  Kernel take_kernel() { return std::move(own_->kernel); }
  const Expr& tiles() const { return tiles_; }
  const Expr& scratch_bytes() const { return scratch_bytes_; }
  bool checks_indices() const { return checks_indices_; }

 private:
  using Body = std::function<void()>;
  // What a walk over the reduced axes does: at every point; and around blocks of its iterations, where
  // long sums go through blocks (the error of a chain of additions grows with its length).
  struct ReducedWalk {
    Body leaf;
    bool in_blocks = false, stores = false;
    Body begin_block, end_block;
  };
  // What a pass computes at every point of its walk.
  struct Root {
    TileValueId value;
    const TileStore* store = nullptr;  // absent: the element of a reduction
  };
  struct BoundAxis {
    Code index;
    int depth = 0;
    Expr low, high;
  };
  // Which copies of the innermost iteration are being written.
  struct Copies {
    int lanes = 1, rows = 1;  // how many; rows: of all columns
    int lane = 0, row = 0;    // the current one
    int column_rows = 1;      // rows of one column
    int neighbours = 1;       // steps of the innermost walk; around the rows
    int neighbour = 0;
    int row_in_column() const { return row % column_rows; }
    int column() const { return row / column_rows; }
    std::optional<Code> left;  // in a masked tail: the number of lanes that count
    int64_t lane_granule = 1;  // what the coordinate of the first lane is a multiple of
    bool ends_rows = false;    // the tail is the last vector of rows in scratch
  };
  struct Accumulator {
    TileValueId reduction;
    std::vector<DType> types;  // value; and, for positions, the index
    // By [row copy][lane copy][component].
    std::vector<std::vector<std::vector<Code>>> parts;
  };
  struct LanesOfRow {
    TileValueId reduction;
    Code lanes;
  };
  struct ScratchRow {  // a tensor in scratch
    Code pointer;
    std::string name;
    DType dtype = DType::F32;
    Expr offset;                // over the coordinates of its axes
    bool holds_vector = false;  // besides, the lanes of one iteration of a parallel lane axis
    Expr row_stride;            // between the row copies of one iteration
  };
  struct Address {  // of lane 0
    Code pointer;
    std::optional<Expr>
        stride;  // elements from lane to lane, where that is even; absent: one element, or ...
    std::optional<Code> offsets;  // ... those of the lanes, as a vector of i64
    bool is_near = true;          // of offsets: no lane's place depends on data, and steps between are small
    bool varies_along_lanes() const { return stride || offsets; }
  };
  struct Place {  // what an address starts from
    Code base;
    std::string name;
    Expr offset;
    const std::vector<IndexTerm>* gathered = nullptr;
    int depth = 0;  // of the block that accesses it
  };

  // ---- loops
  void bind_grid();
  bool walks_parts() const;
  void bind_task(AxisId axis, int64_t tile, const Code& coordinate);
  int64_t part_step() const;
  void bind_part(const Code& part);
  LoopRange whole_range(AxisId axis);
  LoopRange task_range(AxisId axis);
  int64_t values_written(size_t pieces) const;
  std::vector<int64_t> cutting_points(AxisId axis) const;
  bool rows_are_written_out(AxisId axis, const LoopRange& range) const;
  std::vector<LoopRange> cut_at_breakpoints(AxisId axis, const LoopRange& range);
  LoopRange clipped(AxisId axis, const LoopRange& range, int64_t low, int64_t high);
  void parallel_loops(size_t next);
  std::vector<AxisId> loop_order() const;
  void open_axis(AxisId axis, const LoopRange& range, const Body& body);
  bool ends_rows(AxisId axis, const LoopRange& range) const;
  void open_lanes(AxisId axis, const LoopRange& range, const Body& body);
  std::optional<int64_t> rows_left(AxisId axis, const LoopRange& range, int rows) const;
  void bind_rows(AxisId axis, const LoopRange& range, const Body& body);
  void open_rows(AxisId axis, const LoopRange& range, const Body& body);
  void open_plain(AxisId axis, const LoopRange& range, int64_t step, const std::string& note,
                  const Body& body);
  void open_once(AxisId axis, const LoopRange& range, const Body& body);
  void bind(AxisId axis, const Code& index, const LoopRange& range, const Body& body);
  std::pair<Code, std::optional<int64_t>> rounded_down(AxisId axis, const LoopRange& range, int64_t step);
  Code named(int depth, const std::string& name, const Code& code);

  // ---- passes
  void inside_parallel();
  std::vector<Root> roots_of_pass(int pass) const;
  std::vector<TileValueId> reductions_of_pass(int pass) const;
  void run_pass(const std::vector<Root>& roots);
  void run_walk(const std::vector<Root>& roots, const std::vector<TileValueId>& reductions, size_t first);
  LoopRange reduced_range(AxisId axis);
  void reduced_loops(size_t next, const ReducedWalk& walk);
  std::vector<Expr> guards_around(AxisId axis) const;
  void open_innermost(AxisId axis, const LoopRange& range, const ReducedWalk& walk);
  void open_reduced(size_t next, const LoopRange& range, const ReducedWalk& walk);
  void loop_in_blocks(size_t next, const LoopRange& range, int64_t length, const ReducedWalk& walk);
  void for_each_copy(const Body& body);
  std::vector<Computed> of_rows(const std::vector<Computed>& values, size_t first) const;
  void emit_store_of(const TileStore& store, const std::vector<Computed>& values, size_t i);
  void emit_roots(const std::vector<Root>& roots);
  void final_stores();
  void emit_final_stores();
  std::vector<Root> final_roots() const;
  void emit_settled(const std::vector<Root>& roots);
  void emit_unless_literal(const Body& body);
  LoopRange live_part(AxisId axis, LoopRange range);
  void emit_inside(const Code& condition, const std::vector<Root>& roots);
  std::optional<Expr> least_in_block(const Expr& e) const;
  bool is_settled_by_block() const;
  struct BlockCondition {
    bool holds = true;        // what is known of it, where ...
    std::vector<Expr> least;  // ... these are >= 0
  };
  using BlockConditions = std::map<TileValueId, BlockCondition>;
  BlockConditions unsettled(const std::set<TileValueId>& needed) const;
  BlockConditions emptying(const std::vector<Root>& roots) const;
  Code any_holds(const BlockConditions& conditions);
  Code all_hold(const BlockConditions& conditions);
  void compute_apart_from(const BlockConditions& conditions, const std::set<TileValueId>& needed);
  void emit_known(const BlockConditions& conditions, const Code& condition, const std::vector<Root>& roots);
  std::set<TileValueId> needed_by(const std::vector<Root>& roots) const;

  // ---- reductions
  enum class AccumulatorRole : uint8_t { Total, Block };
  ReduceSpelling spelling_of(TileValueId reduction) const;
  Accumulator declare_accumulator(TileValueId reduction, AccumulatorRole role);
  bool accumulates_vectors(TileValueId reduction) const;
  std::vector<Code> declare_part(const std::string& name, const ReduceSpelling& spelling,
                                 const std::vector<DType>& types, bool is_vector,
                                 const std::optional<Code>& start);
  Code element_of(TileValueId reduction, const Computed& element) const;
  bool is_zero_behind_the_last(TileValueId id) const;
  bool keeps_zeros(TileValueId id) const;
  Code neutral_behind_the_last(const ReduceSpelling& spelling, Code elements) const;
  void accumulate(TileValueId reduction, const Computed& element);
  const std::vector<Code>& accumulator_of(TileValueId reduction) const;
  void add_block(const Accumulator& block);
  void finish(const std::vector<TileValueId>& reductions);
  void finish(const Accumulator& accumulator, const std::vector<Code>& numbers);
  Code over_copies(const Accumulator& accumulator, int row);
  std::map<TileValueId, std::vector<Code>> over_lanes(const std::vector<TileValueId>& reductions);
  void bring_together(const std::vector<LanesOfRow>& rows, std::map<TileValueId, std::vector<Code>>& numbers);
  Expr block_chain() const;
  bool needs_blocks(TileValueId reduction) const;
  Expr chain_along(AxisId axis) const;
  int64_t block_length(const std::vector<AxisId>& order, size_t next) const;
  int64_t longest_chain(TileValueId reduction) const;
  bool lanes_are_reduced() const { return schedule_.lane_axis && !facts_.lanes_are_parallel; }
  Code position(TileValueId reduction);
  Computed scan(TileValueId id, const TileScan& scan);
  Code scan_vector(TileValueId id, const ReduceSpelling& spelling, const Code& carried, Code element);
  void declare_scans(const std::set<TileValueId>& needed);
  void store_partials();
  void combine_partials();
  Address workspace_address(size_t workspace, TileValueId carried);
  void accumulate_in_scratch();
  ScratchRow accumulator_row(TileValueId id, AccumulatorRole role);
  void clear_rows(const std::map<TileValueId, ScratchRow>& rows);
  void add_block_rows(const std::map<TileValueId, ScratchRow>& rows);
  void for_each_lane_copy(const Body& body);
  void update_scratch(TileValueId reduction, const ScratchRow& row, const std::vector<Code>& elements);
  void accumulate_rows(TileValueId reduction, const std::vector<Computed>& rows);
  bool accumulates_in_scratch() const { return !total_rows_.empty() || !block_rows_.empty(); }

  // ---- online walks
  void run_online();
  void run_online_pass(const ExpandedPass& pass, const std::vector<Root>& stores);
  void online_blocks(size_t next, const Body& step);
  void walk_block(const ExpandedPass& pass, const std::vector<Root>& stores, size_t block_axis);
  void remember_counts(const Code& seen, const LoopRange& block, size_t block_axis);
  bool carries_vectors(TileValueId id) const;
  void for_each_copy_of(TileValueId id, const Body& body);
  void declare_carried(const ExpandedPass& pass);
  void remember_carried(const ExpandedPass& pass);
  void step_carried(const ExpandedPass& pass);
  void remember_results(const ExpandedPass& pass);
  void store_carried(const ExpandedPass& pass);
  void merge_parts();

  // ---- chains
  struct Build {  // what the nests of a chain write to together
    explicit Build(Kernel made) : kernel(std::move(made)), scopes(kernel) {}
    Kernel kernel;
    ScopeStack scopes;
  };
  LaunchLowering(const LoweringFacts& nest, LaunchLowering& task);
  void remember_task();
  void run_chain();
  void run_nests(ChainNest::Phase phase);
  void run_nest();
  Code in_balance(AxisId axis, Code task, const Expr& count);
  void block_loop();
  LoweringFacts facts_of_nest(size_t number) const;
  void pack_before_blocks();
  bool is_packed_before(const StagedLoad& staged) const;
  bool is_walked_by_packs(AxisId axis) const;
  Code chain_tile_pointer(BufferId buffer);

  // ---- values
  Computed value(TileValueId id);
  Computed compute(TileValueId id);
  Computed compute_map(TileValueId id, const TileMap& map);
  Computed compute_where(TileValueId id);
  static std::optional<Computed> settled_logic(MapFn fn, const std::vector<Computed>& operands);
  Computed predicate(TileValueId id, const TilePredicate& predicate);
  Computed splat(TileValueId id, const Computed& scalar);
  std::string value_key(TileValueId id) const;
  std::string name_of(TileValueId id) const;
  std::string copy_suffix(TileValueId id) const;
  bool varies_along(TileValueId id, const std::optional<AxisId>& axis) const;
  bool is_kept(TileValueId id) const;
  bool is_kept_in_scratch(TileValueId id) const;
  Computed kept_value(TileValueId id);
  const ScratchRow& kept_row(TileValueId id);
  void store_kept();
  CodeType type_of(TileValueId id, bool is_vector) const;
  int depth_of(const std::vector<AxisId>& axes) const;
  int depth_of(const Expr& e) const;

  // ---- accesses
  Computed load(TileValueId id, const TileLoad& load);
  Code guarded_lanes(const TileLoad& load, DType dtype, const Address& address,
                     const std::vector<Expr>& lane_guards);
  Address address(const Place& place, const std::vector<Expr>& guards);
  Expr split_lanes(const Expr& offset, Address& address);
  std::vector<Computed> add_indices(const Place& place, const std::vector<Expr>& guards, Address& address);
  std::optional<LanePattern> pattern_of_lanes(const Expr& e) const;
  std::optional<Code> load_exchanged(const TileLoad& load, int depth);
  Code pointer_at(const Place& place, const Expr& offset, const std::vector<Computed>& indices);
  int depth_of_all(const std::vector<Expr>& guards) const;
  Computed wrapped_index(const IndexTerm& term, const std::vector<Expr>& guards);
  Code buffer_pointer(BufferId buffer);
  bool is_checked(const IndexTerm& term) const;
  Code plain_load(const Address& address, bool is_vector);
  Code shared_by_rows(Code loaded) const;
  void emit_store(const TileStore& store, const Computed& value);
  void emit_scatter(const TileStore& store, const Computed& value);
  bool rows_share_place(const TileStore& store) const;
  Computed combined_rows(const TileStore& store, std::vector<Computed> rows);
  Computed onto(const Address& address, const Computed& value, MapFn fn, DType dtype);
  struct StoreStyle {
    DType dtype = DType::F32;
    StorePath path = StorePath::Cached;
    std::string note = {};
    std::optional<int> group = std::nullopt;  // see Effect
  };
  void ask_ahead(const Code& pointer, DType dtype, int vectors);
  static Code as_vector(const Computed& value, DType dtype);
  void store_at(const Address& address, const Computed& value, const StoreStyle& style);
  TileValueId stored_value(const TileStore& store) const;
  // Guards that the ranges of the loops do not settle, at the current copies; nullopt: one of them never
  // holds.
  std::optional<std::vector<Expr>> open_guards(const std::vector<Expr>& guard) const;
  Code condition(const std::vector<Expr>& guards);
  Code lanes_in(const Expr& elements);
  Code mask_of(const std::vector<Expr>& lane_guards, bool with_tail);

  // ---- dots
  Code row_of_dots(const Dot& dot);
  Code panel_of_dots(TileValueId id);
  Code lanes_of_dots(TileValueId id);
  void emit_dots_along_lanes(const std::vector<Root>& roots);
  void emit_dots(const std::vector<Root>& roots);
  void open_summed(AxisId axis, const LoopRange& range, const Body& leaf);
  void open_dots(AxisId axis, const LoopRange& range, DotKind kind, const std::string& note,
                 const Body& leaf);
  Code join_neighbours(const StagedLoad& staged);
  Address starts_address(TileValueId panel);
  void fill_starts(const StagedLoad& staged);
  std::optional<Code> start_of(TileValueId reduction);
  bool has_starts(const StagedLoad& staged) const { return starts_from_panel(facts_, staged.load); }
  std::optional<AxisId> neighbours_of(const TileStore& store) const;
  bool stores_neighbours(AxisId walked) const;
  void emit_neighbour_store(const TileStore& store, const Computed& first, const Computed& second);
  bool rows_are_windows(AxisId rows) const;
  void emit_in_turn(const TileStore& store, const Expr& offset, const char* function, const Computed& first,
                    const Computed& second);

  // ---- matrix tiles
  struct TileBlock {
    LoopRange range;  // that the rows of all blocks are of
    Code first, last, count;
    bool is_empty = false;  // nothing is summed: results are literals
  };
  struct TileFactor {
    Code pointer, row_bytes;
  };
  struct SummedPart {
    Code first_row;            // of the task
    Code start, first_summed;  // of the part, of all parts
  };
  int64_t tile_width() const;
  Code tile_sums(TileValueId sum);
  Expr at_first_step(const Expr& offset) const;
  TileFactor rows_of_tiles(const Dot& dot, const Code& count, const Code& length);
  Code sums_of_row(TileValueId sum, const Code& first);
  struct TileSums {
    Code pointer;
    int64_t width;  // from row to row
  };
  void multiply_tiles(const std::vector<TileSums>& sums, const Code& count, const LoopRange& range,
                      const std::optional<SummedPart>& part);
  std::vector<TileSums> sums_in_scratch(const std::optional<SummedPart>& part);
  std::vector<TileSums> sums_where_stored(const std::vector<int64_t>& apart);
  void pad_panel(const StagedLoad& staged);
  void remember_sums(const Code& first);
  void walk_rows_of_block(const TileBlock& block, const std::vector<Root>& roots);
  void walk_rows_if(const Code& condition, const BlockConditions& known, const TileBlock& block,
                    const std::vector<Root>& roots);
  void emit_tile_block(TileBlock block);
  Code rows_of_block(AxisId axis, const LoopRange& range);
  LoopRange live_in_part(AxisId summed, LoopRange part, const LoopRange& whole);
  void open_tile_parts(AxisId axis, const LoopRange& range);
  void open_tile_rows(AxisId axis, const LoopRange& range);

  // ---- pairs
  bool in_pairs() const;
  Computed load_pair(TileValueId id, const TileLoad& load, const std::vector<Expr>& guards, int depth);
  void emit_pair_store(const TileStore& store, const Computed& first, const Computed& second);

  // ---- integer expressions
  Code index_code(const Expr& e);
  Code index_vector(const Expr& e);
  Code atom_code(const Expr::Atom& atom);
  Code atom_vector(const Expr::Atom& atom);
  Code size_symbol(const std::string& name);
  Expr moved(const Expr& e, int64_t along_lanes) const;  // and along the rows to the current copy
  Expr at_copy(const Expr& e) const;     // with the coordinates of the current copies, vector behind vector
  Expr at_element(const Expr& e) const;  // the same, but lane 0 of a pair's vectors are neighbours
  Expr at_written_row(const Expr& e) const;
  int64_t lane_step() const { return in_pairs() ? 2 : 1; }
  bool is_nonnegative(const Expr& e, int64_t lanes_at_once = 1) const;
  bool is_nonnegative_for_lanes(const Expr& e) const;
  bool uses_lanes(const Expr& e) const;

  // ---- scratch, staging
  Code scratch_pointer(const std::string& name, DType dtype, const Expr& elements);
  Address scratch_address(const ScratchRow& row, int depth);
  Copies whole_in_scratch(const ScratchRow& row) const;
  Computed load_scratch(const ScratchRow& row, int depth);
  void store_scratch(const ScratchRow& row, const Computed& value);
  Expr task_coordinate(AxisId axis) const;  // from the first one of the task
  Expr scratch_length(AxisId axis) const;
  Expr task_length(AxisId axis, int64_t multiple) const;
  void stage_loads(AxisId opening);
  std::vector<AxisId> axes_beside_block(const StagedLoad& staged) const;
  ScratchRow turned_row(const StagedLoad& staged, const std::vector<AxisId>& others);
  void fill_staged(const StagedLoad& staged);
  void fill_blocks(const StagedLoad& staged, const ScratchRow& row);
  struct BlockEnd {
    Code left;
    std::optional<int64_t> count;  // where that is a number
  };
  struct BlockEnds {  // how many of its rows and columns are there; absent: always all of them
    std::optional<BlockEnd> rows, columns;
    bool are_known() const { return (!rows || rows->count) && (!columns || columns->count); }
  };
  std::vector<LoopRange> whole_and_rest(const LoopRange& range) const;
  void open_blocks(AxisId axis, const LoopRange& range, const Body& body);
  std::optional<BlockEnd> block_end(AxisId axis, const LoopRange& range);
  void fill_block(const StagedLoad& staged, const ScratchRow& row, const BlockEnds& ends);
  void turn_block(const StagedLoad& staged, const ScratchRow& row, const BlockEnds& ends);
  LoopRange turned_range(const StagedLoad& staged);
  LoopRange panel_range(AxisId axis);
  void fill_panels();
  void fill_panel(const StagedLoad& staged, const ScratchRow& row, size_t next);
  void copy_vector(const StagedLoad& staged, const ScratchRow& row);
  ScratchRow panel_row(const StagedLoad& staged);
  DType panel_dtype(const StagedLoad& staged) const;
  // Elements of the summed axis in a row.
  int64_t panel_step() const { return facts_.dots.empty() ? 1 : info(schedule_.dots).count; }
  // Elements along the lane axis of one vector.
  int64_t lane_width() const { return schedule_.lanes * (lanes_are_reduced() ? panel_step() : 1); }
  Expr panel_rows(const StagedLoad& staged, Expr& offset) const;
  ScratchRow packed_row(const StagedLoad& staged);
  void find_panel(const StagedLoad& staged);
  Code pack_pointer(const StagedLoad& staged);

  const LoweringFacts& facts_;
  const TileGraph& graph_;
  const Schedule& schedule_;
  const Structure& structure_;
  std::vector<ValueRange> ranges_;
  LaunchPart part_;
  std::unique_ptr<Build> own_;  // absent: a nest's, which writes to that of its task
  Kernel& kernel_;
  ScopeStack& scopes_;
  int base_depth_ = 0;  // where values go that vary along nothing
  std::map<AxisId, BoundAxis> bound_;
  std::map<AxisId, LoopRange> task_;  // what the task covers of a parallel axis that it loops over
  Copies copies_;
  std::map<TileValueId, Accumulator> accumulators_;  // of the pass being written
  std::map<TileValueId, Accumulator> blocks_;        // sums of a block, on their way into the accumulators
  std::map<TileValueId, Accumulator> scans_;
  std::map<TileValueId, Code> tile_sums_, tile_rows_;                  // in scratch, of a block of rows
  bool packs_only_ = false;                                            // before a loop over blocks
  std::map<size_t, std::map<TileValueId, ScratchRow>> packed_before_;  // by nest
  Expr first_step_;                                            // of the summed axis, that tiles begin at
  std::map<TileValueId, ScratchRow> total_rows_, block_rows_;  // accumulators in scratch
  std::map<TileValueId, ScratchRow> kept_rows_, staged_rows_;
  std::map<TileValueId, ScratchRow> turned_rows_;  // filled or not
  std::map<TileValueId, int> kept_in_pass_;
  struct KeptValue {
    TileValueId id;
    Copies copies;
    Computed value;
  };
  std::vector<KeptValue> to_keep_;
  std::map<TileValueId, bool> settled_;     // conditions that the block being written has settled
  std::vector<Expr> inside_;                // guards that a branch around the loop has asked
  std::optional<AxisId> neighbour_axis_;    // of which two steps go side by side
  std::optional<int64_t> elements_of_dot_;  // of the last one, if it is not whole
  int64_t times_written_ = 1;               // what the open loops hold: once for each piece of a loop
  int pass_ = 0;
  std::optional<LoopRange> part_range_;  // of the outermost reduced axis, in a launch over parts
  std::optional<std::pair<AxisId, LoopRange>> block_range_;  // in a step of an online walk
  std::vector<Code> carried_variables_;                      // of an online walk, copies side by side
  Expr tiles_ = 1, scratch_bytes_ = 64;
  bool checks_indices_ = false, streams_ = false, pairs_lanes_ = false, uses_tiles_ = false;
};

}  // namespace tilefuse
