// What code generation makes of one region: source text and how to launch it.
//
// Every kernel of the source has the signature
//   extern "C" void symbol(const void* const* buffers, const int64_t* sizes, int64_t first_tile, int64_t
//   last_tile,
//                          void* scratch);
// buffers: those of the tile graph in its order (inputs, outputs), then the workspaces, then the packs.
// sizes: the values of `sizes`. scratch: private to the calling thread, 64-byte aligned, scratch_bytes long;
// its first int64_t is the error flag (set to 1 by an index out of range; the caller zeroes it), the next 56
// bytes are unused.
#pragma once
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/expr.h"

namespace tilefuse {

struct Launch {
  std::string symbol;
  Expr tiles;  // the grid is [0, tiles)
  Expr scratch_bytes;
  double tile_us = 1;  // predicted, of one tile on one thread; the host makes tasks worth a thread
};

struct Workspace {  // shared by the launches of one call
  DType dtype = DType::F32;
  Expr elements;
};

// A constant input in another layout: made once by a kernel that reads the input and writes the pack.
struct Pack {
  Launch launch;
  int input = 0, position = 0;  // among the buffers: what is read, and where the pack stands
  DType dtype = DType::F32;
  int64_t elements = 0;
  std::string layout;  // what is made of the input's memory: equal texts, equal packs
};

// A matrix of which a kernel copies boxes: the launch makes a tensor map of it.
struct GpuTensorMap {
  int buffer = 0;             // among those of the kernel
  DType dtype = DType::BF16;  // f32: rounded to tf32 on the way
  Expr offset;                // elements from the begin of the buffer
  std::vector<Expr> extents;  // the innermost first
  std::vector<Expr> strides;  // elements; of all dimensions but the innermost
  std::vector<int64_t> box;   // elements
};

// One kernel of a region that runs on a GPU. Its arguments are the addresses of `buffers`, then `sizes`, then
// `tensor_maps`.
struct GpuStep {
  std::string symbol, source;
  Expr blocks;               // of the grid; none: there is nothing to do
  int threads = 0;           // of a block
  int64_t shared_bytes = 0;  // of a block, given at the launch
  std::vector<int> buffers;
  std::vector<Expr> sizes;
  std::vector<GpuTensorMap> tensor_maps = {};
};

struct RegionProgram {
  std::string name;
  std::string source;            // empty on a GPU, where each step has its own
  std::vector<Launch> launches;  // one after the other
  std::vector<Workspace> workspaces;
  std::vector<Expr> sizes;      // symbols, in the order of the kernels' `sizes`
  bool checks_indices = false;  // a launch may set the error flag
  std::vector<Pack> packs;
  std::vector<GpuStep> gpu = {};  // in place of launches, on a GPU
};

// All of its source, as it is shown.
std::string source_of(const RegionProgram& program);

}  // namespace tilefuse
