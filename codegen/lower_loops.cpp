// Loops: the grid of tasks, ranges cut at breakpoints, lanes with remainder and masked tail, rows side by
// side.
#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "codegen/launch_lowering.h"
#include "core/result.h"
#include "fusion/panels.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};
constexpr int64_t kLargestGranule = 4096;
constexpr size_t kMostPieces = 8;   // of one loop cut at breakpoints
constexpr size_t kMostParts = 64;   // the same where the pieces share out what is read
constexpr int64_t kShortShare = 8;  // a piece shorter than this share of its loop is no loop of its own
// Values that pieces of loops are written for: all 49 places of a window of 7 x 7 over 7 x 7 elements are
// pieces of their own, 14,000 values with two vectors, which g++ 12 takes minutes for; 4,000 take it some ten
// seconds. Inner loops ask their guards then.
constexpr int64_t kMostValues = 4000;

int64_t granule_of(const Expr& e) {
  int64_t granule = 1;
  while (granule < kLargestGranule && is_multiple_of(e, granule * 2)) granule *= 2;
  return granule;
}
int64_t granule_of(int64_t value) { return granule_of(Expr(value)); }

// Where a block, a vector or rows side by side, would be cut, the pieces begin and end at whole blocks: the
// guards of the blocks that a point lies in are asked, which costs less than short pieces.
std::vector<int64_t> at_whole_blocks(const std::vector<int64_t>& points, int64_t extent, int64_t block) {
  bool cuts_blocks = false;
  int64_t low = 0;
  std::set<int64_t> whole;
  for (size_t i = 0; i <= points.size(); ++i) {
    const int64_t high = i < points.size() ? points[i] : extent;
    cuts_blocks |= high - low < block;
    low = high;
    whole.insert(high / block * block);
    whole.insert((high + block - 1) / block * block);
  }
  if (!cuts_blocks) return points;
  std::erase_if(whole, [&](int64_t point) { return point <= 0 || point >= extent; });
  return {whole.begin(), whole.end()};
}

// Without the points between two short pieces, whose guards are asked as they are met.
std::vector<int64_t> between_long_pieces(const std::vector<int64_t>& points, int64_t extent) {
  std::vector<int64_t> kept;
  int64_t low = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const int64_t next = i + 1 < points.size() ? points[i + 1] : extent;
    const bool is_long = std::max(points[i] - low, next - points[i]) * kShortShare >= extent;
    if (is_long) kept.push_back(points[i]);
    low = points[i];
  }
  return kept;
}

// Whether the pieces share out what is read under guards along the axis, as the parts of a concatenation do:
// all pieces together have no more loads than one loop that asks every guard.
bool share_out_reads(const TileGraph& graph, AxisId axis, const std::vector<int64_t>& points) {
  const auto number = static_cast<int>(axis.index);
  size_t guarded = 0, read = 0;
  for (const TileValue& value : graph.values) {
    const TileLoad* load = std::get_if<TileLoad>(&value.op);
    if (load == nullptr) continue;
    std::vector<Expr> guards;
    std::copy_if(load->guard.begin(), load->guard.end(), std::back_inserter(guards),
                 [&](const Expr& guard) { return indices_of(guard) == std::vector<int>{number}; });
    guarded += guards.empty() ? 0 : 1;
    for (size_t i = 0; i <= points.size() && !guards.empty(); ++i) {
      const Expr first(i == 0 ? 0 : points[i - 1]);
      read += std::none_of(guards.begin(), guards.end(), [&](const Expr& guard) {
        const auto there = substitute_index(guard, number, first).constant();
        return there && *there < 0;
      });
    }
  }
  return guarded > 0 && read <= guarded;
}

}  // namespace

// A loop bound: evaluated once, by name.
Code LaunchLowering::named(int depth, const std::string& name, const Code& code) {
  return scopes_.let(depth, name, kIndexType, code);
}

