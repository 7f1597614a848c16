// Data movement that is a function of coordinates.
#include <algorithm>

#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/refusal.h"
#include "core/import/view_maps.h"
#include "core/rounding.h"

namespace tilefuse::aten {
namespace {

// ---------------------------------------------------------------- same elements, new shape
Outputs same(CapturedOp& op) { return {op.tensor("self")}; }

Outputs reshape_row(CapturedOp& op) {
  for (const auto* name : {"size", "shape", "start_dim", "end_dim", "dim", "sizes", "other"}) op.ignore(name);
  return {reshape(op.tensor("self"), op.shape())};
}

Outputs expand_row(CapturedOp& op) {
  for (const auto* name : {"size", "implicit", "other"}) op.ignore(name);
  return {expand(op.tensor("self"), op.shape())};
}

// A copy only where the layout changes.
Outputs contiguous(CapturedOp& op) {
  op.ignore("memory_format");
  const Tensor x = op.tensor("self");
  const auto& strides = op.builder().graph()[x.id()].strides;
  const bool stays = strides && *strides == op.result().strides;
  return {stays ? x : map(MapFn::Copy, x)};
}

Outputs dropout(CapturedOp& op) {
  op.ignore("p");
  const std::string_view input = op.has("input") ? "input" : "self";
  if (op.flag("train", false)) decline("dropout while training");
  return {op.tensor(input)};
}

// ---------------------------------------------------------------- order of dims
Outputs permuted(const Tensor& x, const std::vector<int>& order) {
  return {view(x, permute_map(x.shape(), order))};
}

Outputs swapped(const Tensor& x, int a, int b) {
  Dims order = all_dims(x);
  if (x.rank() > 0) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return permuted(x, order);
}

Outputs permute(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  std::vector<int> order;
  for (const int64_t dim : op.integers("dims")) order.push_back(wrapped_dim(dim, x.rank()));
  if (order.size() != all_dims(x).size()) decline("an order of another number of dimensions");
  return permuted(x, order);
}

Outputs transpose(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const bool is_axis = op.has("axis0");
  const int a = op.dim(is_axis ? "axis0" : "dim0", x.rank());
  return swapped(x, a, op.dim(is_axis ? "axis1" : "dim1", x.rank()));
}

Outputs transposed(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  return x.rank() < 2 ? Outputs{x} : swapped(x, x.rank() - 2, x.rank() - 1);
}

Outputs movedim(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const std::vector<int64_t> from = op.integers("source"), to = op.integers("destination");
  std::vector<int> order(static_cast<size_t>(x.rank()), -1);
  std::vector<bool> is_moved(order.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const int source = wrapped_dim(from[i], x.rank());
    order[static_cast<size_t>(wrapped_dim(to[i], x.rank()))] = source;
    is_moved[static_cast<size_t>(source)] = true;
  }
  int next = 0;
  for (int& dim : order) {
    if (dim >= 0) continue;
    while (is_moved[static_cast<size_t>(next)]) ++next;
    dim = next++;
  }
  return permuted(x, order);
}

// ---------------------------------------------------------------- parts
Outputs slice(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int dim = op.dim("dim", x.rank(), 0);
  const Expr step = op.size("step", Expr(1));
  const Expr start = slice_start(op, x.size(dim));
  op.ignore("end");
  return {view(x, slice_map(x.shape(), dim, start, op.shape()[static_cast<size_t>(dim)], step))};
}

Outputs narrow(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int dim = op.dim("dim", x.rank());
  const Expr start = slice_start(op, x.size(dim));
  return {view(x, slice_map(x.shape(), dim, start, op.size("length"), 1))};
}

Outputs select(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int dim = op.dim("dim", x.rank());
  return {view(x, select_map(x.shape(), dim, wrapped_place(op.size("index"), x.size(dim))))};
}

Outputs unbind(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int dim = op.dim("dim", x.rank(), 0);
  Outputs parts;
  for (size_t i = 0; i < op.result_count(); ++i) {
    parts.emplace_back(view(x, select_map(x.shape(), dim, static_cast<int64_t>(i))));
  }
  return parts;
}

// Pieces of the recorded sizes, one after the other.
Outputs split(CapturedOp& op) {
  for (const auto* name : {"split_size", "split_sizes", "chunks", "sections", "indices"}) op.ignore(name);
  const Tensor x = op.tensor("self");
  const int dim = op.dim("dim", x.rank(), 0);
  Outputs parts;
  Expr start = 0;
  for (size_t i = 0; i < op.result_count(); ++i) {
    const Expr length = op.shape(i)[static_cast<size_t>(dim)];
    parts.emplace_back(view(x, slice_map(x.shape(), dim, start, length, 1)));
    start = start + length;
  }
  return parts;
}

Outputs diagonal(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const int a = op.dim("dim1", x.rank(), 0), b = op.dim("dim2", x.rank(), 1);
  const int64_t offset = op.integer("offset", 0);
  const int rank = x.rank() - 1;
  IndexMap map{op.shape(), {}, {}, 0.0};
  int next = 0;
  for (int dim = 0; dim < x.rank(); ++dim) {
    const Expr along = Expr::index(rank - 1);
    const Expr place =
        dim == a ? along + std::max<int64_t>(-offset, 0) : along + std::max<int64_t>(offset, 0);
    map.coordinates.push_back(dim == a || dim == b ? place : Expr::index(next++));
  }
  return {view(x, std::move(map))};
}

// Dim `dim` becomes windows of `size`, `step` apart; the place in the window is the last dim.
Outputs unfold(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  if (x.rank() == 0) decline("windows of a scalar");
  const int dim = op.dim("dimension", x.rank());
  op.ignore("size");
  IndexMap map{op.shape(), identity_map(x.shape()).coordinates, {}, 0.0};
  map.coordinates[static_cast<size_t>(dim)] = Expr::index(dim) * op.size("step") + Expr::index(x.rank());
  return {view(x, std::move(map))};
}

// ---------------------------------------------------------------- rearrangement
Outputs flip(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  std::vector<int> dims;
  for (const int64_t dim : op.integers("dims")) dims.push_back(wrapped_dim(dim, x.rank()));
  if (x.rank() == 0) return {x};
  return {view(x, flip_map(x.shape(), dims))};
}

// The last dimension as two slices that changed places: the lanes run along it, and each slice is contiguous.
Tensor roll_last(CapturedOp& op, const Tensor& x, int64_t size, int64_t shift) {
  const int64_t front = ((shift % size) + size) % size;
  if (front == 0) return x;
  const int last = x.rank() - 1;
  const Tensor back = view(x, slice_map(x.shape(), last, size - front, front, 1));
  const Tensor rest = view(x, slice_map(x.shape(), last, 0, size - front, 1));
  return {op.builder(), op.builder().add(Concat{last}, {back.id(), rest.id()}, op.result().type)};
}

Outputs roll(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const std::vector<Expr> shifts = op.sizes("shifts");
  std::vector<int64_t> dims;
  if (op.has("dims")) dims = op.integers("dims");
  if (dims.empty() || x.rank() == 0) decline("a roll of the flattened tensor");
  IndexMap map = identity_map(x.shape());
  for (size_t i = 0; i < dims.size(); ++i) {
    Expr& place = map.coordinates[static_cast<size_t>(wrapped_dim(dims[i], x.rank()))];
    place = place - shifts[i];
  }
  const int last = x.rank() - 1;
  Expr& last_place = map.coordinates[static_cast<size_t>(last)];
  const auto size = x.size(last).constant(), shift = (Expr::index(last) - last_place).constant();
  const bool swaps = size && *size > 0 && shift;
  if (swaps) last_place = Expr::index(last);
  for (int dim = 0; dim < x.rank(); ++dim) {
    Expr& place = map.coordinates[static_cast<size_t>(dim)];
    if (place != Expr::index(dim)) place = mod(place, x.size(dim));
  }
  const Tensor rolled = view(x, simplify(map));
  return {swaps ? roll_last(op, rolled, *size, *shift) : rolled};
}

Outputs repeat(CapturedOp& op) {
  op.ignore(op.has("repeats") ? "repeats" : "dims");
  const Tensor x = op.tensor("self");
  const int added = static_cast<int>(op.shape().size()) - x.rank();
  if (added < 0) decline("a tile of fewer dims");
  IndexMap map{op.shape(), {}, {}, 0.0};
  for (int dim = 0; dim < x.rank(); ++dim) {
    map.coordinates.push_back(mod(Expr::index(added + dim), x.size(dim)));
  }
  return {view(x, simplify(map))};
}

Outputs repeat_interleave(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  op.ignore("output_size");
  if (!op.has("dim")) decline("it repeats the flattened tensor");
  const int dim = op.dim("dim", x.rank());
  IndexMap map = identity_map(op.shape());
  map.coordinates[static_cast<size_t>(dim)] = floordiv(Expr::index(dim), op.size("repeats"));
  return {view(x, simplify(map))};
}

// Pads come as (before, after) pairs from the last dim on; negative ones crop.
Outputs pad(CapturedOp& op) {
  if (op.text("mode", "constant") != "constant") decline("a pad that is not constant");
  const Tensor x = op.tensor("self");
  const std::vector<Expr> pads = op.sizes("pad");
  const Number value = op.has("value") ? op.scalar("value") : Number(Scalar{0.0});
  const Scalar* fill = std::get_if<Scalar>(&value);
  if (fill == nullptr) decline("a symbolic fill");
  IndexMap map{op.shape(), identity_map(x.shape()).coordinates, {}, *fill};
  if (is_float(x.dtype())) map.fill = round_to(x.dtype(), to_double(*fill));
  for (size_t i = 0; i + 1 < pads.size(); i += 2) {
    const int dim = x.rank() - 1 - static_cast<int>(i / 2);
    const Expr place = Expr::index(dim) - pads[i];
    map.coordinates[static_cast<size_t>(dim)] = place;
    if (!proves_nonnegative(-pads[i])) map.conditions.push_back(place);
    if (!proves_nonnegative(-pads[i + 1])) map.conditions.push_back(x.size(dim) - 1 - place);
  }
  return {view(x, simplify(map))};
}

// The storage of a contiguous tensor, read at computed places that all lie inside it.
Outputs strided(CapturedOp& op) {
  const Tensor x = op.tensor("self");
  const auto strides = op.builder().graph()[x.id()].strides;
  if (!strides || *strides != contiguous_strides(x.shape())) decline("storage that is not contiguous");
  const std::vector<Expr> steps = op.sizes("stride");
  Expr place = op.size("storage_offset", op.storage_offset("self")) - op.storage_offset("self");
  op.ignore("size");
  for (size_t dim = 0; dim < steps.size(); ++dim) {
    place = place + Expr::index(static_cast<int>(dim)) * steps[dim];
  }
  const Expr count = element_count(x.shape(), all_dims(x));
  if (!proves_nonnegative(place, op.shape()) || !proves_less(place, count, op.shape())) {
    decline("places outside of the tensor");
  }
  return {view(reshape(x, {count}), IndexMap{op.shape(), {place}, {}, 0.0})};
}

// clang-format off
constexpr OperatorRow kRows[] = {
    {"aten._reshape_copy.default", reshape_row},
    {"aten._unsafe_view.default", reshape_row},
    {"aten.alias.default", same},
    {"aten.alias_copy.default", same},
    {"aten.as_strided.default", strided},
    {"aten.as_strided_copy.default", strided},
    {"aten.atleast_1d.default", reshape_row},
    {"aten.broadcast_to.default", expand_row},
    {"aten.chunk.default", split},
    {"aten.constant_pad_nd.default", pad},
    {"aten.contiguous.default", contiguous},
    {"aten.detach.default", same},
    {"aten.detach_copy.default", same},
    {"aten.diagonal.default", diagonal},
    {"aten.diagonal_copy.default", diagonal},
    {"aten.dropout.default", dropout},
    {"aten.expand.default", expand_row},
    {"aten.expand_as.default", expand_row},
    {"aten.expand_copy.default", expand_row},
    {"aten.feature_dropout.default", dropout},
    {"aten.flatten.using_ints", reshape_row},
    {"aten.flip.default", flip},
    {"aten.lift_fresh.default", same},
    {"aten.lift_fresh_copy.default", same},
    {"aten.mT.default", transposed},
    {"aten.movedim.int", movedim},
    {"aten.movedim.intlist", movedim},
    {"aten.narrow.default", narrow},
    {"aten.narrow_copy.default", narrow},
    {"aten.pad.default", pad},
    {"aten.permute.default", permute},
    {"aten.permute_copy.default", permute},
    {"aten.ravel.default", reshape_row},
    {"aten.repeat.default", repeat},
    {"aten.repeat_interleave.self_int", repeat_interleave},
    {"aten.reshape.default", reshape_row},
    {"aten.reshape_as.default", reshape_row},
    {"aten.roll.default", roll},
    {"aten.select.int", select},
    {"aten.select_copy.int", select},
    {"aten.slice.Tensor", slice},
    {"aten.slice_copy.Tensor", slice},
    {"aten.split.Tensor", split},
    {"aten.split.sizes", split},
    {"aten.split_with_sizes.default", split},
    {"aten.split_with_sizes_copy.default", split},
    {"aten.squeeze.default", reshape_row},
    {"aten.squeeze.dim", reshape_row},
    {"aten.squeeze.dims", reshape_row},
    {"aten.squeeze_copy.default", reshape_row},
    {"aten.swapaxes.default", transpose},
    {"aten.swapdims.default", transpose},
    {"aten.t.default", transposed},
    {"aten.t_copy.default", transposed},
    {"aten.tensor_split.indices", split},
    {"aten.tensor_split.sections", split},
    {"aten.tile.default", repeat},
    {"aten.transpose.int", transpose},
    {"aten.transpose_copy.int", transpose},
    {"aten.unbind.int", unbind},
    {"aten.unbind_copy.int", unbind},
    {"aten.unflatten.int", reshape_row},
    {"aten.unfold.default", unfold},
    {"aten.unfold_copy.default", unfold},
    {"aten.unsafe_chunk.default", split},
    {"aten.unsafe_split.Tensor", split},
    {"aten.unsafe_split_with_sizes.default", split},
    {"aten.unsqueeze.default", reshape_row},
    {"aten.unsqueeze_copy.default", reshape_row},
    {"aten.view.default", reshape_row},
    {"aten.view_as.default", reshape_row},
    {"aten.view_copy.default", reshape_row},
};
// clang-format on

}  // namespace

OperatorFamily view_operators() { return kRows; }

}  // namespace tilefuse::aten
