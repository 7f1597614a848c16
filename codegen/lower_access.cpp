// Addresses, loads and stores.
//
// An offset is split where its loops are: what outer loops contribute becomes a pointer with a name (x_row),
// the rest stands at the access.
#include <algorithm>

#include "codegen/expr_code.h"
#include "codegen/launch_lowering.h"
#include "codegen/spell_map.h"
#include "core/expr_terms.h"
#include "core/result.h"
#include "fusion/scatter.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};
constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostBetweenLanes = 8;  // that the runtime header puts together from whole loads

bool is_zero(const Scalar& value) { return to_double(value) == 0.0; }

}  // namespace

Code LaunchLowering::buffer_pointer(BufferId buffer) {
  const Buffer& facts = graph_[buffer];
  const std::string key = "buffer " + std::to_string(buffer.index);
  if (const Computed* known = scopes_.find(key)) return known->code;
  if (facts.role == Buffer::Role::Scratch) {
    return scopes_.remember(key, {chain_tile_pointer(buffer), 0, false}).code;
  }
  const bool is_written = facts.role == Buffer::Role::Output || facts.role == Buffer::Role::Workspace;
  const CodeType type{facts.dtype, is_written ? CodeShape::Pointer : CodeShape::ConstPointer};
  const Code slot = subscript(reference(kBuffers), integer(buffer.index));
  const Code code = scopes_.let(0, facts.name, type, {PointerCast{type, {slot, integer(0)}}});
  return scopes_.remember(key, {code, 0, false}).code;
}

std::optional<std::vector<Expr>> LaunchLowering::open_guards(const std::vector<Expr>& guard) const {
  std::vector<Expr> open;
  for (const Expr& e : guard) {
    const Expr here = at_written_row(e);
    if (is_nonnegative(here) || std::ranges::find(inside_, e) != inside_.end()) continue;
    if (is_nonnegative(-here - 1)) return std::nullopt;
    open.push_back(at_element(e));
  }
  return open;
}

Code LaunchLowering::condition(const std::vector<Expr>& guards) {
  return none_negative(guards, [this](const Expr& e) { return index_code(e); });
}

// Lanes, the first ones, that so many elements take.
Code LaunchLowering::lanes_in(const Expr& elements) {
  if (!in_pairs()) return index_code(elements);
  return operate(CodeOperator::ShiftRight, {index_code(elements + 1), integer(1)});
}

// The lanes in which every guard holds.
Code LaunchLowering::mask_of(const std::vector<Expr>& lane_guards, bool with_tail) {
  std::optional<Code> all;
  const auto join = [&](const Code& mask) { all = all ? call("mask_and", {*all, mask}) : mask; };
  for (const Expr& e : lane_guards) {
    const auto affine = affine_in(e, static_cast<int>(schedule_.lane_axis->index));
    const int64_t slope = affine ? affine->coefficient.constant().value_or(0) : 0;
    const bool is_cut = slope == 1 || slope == -1 || (slope != 0 && !in_pairs());
    if (is_cut && slope < 0) {
      join(call("first_lanes", {lanes_in(floordiv(e - slope, -slope))}));
    } else if (is_cut) {
      join(call("mask_not", {call("first_lanes", {lanes_in(ceildiv(-e, slope))})}));
    } else {
      join(call("ge", {index_vector(e), call("splat", {integer(0)}, {DType::I64})}));
    }
  }
  if (with_tail && copies_.left) join(call("first_lanes", {*copies_.left}));
  return *all;
}

// Not if it can be seen that it lies inside (value_bounds.h).
bool LaunchLowering::is_checked(const IndexTerm& term) const {
  return !is_index_into(ranges_[term.value.index], term.extent);
}

int LaunchLowering::depth_of_all(const std::vector<Expr>& guards) const {
  int depth = base_depth_;
  for (const Expr& e : guards) depth = std::max(depth, depth_of(e));
  return depth;
}

