// What the run of a bundle is made of: checks of the caller's tensors, launches over the caller's threads,
// strided copies. The generated driver has this text behind the C header, whose types it calls Tensor and
// Threads, and whose statuses (bundle_status.h) it names without the model.
//
// Needs the C library alone: no allocation, no exceptions, no state.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace {

constexpr int64_t kAlign = 64;
constexpr int32_t kMaxThreads = 1024;

// ---------------------------------------------------------------- sizes
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t rounded_up(int64_t bytes) { return bytes <= 0 ? 0 : (bytes + kAlign - 1) / kAlign * kAlign; }

// The symbol that a dimension gives: size == factor * symbol + offset.
struct Symbol {
  int32_t input, dim;
  int64_t factor, offset, low, high, multiple_of;
};

inline bool is_in_range(int64_t value, const Symbol& symbol) {
  return value >= symbol.low && value <= symbol.high && value % symbol.multiple_of == 0;
}

// ---------------------------------------------------------------- tensors
struct TensorFacts {
  int32_t dtype, rank;
};

inline int check_sizes(const Symbol* symbols, int count, const int64_t* sizes) {
  for (int i = 0; i < count; ++i) {
    if (!is_in_range(sizes[i], symbols[i])) return BAD_RANGE + kStatusNumber * i;
  }
  return OK;
}

inline int read_sizes(const Tensor* inputs, const TensorFacts* facts, const Symbol* symbols, int count,
                      int64_t* sizes) {
  for (int i = 0; i < count; ++i) {
    const Tensor& input = inputs[symbols[i].input];
    if (input.rank != facts[symbols[i].input].rank || input.sizes == nullptr) {
      return BAD_INPUT_RANK + kStatusNumber * symbols[i].input;
    }
    sizes[i] = (input.sizes[symbols[i].dim] - symbols[i].offset) / symbols[i].factor;
  }
  return check_sizes(symbols, count, sizes);
}

enum Fault : int { kNoFault = -1, kDType, kRank, kSizes, kStrides, kData };  // in the order of the statuses

inline Fault fault_of(const Tensor& given, TensorFacts facts, const int64_t* sizes, const int64_t* strides) {
  if (given.dtype != facts.dtype) return kDType;
  if (given.rank != facts.rank || (given.rank > 0 && given.sizes == nullptr)) return kRank;
  bool is_empty = false;
  for (int32_t d = 0; d < facts.rank; ++d) {
    if (given.sizes[d] != sizes[d]) return kSizes;
    is_empty |= sizes[d] == 0;
  }
  if (is_empty) return kNoFault;
  for (int32_t d = 0; d < facts.rank && given.strides != nullptr; ++d) {
    if (sizes[d] != 1 && given.strides[d] != strides[d]) return kStrides;
  }
  return given.data == nullptr ? kData : kNoFault;
}

inline void copy_elements(int64_t item, int32_t rank, const int64_t* sizes, char* target,
                          const int64_t* target_strides, const char* source, const int64_t* source_strides) {
  if (rank == 0) {
    memcpy(target, source, size_t(item));
    return;
  }
  const bool is_row = rank == 1 && target_strides[0] == 1 && source_strides[0] == 1;
  if (is_row && sizes[0] > 0) memcpy(target, source, size_t(sizes[0] * item));
  for (int64_t i = 0; i < sizes[0] && !is_row; ++i) {
    copy_elements(item, rank - 1, sizes + 1, target + i * target_strides[0] * item, target_strides + 1,
                  source + i * source_strides[0] * item, source_strides + 1);
  }
}

// ---------------------------------------------------------------- launches
using Kernel = void (*)(const void* const* buffers, const int64_t* sizes, int64_t first_tile,
                        int64_t last_tile, void* scratch);

struct Call {
  const Threads* threads;
  char* scratch;  // of task 0; the others' lie behind it
  int64_t scratch_bytes;
};

struct Launch {
  Kernel kernel;
  const void* const* buffers;
  const int64_t* sizes;
  int64_t tiles, chunk;
  const Call* call;
  int index_error;
};

inline void run_task(void* context, int64_t task) {
  Launch& launch = *static_cast<Launch*>(context);
  int64_t* scratch = reinterpret_cast<int64_t*>(launch.call->scratch + task * launch.call->scratch_bytes);
  *scratch = 0;  // the error flag
  const int64_t first = task * launch.chunk;
  launch.kernel(launch.buffers, launch.sizes, first, least(first + launch.chunk, launch.tiles), scratch);
  if (*scratch != 0) __atomic_store_n(&launch.index_error, 1, __ATOMIC_RELAXED);
}

// grain: tiles that are worth a thread. False: an index was out of range.
inline bool run_kernel(const Call& call, Kernel kernel, int64_t tiles, int64_t grain,
                       const void* const* buffers, const int64_t* sizes) {
  if (tiles <= 0) return true;
  const int64_t worth = (tiles + grain - 1) / grain;
  const int64_t wanted = call.threads == nullptr ? 1 : least(worth, call.threads->count);
  const int64_t chunk = (tiles + wanted - 1) / wanted, tasks = (tiles + chunk - 1) / chunk;
  Launch launch = {kernel, buffers, sizes, tiles, chunk, &call, 0};
  if (tasks == 1) {
    run_task(&launch, 0);
  } else {
    call.threads->parallel_for(call.threads->pool, tasks, run_task, &launch);
  }
  return __atomic_load_n(&launch.index_error, __ATOMIC_RELAXED) == 0;
}

inline bool are_threads(const Threads* threads) {
  return threads == nullptr ||
         (threads->count >= 1 && threads->count <= kMaxThreads && threads->parallel_for != nullptr);
}
inline int64_t count_of(const Threads* threads) { return threads == nullptr ? 1 : threads->count; }

}  // namespace