LoopRange LaunchLowering::whole_range(AxisId axis) {
  const Expr& extent = facts_.extents[axis.index];
  const std::string key = "end of " + std::to_string(axis.index);
  const Computed* known = scopes_.find(key);
  if (known == nullptr || known->depth < base_depth_) {  // another nest's axis has this number
    const Code end = named(base_depth_, graph_[axis].name + "_end", index_code(extent));
    known = &scopes_.remember(key, {end, base_depth_, false});
  }
  return {.first = integer(0),
          .last = known->code,
          .first_value = 0,
          .last_value = extent.constant(),
          .granule = granule_of(extent),
          .depth = base_depth_,
          .low = 0,
          .high = extent};
}

LoopRange LaunchLowering::task_range(AxisId axis) {
  const auto found = task_.find(axis);
  return found == task_.end() ? whole_range(axis) : found->second;
}

// What the task covers of a parallel axis: one coordinate, `tile` of them, or all.
void LaunchLowering::bind_task(AxisId axis, int64_t tile, const Code& coordinate) {
  const Expr& extent = facts_.extents[axis.index];
  const std::string& name = graph_[axis].name;
  const int depth = scopes_.depth();
  if (tile == 1) {
    bound_[axis] = {scopes_.let(depth, name, kIndexType, coordinate), depth, 0, extent};
    return;
  }
  LoopRange range = whole_range(axis);
  if (tile == 0 || proves_nonnegative(Expr(tile) - extent)) return;
  const Code start = operate(CodeOperator::Mul, {coordinate, integer(tile)});
  range.first = named(depth, "first_" + name, start);
  const Code end = add(range.first, integer(tile));
  const Code bounded =
      operate(CodeOperator::Choose, {operate(CodeOperator::Less, {end, range.last}), end, range.last});
  range.granule = std::min(range.granule, granule_of(tile));
  range.last = named(depth, "last_" + name, is_multiple_of(extent, tile) ? end : bounded);
  range.first_value.reset();
  range.last_value.reset();
  range.depth = depth;
  scopes_.remember("size first " + name, {range.first, depth, false});
  task_.insert_or_assign(axis, range);
}

// What parts of the outermost reduced axis are multiples of: whole iterations over lanes, or whole blocks of
// panels.
int64_t LaunchLowering::part_step() const {
  if (structure_.reduced.front() == schedule_.lane_axis) return lane_width() * schedule_.unroll;
  return packs_panels(structure_, schedule_) ? schedule_.lanes * panel_step() : 1;
}

// The part of the outermost reduced axis that a partial launch walks.
void LaunchLowering::bind_part(const Code& part) {
  const AxisId axis = structure_.reduced.front();
  const int64_t step = part_step();
  const Expr length = ceildiv(ceildiv(facts_.extents[axis.index], schedule_.split), step) * step;
  const std::string& name = graph_[axis].name;
  const int depth = scopes_.depth();
  LoopRange range = whole_range(axis);
  const Code code = named(depth, "part", part);
  scopes_.remember("size part number", {code, depth, false});
  const auto bounded = [&](const Code& end) {
    return operate(CodeOperator::Choose, {operate(CodeOperator::Less, {end, range.last}), end, range.last});
  };
  const Code whole_length = named(0, name + "_part", index_code(length));
  const Code start = named(depth, "start", operate(CodeOperator::Mul, {code, whole_length}));
  const bool divides = simplify(length * schedule_.split - facts_.extents[axis.index]).is_constant(0);
  const Code first = named(depth, "first_" + name, divides ? start : bounded(start));
  range.last =
      named(depth, "last_" + name, divides ? add(first, whole_length) : bounded(add(first, whole_length)));
  range.first = first;
  range.granule = std::min(range.granule, granule_of(length));
  range.first_value.reset();
  range.last_value.reset();
  range.depth = depth;
  part_range_ = range;
}