Computed LaunchLowering::wrapped_index(const IndexTerm& term, const std::vector<Expr>& guards) {
  const std::string key = "wrapped " + value_key(term.value) + " " + to_text(term.extent);
  if (guards.empty()) {
    if (const Computed* known = scopes_.find(key)) return *known;
  }
  Computed index = value(term.value);
  index.depth = std::max(index.depth, base_depth_);
  std::vector<Expr> even, uneven;
  for (const Expr& e : guards) (uses_lanes(e) ? uneven : even).push_back(e);
  const bool in_lanes = index.is_vector || !uneven.empty();
  if (!guards.empty()) index.depth = in_lanes ? scopes_.depth() : std::max(index.depth, depth_of_all(even));
  if (graph_[term.value].dtype != DType::I64) index.code = call("convert", {index.code}, {DType::I64});
  if (!even.empty()) {
    const Code zero =
        index.is_vector ? call("splat", {integer(0)}, {DType::I64}) : literal(int64_t{0}, DType::I64);
    index.code = operate(CodeOperator::Choose, {condition(even), index.code, zero});
  }
  const CodeType type{DType::I64, index.is_vector ? CodeShape::Vector : CodeShape::Scalar};
  if (!is_checked(term)) {
    index.code = scopes_.let(index.depth, name_of(term.value) + "_index", type, index.code);
    return guards.empty() ? scopes_.remember(key, index) : index;
  }
  checks_indices_ = true;
  const CodeType flag{DType::I64, CodeShape::Pointer};
  if (scopes_.find("error flag") == nullptr) {
    const Code cast{PointerCast{flag, {reference(kScratch), integer(0)}}};
    scopes_.remember("error flag", {scopes_.let(0, "error", flag, cast), 0, false});
  }
  std::vector<Code> arguments = {index.code, index_code(term.extent), literal(term.wrap, DType::Bool),
                                 scopes_.find("error flag")->code};
  if (index.is_vector && (copies_.left || !uneven.empty())) arguments.push_back(mask_of(uneven, true));
  index.code =
      scopes_.let(index.depth, name_of(term.value) + "_in_range", type, call("wrap_index", arguments));
  return guards.empty() ? scopes_.remember(key, index) : index;
}

// base + offset + indices, the part of outer blocks in a named pointer.
Code LaunchLowering::pointer_at(const Place& place, const Expr& offset,
                                const std::vector<Computed>& indices) {
  Expr outer, inner;
  std::string innermost_axis;
  int outer_depth = 0, axis_depth = -1;
  for (const Expr::Term& term : offset.terms()) {
    const Expr whole = make_expr({term});
    const int depth = depth_of(whole);
    if (term.factors.empty() || depth >= place.depth) {
      inner = inner + whole;
      continue;
    }
    outer = outer + whole;
    outer_depth = std::max(outer_depth, depth);
    for (const int index : indices_of(whole)) {
      const AxisId axis{static_cast<uint32_t>(index)};
      if (bound_.at(axis).depth <= axis_depth) continue;
      axis_depth = bound_.at(axis).depth;
      innermost_axis = graph_[axis].name;
    }
  }
  Code pointer = place.base, rest = index_code(inner);
  std::string key = "pointer " + place.name + " " + to_text(outer);
  bool has_outer = !outer.is_constant(0);
  if (has_outer) pointer = add(pointer, index_code(outer));
  for (const Computed& index : indices) {
    if (index.depth >= place.depth) {
      rest = add(index.code, rest);
      continue;
    }
    pointer = add(pointer, index.code);
    outer_depth = std::max(outer_depth, index.depth);
    for_each_reference(index.code, [&](SymbolId symbol) { key += " +" + std::to_string(symbol.index); });
    has_outer = true;
  }
  if (has_outer) {
    const Computed* known = scopes_.find(key);
    if (known == nullptr) {
      const std::string name = place.name + (innermost_axis.empty() ? "_at" : "_" + innermost_axis);
      const CodeType type = kernel_[std::get<Reference>(place.base.kind).symbol].type;
      known = &scopes_.remember(key, {scopes_.let(outer_depth, name, type, pointer), outer_depth, false});
    }
    pointer = known->code;
  }
  return add(pointer, rest);
}

// The lane-varying part of an offset goes into the address; what is left stays even.
Expr LaunchLowering::split_lanes(const Expr& offset, Address& address) {
  if (!uses_lanes(offset)) return offset;
  if (const auto affine = affine_in(offset, static_cast<int>(schedule_.lane_axis->index))) {
    address.stride = affine->coefficient;
    return offset;  // of lane 0
  }
  const auto pattern = pattern_of_lanes(offset);
  if (const auto step = pattern ? pattern->step() : std::nullopt) {
    address.stride = *step;
    return offset;  // of lane 0
  }
  Expr uneven;
  for (const Expr::Term& term : offset.terms()) {
    const Expr whole = make_expr({term});
    if (!uses_lanes(whole)) continue;
    uneven = uneven + whole;
    address.is_near &= term.factors.size() == 1 && (term.coefficient == 1 || term.coefficient == -1);
  }
  address.offsets = index_vector(uneven);
  return offset - uneven;
}

