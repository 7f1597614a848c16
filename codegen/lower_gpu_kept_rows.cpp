// Rows whose loads stay in shared memory, as they are: every element is read by the thread that put it there.
//
//   for (int j = thread; j < 50176; j += 512) { store_one(x_kept + j, load_one(x_row + j)); ... }
//
// A block of a cluster keeps its part of the row, one step behind the other:
//
//   for (int step = 0; step < 24; ++step) {
//     const int j = step * 2048 + thread;                 4 blocks of 512 threads
//     store_one(x_kept + (step * 512 + thread_number<512>()), load_one(x_row + j)); ...
//   }
#include <algorithm>

#include "codegen/gpu_lowering.h"

namespace tilefuse {

// All rows of the block of one load, then those of the next.
void GpuLowering::place_kept_rows(const Code& own_row) {
  const int64_t elements = schedule_.kept_elements(*graph_[region_.inner].extent.constant());
  int64_t bytes = 0;
  for (const TileValueId id : schedule_.keep) {
    const DType dtype = graph_[std::get<TileLoad>(graph_[id].op).buffer].dtype;
    const int64_t row_bytes = kept_row_bytes(elements, {size_in_bytes(dtype)});
    const Code first = add(call("given_elements", {}, {dtype}), integer(bytes / size_in_bytes(dtype)));
    kept_rows_[id] = let(kept_name(id), {dtype, CodeShape::Pointer},
                         add(first, times(own_row, row_bytes / size_in_bytes(dtype))));
    bytes += schedule_.rows * row_bytes;
  }
}

int64_t GpuLowering::kept_bytes() const {
  const int64_t elements = schedule_.kept_elements(*graph_[region_.inner].extent.constant());
  return schedule_.rows * kept_row_bytes(elements, element_bytes_of(graph_, schedule_.keep));
}

// All threads take as many steps of the loop, so that lanes of a warp stay next to each other; what is left
// of the row is one more.
void GpuLowering::loop_over_kept_row(const std::function<void()>& body) {
  const int64_t extent = *graph_[region_.inner].extent.constant();
  const int64_t step = schedule_.width();
  const int64_t steps = extent / step, whole = steps * step;
  const int unroll = std::max(1, kUnrolledOfKeptRow / schedule_.vector);
  const auto number = [&](int64_t value) { return literal(value, index_type_.dtype); };
  if (steps > 0) {
    schedule_.cluster == 1 ? loop_up_to(number(whole), unroll, body) : loop_over_part(steps, unroll, body);
  }
  if (whole == extent) return;
  scopes_.open();
  column_ = add(number(whole), times(thread_, schedule_.walked_vector()));
  column_depth_ = scopes_.depth();
  place_in_part(integer(steps));
  in_condition({operate(CodeOperator::Less, {column(), number(extent)})}, body);
  for (Stmt& stmt : scopes_.close()) scopes_.add(std::move(stmt));
}

// Steps of a block of a cluster, which go over the row and over the part of it that the block keeps.
void GpuLowering::loop_over_part(int64_t steps, int unroll, const std::function<void()>& body) {
  const SymbolId step = scopes_.symbol("step", index_type_);
  scopes_.open();
  column_ = add(times(reference(step), schedule_.width()), times(thread_, schedule_.walked_vector()));
  column_depth_ = scopes_.depth();
  place_in_part(reference(step));
  body();
  Block block = scopes_.close();
  const auto number = [&](int64_t value) { return literal(value, index_type_.dtype); };
  scopes_.add(
      {For{step, number(0), number(steps), 1, graph_[region_.inner].name, std::move(block), unroll}, ""});
}

void GpuLowering::place_in_part(const Code& step) {
  if (schedule_.cluster == 1) return;
  const Code own = call("thread_number", {}, {}, {schedule_.block_threads()});
  kept_place_ =
      add(times(step, schedule_.width() / schedule_.cluster), times(own, schedule_.walked_vector()));
}

Code GpuLowering::kept_address(const Code& row) {
  return add(row, schedule_.cluster == 1 ? column() : kept_place_);
}

}  // namespace tilefuse