// A combining launch walks parts, too, where it stores along the walk.
bool LaunchLowering::walks_parts() const {
  const bool stores_in_parts = part_ == LaunchPart::Combine && structure_.passes > 1;
  return part_ == LaunchPart::Partial || stores_in_parts;
}

// Takes the number of the tile apart, row-major over the parts and the tasks of the parallel axes.
void LaunchLowering::bind_grid() {
  struct Digit {
    std::optional<AxisTile> task;  // absent: the part
    Expr count;
  };
  std::vector<Digit> digits;
  if (walks_parts()) digits.push_back({std::nullopt, schedule_.split});
  for (const AxisTile& task : schedule_.grid) {
    const Expr& extent = facts_.extents[task.axis.index];
    digits.push_back({task, task.tile == 0 ? Expr(1) : simplify(ceildiv(extent, task.tile))});
  }
  Expr inner = 1;
  std::vector<Code> coordinates(digits.size());
  const SymbolId tile = scopes_.symbol("tile", kIndexType);
  size_t leading = digits.size();
  for (size_t i = digits.size(); i-- > 0;) {
    if (!digits[i].count.is_constant(1)) leading = i;
  }
  for (size_t i = digits.size(); i-- > 0;) {
    Code code = reference(tile);
    if (!inner.is_constant(1)) code = operate(CodeOperator::Div, {code, index_code(inner)});
    if (i != leading) code = operate(CodeOperator::Mod, {code, index_code(digits[i].count)});
    if (digits[i].task) code = in_balance(digits[i].task->axis, code, digits[i].count);
    coordinates[i] = digits[i].count.is_constant(1) ? integer(0) : code;
    inner = simplify(inner * digits[i].count);
  }
  tiles_ = inner;
  const Body tasks = [&] {
    for (size_t i = 0; i < digits.size(); ++i) {
      const auto& task = digits[i].task;
      task ? bind_task(task->axis, task->tile, coordinates[i]) : bind_part(coordinates[i]);
    }
    scopes_.blank();
    if (facts_.chain != nullptr) return run_chain();
    parallel_loops(0);
  };
  scopes_.open();
  tasks();
  For loop{tile, reference(kFirstTile), reference(kLastTile), 1, "", scopes_.close(), 1};
  scopes_.blank();
  scopes_.add({std::move(loop), ""});
}

void LaunchLowering::parallel_loops(size_t next) {
  const std::vector<AxisId> order = loop_order();
  if (next == order.size()) return part_ == LaunchPart::Pack || packs_only_ ? void() : inside_parallel();
  const AxisId axis = order[next];
  if (packs_only_ && !is_walked_by_packs(axis)) return parallel_loops(next + 1);
  const bool opens_lanes = axis == schedule_.lane_axis;
  if (opens_lanes && schedule_.accumulate_in_scratch && part_ != LaunchPart::Combine) {
    return accumulate_in_scratch();
  }
  if (bound_.contains(axis)) return parallel_loops(next + 1);
  const bool packs = packs_panels(structure_, schedule_);
  const auto staged_around = staged_rows_;
  if (!packs) stage_loads(axis);
  open_axis(axis, task_range(axis), [&] {
    if (packs && opens_lanes && part_ != LaunchPart::Combine) fill_panels();
    parallel_loops(next + 1);
  });
  if (!packs) staged_rows_ = staged_around;  // the next piece of a loop around turns its own
}

void LaunchLowering::bind(AxisId axis, const Code& index, const LoopRange& range, const Body& body) {
  bound_[axis] = {index, scopes_.depth(), range.low, range.high};
  body();
  bound_.erase(axis);
}

void LaunchLowering::open_plain(AxisId axis, const LoopRange& range, int64_t step, const std::string& note,
                                const Body& body) {
  const SymbolId index = scopes_.symbol(graph_[axis].name, kIndexType);
  scopes_.open();
  bind(axis, reference(index), range, body);
  scopes_.add({For{index, range.first, range.last, step, note, scopes_.close(), 1}, ""});
}