// Vectors of indices go into the address; the others are handed back.
std::vector<Computed> LaunchLowering::add_indices(const Place& place, const std::vector<Expr>& guards,
                                                  Address& address) {
  std::vector<Computed> even;
  if (place.gathered == nullptr) return even;
  for (const IndexTerm& term : *place.gathered) {
    Computed index = wrapped_index(term, guards);
    if (!term.stride.is_constant(1)) {
      index.code = operate(CodeOperator::Mul, {index.code, index_code(term.stride)});
    }
    if (!index.is_vector) {
      even.push_back(index);
      continue;
    }
    address.is_near &= !ranges_[term.value.index].uses_data && term.stride.is_constant(1);
    address.offsets =
        address.offsets ? operate(CodeOperator::Add, {*address.offsets, index.code}) : index.code;
  }
  return even;
}

LaunchLowering::Address LaunchLowering::address(const Place& place, const std::vector<Expr>& guards) {
  Address result;
  const Expr even = split_lanes(place.offset, result);
  const std::vector<Computed> indices = add_indices(place, guards, result);
  if (result.offsets && result.stride) {
    const Code steps =
        operate(CodeOperator::Mul, {call("iota", {}, {DType::I64}), index_code(*result.stride)});
    result.is_near &= result.stride->is_constant(1);
    result.offsets = operate(CodeOperator::Add, {*result.offsets, steps});
    result.stride.reset();
  }
  result.pointer = pointer_at(place, even, indices);
  return result;
}

Code LaunchLowering::plain_load(const Address& address, bool is_vector) {
  if (!is_vector) return call("load_one", {address.pointer});
  std::vector<Code> arguments = {address.pointer};
  if (address.offsets) {
    arguments.push_back(*address.offsets);
    if (copies_.left) arguments.push_back(mask_of({}, true));
    return call(address.is_near ? "gather_near" : "gather", std::move(arguments));
  }
  const auto stride = address.stride->constant();
  const bool is_every = stride && 2 <= *stride && *stride <= kMostBetweenLanes;
  if (stride != 1 && !is_every) arguments.push_back(index_code(*address.stride));
  if (copies_.left) arguments.push_back(*copies_.left);
  if (is_every) return call("load_every", std::move(arguments), {}, {*stride});
  return call(stride == 1 ? "load" : "load_strided", std::move(arguments));
}

// Reads only lanes in which the guards hold; the others are `fill`.
Code LaunchLowering::guarded_lanes(const TileLoad& load, DType dtype, const Address& address,
                                   const std::vector<Expr>& lane_guards) {
  const Code fill = call("splat", {literal(load.fill, info(dtype).compute)}, {dtype});
  if (lane_guards.size() == 1 && !copies_.left && address.stride && address.stride->is_constant(1)) {
    const auto affine = affine_in(lane_guards[0], static_cast<int>(schedule_.lane_axis->index));
    if (affine && affine->coefficient.is_constant(-1)) {
      const Code count = index_code(lane_guards[0] + 1);
      Code loaded = call("load", {address.pointer, count});
      if (is_zero(load.fill)) return loaded;
      return call("select", {call("first_lanes", {count}), loaded, fill});
    }
  }
  const CodeType mask_type{DType::Bool, CodeShape::Vector};
  // Not that of the loop which is open: the value may be wanted further out.
  const int depth = depth_of_all(lane_guards);
  const Code mask = scopes_.let(depth, "inside", mask_type, mask_of(lane_guards, true));
  if (address.stride && address.stride->is_constant(1)) {
    Code loaded = call("load_where", {address.pointer, mask});
    return is_zero(load.fill) ? loaded : call("select", {mask, loaded, fill});
  }
  if (address.stride) {
    Code loaded = call("load_strided_where", {address.pointer, index_code(*address.stride), mask});
    return is_zero(load.fill) ? loaded : call("select", {mask, loaded, fill});
  }
  const Code offsets = address.offsets ? *address.offsets : call("splat", {integer(0)}, {DType::I64});
  Code loaded = call("gather", {address.pointer, offsets, mask});
  return is_zero(load.fill) ? loaded : call("select", {mask, loaded, fill});
}

// Where several multiplications use a vector, compilers would rather load it for each.
Code LaunchLowering::shared_by_rows(Code loaded) const {
  return copies_.rows > 1 ? call("in_register", {std::move(loaded)}) : loaded;
}

