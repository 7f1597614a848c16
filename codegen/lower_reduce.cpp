// Reductions: accumulators, one for each copy of the innermost iteration, and how they come together.
#include <algorithm>
#include <set>

#include "codegen/launch_lowering.h"
#include "codegen/spell_reduce.h"
#include "core/result.h"
#include "fusion/contraction.h"

namespace tilefuse {
namespace {

constexpr int64_t kLongestChain = 128;  // additions of f32 into one accumulator before it joins a sum in f64
// Sums of products: as long as the panels of a matrix library.
constexpr int64_t kLongestProductChain = 512;

std::string numbered(int copy, int copies) { return copies > 1 ? "_" + std::to_string(copy) : ""; }

}  // namespace

ReduceSpelling LaunchLowering::spelling_of(TileValueId reduction) const {
  const TileValue& v = graph_[reduction];
  return spell_reduce(std::get<TileReduce>(v.op).kind, v, graph_[v.operands[0]]);
}

// Where the lanes are parallel, a reduction that is the same in all of them is one number: what is made of it
// is kept and loaded as one number, too.
bool LaunchLowering::accumulates_vectors(TileValueId reduction) const {
  if (schedule_.lanes == 1) return false;
  return lanes_are_reduced() || accumulates_in_scratch() || varies_along(reduction, schedule_.lane_axis);
}

// The variables of one copy: the value, and the position where there is one.
std::vector<Code> LaunchLowering::declare_part(const std::string& name, const ReduceSpelling& spelling,
                                               const std::vector<DType>& types, bool is_vector,
                                               const std::optional<Code>& start) {
  std::vector<Code> variables;
  for (size_t i = 0; i < types.size(); ++i) {
    Code initial = i == 0 ? spelling.identity : literal(int64_t{0}, DType::I64);
    if (types[i] == DType::F64 && i == 0 && spelling.types[0] != DType::F64)
      initial = literal(0.0, DType::F64);
    if (is_vector) initial = call("splat", {initial}, {types[i]});
    if (start) initial = *start;
    const CodeType type{types[i], is_vector ? CodeShape::Vector : CodeShape::Scalar};
    variables.push_back(scopes_.var(i == 0 ? name : name + "_at", type, initial));
  }
  return variables;
}

LaunchLowering::Accumulator LaunchLowering::declare_accumulator(TileValueId reduction, AccumulatorRole role) {
  const ReduceSpelling spelling = spelling_of(reduction);
  const bool is_total = role == AccumulatorRole::Total && needs_blocks(reduction);
  Accumulator accumulator{reduction, spelling.types, {}};
  if (is_total) accumulator.types = {DType::F64};
  // Positions keep the first of equal values: one accumulator that sees all copies in order.
  const bool is_single = lanes_are_reduced() && (is_total || spelling.types.size() > 1);
  const int lane_copies = is_single ? 1 : lanes_are_reduced() ? schedule_.unroll : copies_.lanes;
  std::string kind = lanes_are_reduced() ? "_lanes" : "";
  if (is_total) kind = "_total";
  if (role == AccumulatorRole::Block) kind = "_block";
  const Copies outside = copies_;
  for (int row = 0; row < outside.rows; ++row) {
    auto& parts = accumulator.parts.emplace_back();
    for (copies_.lane = 0; copies_.lane < lane_copies; ++copies_.lane) {
      const std::string copy = numbered(row, copies_.rows) + numbered(copies_.lane, lane_copies);
      std::string name = name_of(reduction);
      name.append(kind).append(copy);
      parts.push_back(declare_part(name, spelling, accumulator.types, accumulates_vectors(reduction),
                                   start_of(reduction)));
    }
  }
  copies_ = outside;
  return accumulator;
}

// The flat position over the reduced axes of the current element.
Code LaunchLowering::position(TileValueId reduction) {
  Expr flat;
  for (const AxisId axis : std::get<TileReduce>(graph_[reduction].op).axes) {
    flat = flat * facts_.extents[axis.index] + Expr::index(static_cast<int>(axis.index));
  }
  flat = at_element(flat);
  if (accumulates_vectors(reduction)) return index_vector(flat);
  const Code code = index_code(flat);
  const auto number = constant_of(code);
  return number ? literal(*number, DType::I64) : code;
}

// In the accumulator's type.
Code LaunchLowering::element_of(TileValueId reduction, const Computed& element) const {
  const ReduceSpelling spelling = spelling_of(reduction);
  const TileValue& operand = graph_[graph_[reduction].operands[0]];
  Code code = converted_element(spelling, operand.dtype, element.code);
  if (accumulates_vectors(reduction) && !element.is_vector) code = call("splat", {code}, {spelling.types[0]});
  return code;
}

// The variables of the current copy.
const std::vector<Code>& LaunchLowering::accumulator_of(TileValueId reduction) const {
  const auto block = blocks_.find(reduction);
  const Accumulator& accumulator = block == blocks_.end() ? accumulators_.at(reduction) : block->second;
  const auto& lanes = accumulator.parts.at(static_cast<size_t>(copies_.row));
  return lanes[std::min(static_cast<size_t>(copies_.lane), lanes.size() - 1)];
}

// Lanes that are not there add nothing.
Code LaunchLowering::neutral_behind_the_last(const ReduceSpelling& spelling, Code elements) const {
  if (!copies_.left) return elements;
  const Code identity = call("splat", {spelling.identity}, {spelling.types[0]});
  return call("select", {call("first_lanes", {*copies_.left}), std::move(elements), identity});
}

// Whether the lanes of a value that are not there are zero anyway: loads put zeros there, and 0 * 0, 0 + 0
// and what is converted from 0 are. Values that were kept lie in memory with whatever is behind them.
bool LaunchLowering::is_zero_behind_the_last(TileValueId id) const {
  std::vector<TileValueId> made_of = {id};  // each once: a value can be an operand of many
  std::set<TileValueId> known = {id};
  for (size_t i = 0; i < made_of.size(); ++i) {
    if (!keeps_zeros(made_of[i])) return false;
    for (const TileValueId operand : graph_[made_of[i]].operands) {
      if (known.insert(operand).second) made_of.push_back(operand);
    }
  }
  return true;
}

// Whether the lanes of a value that are not there are zero where those of its operands are.
bool LaunchLowering::keeps_zeros(TileValueId id) const {
  const TileValue& v = graph_[id];
  if (in_pairs() || is_kept(id) || staged_rows_.contains(id) || !varies_along(id, schedule_.lane_axis))
    return false;
  if (const auto* load = std::get_if<TileLoad>(&v.op)) return to_double(load->fill) == 0.0;
  const auto* map = std::get_if<TileMap>(&v.op);
  return map != nullptr &&
         (map->fn == MapFn::Mul || map->fn == MapFn::Add || map->fn == MapFn::Sub || map->fn == MapFn::Cast);
}

void LaunchLowering::accumulate(TileValueId reduction, const Computed& element) {
  const ReduceSpelling spelling = spelling_of(reduction);
  Code code = element_of(reduction, element);
  const auto adds_zeros = [&] {
    const TileValue& value = graph_[reduction];
    return std::get<TileReduce>(value.op).kind == ReduceKind::Sum &&
           is_zero_behind_the_last(value.operands[0]);
  };
  if (lanes_are_reduced() && copies_.left && !adds_zeros())
    code = neutral_behind_the_last(spelling, std::move(code));
  const std::vector<Code>& target = accumulator_of(reduction);
  if (target.size() > 1) {
    scopes_.add({Effect{call(spelling.update, {target[0], target[1], code, position(reduction)})}, ""});
  } else if (spelling.op) {
    scopes_.add({Assign{target[0], spelling.op, code}, ""});
  } else {
    scopes_.add({Assign{target[0], std::nullopt, call(spelling.combine, {target[0], code})}, ""});
  }
}

// A block's sums join the accumulators, which are f64: there may be many blocks.
void LaunchLowering::add_block(const Accumulator& block) {
  const Accumulator& total = accumulators_.at(block.reduction);
  const auto join = [&](const Code& target, const Code& sum) {
    scopes_.add({Assign{target, CodeOperator::Add, call("convert", {sum}, {DType::F64})}, ""});
  };
  for (size_t row = 0; row < block.parts.size(); ++row) {
    if (lanes_are_reduced()) {
      Code sum = block.parts[row][0][0];
      for (size_t lane = 1; lane < block.parts[row].size(); ++lane) {
        sum = operate(CodeOperator::Add, {sum, block.parts[row][lane][0]});
      }
      join(total.parts[row][0][0], sum);
      continue;
    }
    for (size_t lane = 0; lane < block.parts[row].size(); ++lane) {
      join(total.parts[row][lane][0], block.parts[row][lane][0]);
    }
  }
}

// The copies of a row come together lane by lane.
Code LaunchLowering::over_copies(const Accumulator& accumulator, int row) {
  const ReduceSpelling spelling = spelling_of(accumulator.reduction);
  std::vector<Code> codes;
  for (const auto& components : accumulator.parts[static_cast<size_t>(row)]) codes.push_back(components[0]);
  while (codes.size() > 1) {
    std::vector<Code> halves;
    for (size_t i = 0; i + 1 < codes.size(); i += 2) {
      halves.push_back(combined(spelling, codes[i], codes[i + 1]));
    }
    if (codes.size() % 2 == 1) halves.push_back(codes.back());
    codes = std::move(halves);
  }
  return codes[0];
}

// The lanes of a row come together to one number; those of four rows, or of three, in the time of one. They
// may be rows of several reductions: what one walk adds up waits together.
std::map<TileValueId, std::vector<Code>> LaunchLowering::over_lanes(
    const std::vector<TileValueId>& reductions) {
  std::map<TileValueId, std::vector<Code>> numbers;
  std::map<std::pair<std::string, DType>, std::vector<LanesOfRow>> together;
  for (const TileValueId id : reductions) {
    const Accumulator& accumulator = accumulators_.at(id);
    const ReduceSpelling spelling = spelling_of(id);
    for (int row = 0; row < copies_.rows; ++row) {
      const auto& first = accumulator.parts[static_cast<size_t>(row)][0];
      if (accumulator.types.size() > 1) {
        numbers[id].push_back({Member{{call(spelling.across, {first[0], first[1]})}, "index"}});
      } else if (spelling.across_4[0] == '\0') {
        numbers[id].push_back(call(spelling.across, {over_copies(accumulator, row)}));
      } else {
        together[{spelling.across_4, accumulator.types[0]}].push_back({id, over_copies(accumulator, row)});
      }
    }
  }
  for (const auto& [spelling, rows] : together) bring_together(rows, numbers);
  for (auto& [id, of_rows] : numbers) {
    if (accumulators_.at(id).types.back() == type_of(id, false).dtype) continue;
    for (Code& number : of_rows) number = call("convert", {number}, {spelling_of(id).types[0]});
  }
  return numbers;
}

void LaunchLowering::bring_together(const std::vector<LanesOfRow>& rows,
                                    std::map<TileValueId, std::vector<Code>>& numbers) {
  size_t done = 0;
  for (size_t count = 4; done + 3 <= rows.size(); done += count) {
    count = std::min(count, rows.size() - done);
    const TileValueId first = rows[done].reduction;
    std::vector<Code> lanes;
    lanes.reserve(count);
    for (size_t i = 0; i < count; ++i) lanes.push_back(rows[done + i].lanes);
    const bool is_one = rows[done + count - 1].reduction == first;
    const Code code = scopes_.let(scopes_.depth(), name_of(first) + (is_one ? "_rows" : "_together"),
                                  {accumulators_.at(first).types[0], CodeShape::Four},
                                  call(spelling_of(first).across_4, std::move(lanes)));
    for (size_t i = 0; i < count; ++i)
      numbers[rows[done + i].reduction].push_back(
          subscript({Member{{code}, "r"}}, integer(static_cast<int64_t>(i))));
  }
  for (; done < rows.size(); ++done) {
    const TileValueId id = rows[done].reduction;
    numbers[id].push_back(call(spelling_of(id).across, {rows[done].lanes}));
  }
}

void LaunchLowering::finish(const std::vector<TileValueId>& reductions) {
  std::map<TileValueId, std::vector<Code>> numbers;
  if (lanes_are_reduced()) numbers = over_lanes(reductions);
  for (const TileValueId id : reductions) finish(accumulators_.at(id), numbers[id]);
}

// `numbers`, a row each, where the lanes were of a reduced axis.
void LaunchLowering::finish(const Accumulator& accumulator, const std::vector<Code>& numbers) {
  const TileValueId id = accumulator.reduction;
  const Copies outside = copies_;
  const int depth = scopes_.depth();
  const std::string note = "%" + graph_[id].name;
  for (copies_.row = 0; copies_.row < copies_.rows; ++copies_.row) {
    const auto row = static_cast<size_t>(copies_.row);
    if (lanes_are_reduced()) {
      const Code code =
          scopes_.let(depth, name_of(id) + copy_suffix(id), type_of(id, false), numbers[row], note);
      scopes_.remember(value_key(id), {code, depth, false});
      continue;
    }
    const auto& lanes = accumulator.parts[row];
    for (copies_.lane = 0; copies_.lane < static_cast<int>(lanes.size()); ++copies_.lane) {
      Code code = lanes[static_cast<size_t>(copies_.lane)].back();
      const bool is_vector = accumulates_vectors(id);
      const CodeType type = type_of(id, is_vector);
      if (accumulator.types.back() != type.dtype) code = call("convert", {code}, {type.dtype});
      code = scopes_.let(depth, name_of(id) + copy_suffix(id), type, std::move(code), note);
      scopes_.remember(value_key(id), {code, depth, is_vector});
    }
    copies_.lane = outside.lane;
  }
  copies_ = outside;
}

// Additions into one accumulator that a loop over the axis makes.
Expr LaunchLowering::chain_along(AxisId axis) const {
  const bool is_block = facts_.online != nullptr && axis == schedule_.block->axis;
  Expr length = is_block ? Expr(schedule_.block->tile) : facts_.extents[axis.index];
  if (axis != schedule_.lane_axis) return length;
  return ceildiv(length, lane_width() * schedule_.unroll);
}

// Steps of the walk over one block of an online walk; what is carried beyond is f64.
Expr LaunchLowering::block_chain() const {
  const std::vector<AxisId> order = reduced_loop_order(structure_, schedule_);
  Expr chain = 1;
  for (size_t i = order.size(); i-- > 0;) {
    chain = chain * chain_along(order[i]);
    if (order[i] == schedule_.block->axis) break;
  }
  return chain;
}

bool LaunchLowering::needs_blocks(TileValueId reduction) const {
  const TileValue& v = graph_[reduction];
  const bool is_sum = std::get<TileReduce>(v.op).kind == ReduceKind::Sum;
  if (!is_sum || info(v.dtype).compute != DType::F32) return false;
  Expr chain = 1;
  for (const AxisId axis : structure_.reduced) chain = chain * chain_along(axis);
  if (facts_.online != nullptr) chain = block_chain();
  if (facts_.online == nullptr && part_ == LaunchPart::Partial) chain = ceildiv(chain, schedule_.split);
  return !proves_nonnegative(Expr(longest_chain(reduction)) - chain);
}

int64_t LaunchLowering::longest_chain(TileValueId reduction) const {
  return contraction_of(graph_, reduction) ? kLongestProductChain : kLongestChain;
}

// How many elements of the axis a block has, with all of the loops inside it: joining a block costs as much
// as a few additions, so short inner loops share one. 0 where these loops alone are longer than a block, or
// may be. Of the reductions that go in blocks, the one with the shortest chains decides.
int64_t LaunchLowering::block_length(const std::vector<AxisId>& order, size_t next) const {
  int64_t steps = kLongestProductChain;
  for (const TileValueId id : reductions_of_pass(pass_)) {
    if (needs_blocks(id)) steps = std::min(steps, longest_chain(id));
  }
  Expr inside = 1;
  for (size_t i = next + 1; i < order.size(); ++i) inside = inside * chain_along(order[i]);
  steps = inside.constant() ? steps / std::max(int64_t{1}, *inside.constant()) : 0;
  const AxisId axis = order[next];
  return axis == schedule_.lane_axis ? steps * lane_width() * schedule_.unroll : steps;
}

void LaunchLowering::declare_scans(const std::set<TileValueId>& needed) {
  for (const TileValueId id : needed) {
    const auto* scan = std::get_if<TileScan>(&graph_[id].op);
    if (scan == nullptr) continue;
    const TileValue& v = graph_[id];
    const ReduceSpelling spelling = spell_scan(scan->kind, v, graph_[v.operands[0]]);
    Accumulator carried{id, spelling.types, {}};
    const bool is_along = scan->axis == schedule_.lane_axis;  // the vectors of a row carry one number
    const bool is_vector = varies_along(id, schedule_.lane_axis) && !is_along;
    const int lane_copies = is_along ? 1 : copies_.lanes;
    for (int row = 0; row < copies_.rows; ++row) {
      auto& parts = carried.parts.emplace_back();
      for (int lane = 0; lane < lane_copies; ++lane) {
        const std::string copy = numbered(row, copies_.rows) + numbered(lane, lane_copies);
        const std::string name = name_of(id) + "_so_far" + copy;
        const Code initial =
            is_vector ? call("splat", {spelling.identity}, {spelling.types[0]}) : spelling.identity;
        const CodeShape shape = is_vector ? CodeShape::Vector : CodeShape::Scalar;
        parts.push_back({scopes_.var(name, {spelling.types[0], shape}, initial)});
      }
    }
    scans_.insert_or_assign(id, std::move(carried));
  }
}

Computed LaunchLowering::scan(TileValueId id, const TileScan& scan) {
  const TileValue& v = graph_[id];
  const TileValue& operand = graph_[v.operands[0]];
  const ReduceSpelling spelling = spell_scan(scan.kind, v, operand);
  const DType carried_type = spelling.types[0];
  const Computed element = value(v.operands[0]);
  const bool is_vector = varies_along(id, schedule_.lane_axis);
  const bool is_along = scan.axis == schedule_.lane_axis;
  Code code = converted_element(spelling, operand.dtype, element.code);
  if (is_vector && !element.is_vector) code = call("splat", {code}, {carried_type});
  const auto& parts = scans_.at(id).parts.at(static_cast<size_t>(copies_.row));
  const Code carried = parts.at(is_along ? 0 : static_cast<size_t>(copies_.lane))[0];
  Code so_far = carried;
  if (is_along) {
    so_far = scan_vector(id, spelling, carried, std::move(code));
  } else {
    scopes_.add({Assign{carried, std::nullopt, combined(spelling, carried, code)}, ""});
  }
  // A name of its own: the carried variable changes in the next iteration.
  const SymbolId now = scopes_.symbol(name_of(id) + copy_suffix(id), type_of(id, is_vector));
  const DType result = info(v.dtype).compute;
  scopes_.add({Let{now, carried_type == result ? so_far : call("convert", {so_far}, {result})}, ""});
  return {reference(now), scopes_.depth(), is_vector};
}

// Lanes along the axis of the scan: what each has come to. Only the joining of what is carried waits for the
// vector before.
Code LaunchLowering::scan_vector(TileValueId id, const ReduceSpelling& spelling, const Code& carried,
                                 Code element) {
  const DType dtype = spelling.types[0];
  element = neutral_behind_the_last(spelling, std::move(element));
  const CodeType vector{dtype, CodeShape::Vector};
  const std::string name = name_of(id) + copy_suffix(id);
  const SymbolId prefix = scopes_.symbol(name + "_prefix", vector);
  scopes_.add({Let{prefix, call(spelling.along, {std::move(element)})}, ""});
  const SymbolId joined = scopes_.symbol(name + "_joined", vector);
  scopes_.add({Let{joined, combined(spelling, call("splat", {carried}, {dtype}), reference(prefix))}, ""});
  const Code last = call("last_lane", {reference(prefix)});
  scopes_.add({Assign{carried, std::nullopt, combined(spelling, carried, last)}, ""});
  return reference(joined);
}

}  // namespace tilefuse