// Of one iteration: no loop.
void LaunchLowering::open_once(AxisId axis, const LoopRange& range, const Body& body) {
  scopes_.open();
  bind(axis, integer(*range.first_value), range, body);
  for (Stmt& stmt : scopes_.close()) scopes_.add(std::move(stmt));
}

void LaunchLowering::open_axis(AxisId axis, const LoopRange& range, const Body& body) {
  const std::vector<LoopRange> pieces = cut_at_breakpoints(axis, range);
  const int64_t outside = std::exchange(times_written_, times_written_ * int64_t(pieces.size()));
  for (const LoopRange& piece : pieces) {
    if (axis == schedule_.lane_axis) {
      open_lanes(axis, piece, body);
    } else if (axis == facts_.row_axis && facts_.in_tiles && part_ == LaunchPart::Whole) {
      open_tile_rows(axis, piece);
    } else if (axis == facts_.row_axis || axis == facts_.column_axis) {
      open_rows(axis, piece, body);
    } else if (piece.first_value && piece.last_value && *piece.last_value - *piece.first_value == 1) {
      open_once(axis, piece, body);
    } else {
      open_plain(axis, piece, 1, graph_[axis].name, body);
    }
  }
  times_written_ = outside;
}

// Values of the innermost loops, if this many pieces of a loop stand around them.
int64_t LaunchLowering::values_written(size_t pieces) const {
  const int64_t side_by_side = int64_t{schedule_.unroll} * schedule_.rows * schedule_.columns;
  return times_written_ * static_cast<int64_t>(pieces * graph_.values.size()) * side_by_side;
}

// The part of a range in [low, high); ends outside it are moved.
LoopRange LaunchLowering::clipped(AxisId axis, const LoopRange& range, int64_t low, int64_t high) {
  LoopRange piece = range;
  const std::string& name = graph_[axis].name;
  const auto is_less = [](const Code& a, int64_t b) { return operate(CodeOperator::Less, {a, integer(b)}); };
  piece.low = low;
  if (high != std::numeric_limits<int64_t>::max()) piece.high = high;
  if (range.first_value) {
    piece.first_value = std::max(low, *range.first_value);
    piece.first = integer(*piece.first_value);
  } else if (low > 0) {
    piece.first =
        named(range.depth, name + "_from",
              operate(CodeOperator::Choose, {is_less(range.first, low), integer(low), range.first}));
  }
  if (high == std::numeric_limits<int64_t>::max()) return piece;
  if (range.last_value) {
    piece.last_value = std::min(high, *range.last_value);
    piece.last = integer(*piece.last_value);
  } else {
    piece.last = named(range.depth, name + "_to",
                       operate(CodeOperator::Choose, {is_less(range.last, high), range.last, integer(high)}));
  }
  return piece;
}

// Where a loop is cut: guards along its axis are constant in between, or, of rows, no window reaches an edge.
std::vector<int64_t> LaunchLowering::cutting_points(AxisId axis) const {
  std::vector<int64_t> points = breakpoints(graph_, axis);
  const bool may_be_windows = axis == facts_.row_axis && facts_.dots.empty() && !facts_.in_tiles;
  const bool are_windows = points.empty() && may_be_windows;
  if (are_windows) points = window_breakpoints(graph_, structure_, axis);
  if (points.empty() || rows_are_windows(axis)) return {};
  const bool are_parts = share_out_reads(graph_, axis, points);
  if (const auto extent = facts_.extents[axis.index].constant()) {
    if (are_windows) {
      points = at_whole_blocks(points, *extent, schedule_.rows);
    } else if (axis == schedule_.lane_axis) {
      points = at_whole_blocks(points, *extent, schedule_.lanes);
    } else if (!are_parts) {
      points = between_long_pieces(points, *extent);
    }
  }
  const bool are_many = points.size() >= (are_parts ? kMostParts : kMostPieces);
  const bool are_long = !are_parts && values_written(points.size() + 1) > kMostValues;
  return are_many || are_long ? std::vector<int64_t>() : points;
}