Computed LaunchLowering::load(TileValueId id, const TileLoad& load) {
  const TileValue& v = graph_[id];
  const DType compute = info(v.dtype).compute;
  const auto guards = open_guards(load.guard);
  // What a range of a loop settles holds in that loop only: hence the depth.
  if (!guards) return {literal(load.fill, compute), depth_of(v.axes), false};
  std::vector<Expr> lane_guards, scalar_guards;
  for (const Expr& e : *guards) (uses_lanes(e) ? lane_guards : scalar_guards).push_back(e);

  const int depth = depth_of(v.axes);
  Address from;
  std::optional<Code> exchanged;
  if (const auto staged = staged_rows_.find(id); staged != staged_rows_.end()) {
    from = scratch_address(staged->second, depth);
    if (staged->second.holds_vector) return {shared_by_rows(call("load", {from.pointer})), depth, true};
  } else {
    if (lane_guards.empty()) exchanged = load_exchanged(load, depth);
    const Buffer& buffer = graph_[load.buffer];
    if (!exchanged)
      from = address({buffer_pointer(load.buffer), buffer.name, at_copy(load.offset), &load.gathered, depth},
                     *guards);
  }
  const bool is_vector = exchanged || from.varies_along_lanes() || !lane_guards.empty();
  if (is_vector && in_pairs()) return load_pair(id, load, scalar_guards, depth);
  Code code = exchanged             ? *exchanged
              : lane_guards.empty() ? plain_load(from, is_vector)
                                    : guarded_lanes(load, v.dtype, from, lane_guards);
  // Conditions have registers of their own.
  const bool meets_rows = structure_.contracts && !varies_along(id, facts_.row_axis) &&
                          structure_.varies_along_reduced(graph_, id);
  if (is_vector && (facts_.columns > 1 || meets_rows) && v.dtype != DType::Bool)
    code = shared_by_rows(std::move(code));
  if (!scalar_guards.empty()) {
    Code fill = literal(load.fill, compute);
    if (is_vector) fill = call("splat", {fill}, {v.dtype});
    code = operate(CodeOperator::Choose, {condition(scalar_guards), code, fill});
  }
  return {code, depth, is_vector};
}

// What is there, and the value; of an address that no other element of a vector has.
Computed LaunchLowering::onto(const Address& address, const Computed& value, MapFn fn, DType dtype) {
  const bool is_vector = address.varies_along_lanes();
  const DType compute = info(dtype).compute;
  const Code before = plain_load(address, is_vector);
  const Code with = is_vector ? as_vector(value, compute) : value.code;
  return {spell_map(fn, {{before, compute, is_vector}, {with, compute, is_vector}}, compute), value.depth,
          is_vector};
}

// Rows side by side that go to one place are brought together before: what one leaves there the next would
// wait for.
bool LaunchLowering::rows_share_place(const TileStore& store) const {
  return store.scatter && info(store.scatter->mode).combine && copies_.rows > 1 && facts_.row_axis &&
         sharing_a_place(graph_, store, *facts_.row_axis) % facts_.rows == 0;
}

Computed LaunchLowering::combined_rows(const TileStore& store, std::vector<Computed> rows) {
  const DType dtype = graph_[store.buffer].dtype, compute = info(dtype).compute;
  const MapFn combine = *info(store.scatter->mode).combine;
  const bool is_vector =
      std::any_of(rows.begin(), rows.end(), [](const Computed& row) { return row.is_vector; });
  while (rows.size() > 1) {  // in pairs, and pairs of them
    std::vector<Computed> pairs;
    for (size_t i = 0; i + 1 < rows.size(); i += 2) {
      std::vector<MapOperand> operands;
      for (const Computed& row : {rows[i], rows[i + 1]}) {
        operands.push_back({is_vector ? as_vector(row, compute) : row.code, compute, is_vector});
      }
      pairs.push_back(
          {spell_map(combine, operands, compute), std::max(rows[i].depth, rows[i + 1].depth), is_vector});
    }
    if (rows.size() % 2 == 1) pairs.push_back(rows.back());
    rows = std::move(pairs);
  }
  return rows.front();
}

// Nothing moves across it. A dimension of the base that may be empty has no place to write to.
void LaunchLowering::emit_scatter(const TileStore& store, const Computed& value) {
  const Buffer& buffer = graph_[store.buffer];
  const TileScatter& scatter = *store.scatter;
  const Place place{buffer_pointer(store.buffer), buffer.name, at_copy(store.offset), &scatter.at,
                    scopes_.depth()};
  const Address to = address(place, {});
  std::vector<Expr> may_be_empty;
  for (const IndexTerm& term : scatter.at) {
    if (!proves_nonnegative(term.extent - 1, {})) may_be_empty.push_back(term.extent - 1);
  }
  const auto& combine = info(scatter.mode).combine;
  const Computed written = combine ? onto(to, value, *combine, buffer.dtype) : value;
  const StoreStyle style{.dtype = buffer.dtype, .note = "%" + graph_[store.value].name};
  if (may_be_empty.empty()) return store_at(to, written, style);
  scopes_.open();
  store_at(to, written, style);
  scopes_.add({If{condition(may_be_empty), scopes_.close()}, ""});
}

void LaunchLowering::emit_store(const TileStore& store, const Computed& value) {
  if (store.scatter) return emit_scatter(store, value);
  const Buffer& buffer = graph_[store.buffer];
  const Place place{buffer_pointer(store.buffer), buffer.name, at_copy(store.offset), nullptr,
                    scopes_.depth()};
  std::optional<int> group;  // scratch is read again
  if (buffer.role == Buffer::Role::Output) group = static_cast<int>(&store - graph_.stores.data());
  const std::string note = "%" + graph_[store.value].name;
  store_at(address(place, {}), value, {buffer.dtype, store_path(store.buffer, schedule_), note, group});
}

// The lines that the next iteration writes where this one writes these vectors; each line once.
void LaunchLowering::ask_ahead(const Code& pointer, DType dtype, int vectors) {
  const int64_t bytes = int64_t{schedule_.lanes} * size_in_bytes(dtype);
  if (copies_.lane * bytes % kLineBytes != 0) return;
  for (int64_t line = 0; line < std::max<int64_t>(1, vectors * bytes / kLineBytes); ++line) {
    const int64_t elements =
        int64_t{schedule_.lanes} * copies_.lanes + line * kLineBytes / size_in_bytes(dtype);
    scopes_.add({Effect{call("prefetch_write", {add(pointer, integer(elements))})}, ""});
  }
}

// A store to a narrow float rounds: the cast before it need not.
TileValueId LaunchLowering::stored_value(const TileStore& store) const {
  const TileValue& v = graph_[store.value];
  const auto* map = std::get_if<TileMap>(&v.op);
  const bool rounds = v.dtype == graph_[store.buffer].dtype;
  if (map == nullptr || map->fn != MapFn::Cast || !is_narrow_float(v.dtype) || !rounds ||
      is_kept(store.value))
    return store.value;
  return info(graph_[v.operands[0]].dtype).compute == DType::F32 ? v.operands[0] : store.value;
}

// As it is stored beside other lanes.
Code LaunchLowering::as_vector(const Computed& value, DType dtype) {
  return value.is_vector ? value.code : call("splat", {value.code}, {dtype});
}

void LaunchLowering::store_at(const Address& address, const Computed& value, const StoreStyle& style) {
  const auto& [dtype, path, note, group] = style;
  if (!address.varies_along_lanes()) {
    TILEFUSE_CHECK(!value.is_vector, "a vector is stored to one element: " + note);
    scopes_.add({Effect{call("store_one", {address.pointer, value.code}), group}, note});
    return;
  }
  const Code vector = as_vector(value, dtype);
  std::vector<Code> arguments = {address.pointer};
  if (address.offsets) {
    arguments.insert(arguments.end(), {*address.offsets, vector});
    arguments.push_back(copies_.left ? mask_of({}, true) : call("mask_splat", {literal(true, DType::Bool)}));
    scopes_.add({Effect{call("scatter", std::move(arguments)), group}, note});
    return;
  }
  const bool is_contiguous = address.stride->is_constant(1);
  if (!is_contiguous) arguments.push_back(index_code(*address.stride));
  arguments.push_back(vector);
  if (copies_.left) arguments.push_back(*copies_.left);
  const bool is_whole = is_contiguous && !copies_.left;
  const bool streams = path == StorePath::Streamed && is_whole;
  streams_ |= streams;
  if (path == StorePath::Ahead && is_whole) ask_ahead(address.pointer, dtype, 1);
  const char* function = !is_contiguous ? "store_strided" : streams ? "stream" : "store";
  scopes_.add({Effect{call(function, std::move(arguments)), group}, note});
}

}  // namespace tilefuse