// All rows of an axis in one block, of which each has a guard of its own: what they have in common is loaded
// and computed once, where pieces of the loop would do so each. But parts of a concatenation have nothing in
// common.
bool LaunchLowering::rows_are_written_out(AxisId axis, const LoopRange& range) const {
  if (axis != facts_.row_axis || facts_.in_tiles || !facts_.dots.empty()) return false;
  const bool is_whole = range.first_value == 0 && range.last_value && *range.last_value <= facts_.rows &&
                        facts_.extents[axis.index].is_constant(*range.last_value);
  const std::vector<int64_t> points = is_whole ? breakpoints(graph_, axis) : std::vector<int64_t>();
  return !points.empty() && !share_out_reads(graph_, axis, points);
}

// Symbolic extents can be shorter than a breakpoint; the ends of the pieces are bounded then.
std::vector<LoopRange> LaunchLowering::cut_at_breakpoints(AxisId axis, const LoopRange& range) {
  const std::vector<int64_t> points = cutting_points(axis);
  if (points.empty() || rows_are_written_out(axis, range)) return {range};
  std::vector<LoopRange> pieces;
  int64_t low = 0;
  for (size_t i = 0; i <= points.size(); ++i) {
    const int64_t high = i < points.size() ? points[i] : std::numeric_limits<int64_t>::max();
    LoopRange piece = clipped(axis, range, low, high);
    if (piece.first_value && piece.last_value) {
      if (*piece.first_value >= *piece.last_value) continue;
      piece.granule = granule_of(*piece.last_value - *piece.first_value);
    } else {
      piece.granule = std::min(range.granule, granule_of(low));
      if (i < points.size()) piece.granule = std::min(piece.granule, granule_of(high));
    }
    pieces.push_back(piece);
    low = high;
  }
  return pieces;
}

// first + the largest multiple of `step` in the range.
std::pair<Code, std::optional<int64_t>> LaunchLowering::rounded_down(AxisId axis, const LoopRange& range,
                                                                     int64_t step) {
  if (range.granule % step == 0) return {range.last, range.last_value};
  if (range.first_value && range.last_value) {
    const int64_t end = *range.first_value + (*range.last_value - *range.first_value) / step * step;
    return {integer(end), end};
  }
  const auto down = [&](const Code& length) {
    return operate(CodeOperator::Mul, {operate(CodeOperator::Div, {length, integer(step)}), integer(step)});
  };
  const Code code = range.first_value == 0
                        ? down(range.last)
                        : add(range.first, down(operate(CodeOperator::Sub, {range.last, range.first})));
  std::string key = "down " + std::to_string(step);
  for (const Code& end : {range.first, range.last}) {
    for_each_reference(end, [&](SymbolId symbol) { key += " " + std::to_string(symbol.index); });
    if (const auto number = constant_of(end)) key += " =" + std::to_string(*number);
  }
  if (scopes_.find(key) == nullptr) {
    const std::string name = graph_[axis].name + "_by_" + std::to_string(step);
    scopes_.remember(key, {named(range.depth, name, code), range.depth, false});
  }
  return {scopes_.find(key)->code, std::nullopt};
}

// Whether the last lanes of a range are the last vector of a row of scratch that begins with the axis, or
// with the task.
bool LaunchLowering::ends_rows(AxisId axis, const LoopRange& range) const {
  const Expr& extent = facts_.extents[axis.index];
  if (!simplify(range.high - extent).is_constant(0)) return false;
  return range.low.is_constant(0) || (range.first_value && *range.first_value % schedule_.lanes == 0);
}

// Whole vectors `unroll` at a time, then one at a time, then the lanes that are left.
namespace {

int64_t first_granule(const LoopRange& range) {
  return range.first_value ? granule_of(*range.first_value) : range.granule;
}

}  // namespace

void LaunchLowering::open_lanes(AxisId axis, const LoopRange& range, const Body& body) {
  const int64_t lanes = lane_width();
  const Copies outside = copies_;
  LoopRange part = range;
  const auto loop = [&](const std::pair<Code, std::optional<int64_t>>& end, int copies, bool is_tail) {
    part.last = end.first;
    part.last_value = end.second;
    const bool is_empty = part.first_value && part.last_value && *part.first_value >= *part.last_value;
    if (!is_empty) {
      copies_.lanes = copies;
      copies_.lane_granule = std::min<int64_t>(schedule_.lanes, first_granule(range));
      const std::string& name = graph_[axis].name;
      open_plain(axis, part, lanes * copies, is_tail ? name + ", the last lanes" : name, [&] {
        if (is_tail) {
          const Code left = operate(CodeOperator::Sub, {part.last, bound_.at(axis).index});
          const bool is_constant = part.first_value && part.last_value;
          copies_.left = is_constant ? integer(*part.last_value - *part.first_value)
                                     : named(scopes_.depth(), "left", left);
          copies_.ends_rows = ends_rows(axis, range);
        }
        body();
      });
      copies_ = outside;
    }
    part.first = part.last;
    part.first_value = part.last_value;
  };
  if (schedule_.unroll > 1)
    loop(rounded_down(axis, range, lanes * schedule_.unroll), schedule_.unroll, false);
  if (schedule_.unroll > 1 && range.granule % (lanes * schedule_.unroll) == 0) return;
  loop(rounded_down(axis, range, lanes), 1, false);
  if (range.granule % lanes != 0) loop({range.last, range.last_value}, 1, true);
}

// How many are left behind the last whole block; absent: that depends on sizes of the call.
std::optional<int64_t> LaunchLowering::rows_left(AxisId axis, const LoopRange& range, int rows) const {
  if (range.granule % rows == 0) return 0;
  if (range.first_value && range.last_value) return (*range.last_value - *range.first_value) % rows;
  const std::optional<int64_t> extent = facts_.extents[axis.index].constant();
  const bool is_whole = task_.contains(axis) && range.low.is_constant(0) && range.high.constant() == extent;
  return is_whole && extent ? std::optional(*extent % rows) : std::nullopt;  // tasks are whole blocks
}

// All rows of an axis, with no loop around them: compilers see of each guard whether it holds.
void LaunchLowering::bind_rows(AxisId axis, const LoopRange& range, const Body& body) {
  scopes_.open();
  bind(axis, range.first, range, body);
  for (Stmt& stmt : scopes_.close()) scopes_.add(std::move(stmt));
}

// Blocks of rows, or of columns around them; what is left goes side by side, too, where its number is known.
void LaunchLowering::open_rows(AxisId axis, const LoopRange& range, const Body& body) {
  const bool is_column = axis == facts_.column_axis;
  const int rows = is_column ? facts_.columns : facts_.rows;
  const std::string& name = graph_[axis].name;
  const Copies outside = copies_;
  LoopRange part = range;
  const auto block = [&](int count) {
    const bool is_empty = part.first_value && part.last_value && *part.first_value >= *part.last_value;
    if (is_empty) return;
    copies_.rows = outside.rows * count;
    copies_.column_rows = is_column ? 1 : count;
    const std::string note = count > 1 ? name + ", " + std::to_string(count) + " side by side" : name;
    if (rows_are_windows(axis) || rows_are_written_out(axis, range)) {
      bind_rows(axis, part, body);
    } else {
      open_plain(axis, part, count, note, body);
    }
    copies_ = outside;
  };
  const std::optional<int64_t> left = rows_left(axis, range, rows);
  std::tie(part.last, part.last_value) = rounded_down(axis, range, rows);
  block(rows);
  if (left == 0) return;
  part.first = part.last;
  part.first_value = part.last_value;
  part.last = range.last;
  part.last_value = range.last_value;
  block(static_cast<int>(left.value_or(1)));
}

}  // namespace tilefuse
