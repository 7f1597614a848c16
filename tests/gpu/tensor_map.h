// Tensor maps as the model of a GPU has them: what cuTensorMapEncodeTiled is asked for ("CUDA Driver API",
// "Tensor Map Object Management"), and boxes that are copied by them (PTX ISA, "Tensors").
//
//   The box at (64, 8) of a map of 100 x 10 elements: lines 8 and 9, elements 64 to 99; the rest is zeros.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/gpu_memory.h"

namespace tilefuse {

constexpr int kTensorMapBytes = 128;
using TensorMapBytes = std::array<unsigned char, kTensorMapBytes>;

struct TensorMapLayout {
  size_t buffer = 0;     // of the launch
  uint64_t address = 0;  // bytes from the begin of the buffer; on the host, the address
  int element_bytes = 2;
  bool rounds_to_tf32 = false;    // elements of 4 bytes, on the way
  std::vector<uint64_t> extents;  // of each dimension, the innermost first
  std::vector<uint64_t> strides;  // bytes, of all dimensions but the innermost
  std::vector<uint64_t> box;      // elements
};

// What the driver would refuse; empty: nothing.
std::string why_no_tensor_map(const TensorMapLayout& map);

// As it stands in the memory of the host, in a form of our own.
TensorMapBytes encode(const TensorMapLayout& map);
TensorMapLayout decode_tensor_map(const TensorMapBytes& bytes);  // GpuFault: nobody encoded it

// A box in lines of 128 bytes, as it lies in memory; sectors are counted. `thread` of the grid.
std::vector<unsigned char> read_box(const TensorMapLayout& map, const std::vector<int64_t>& at,
                                    int64_t thread, GlobalMemory& memory);
// Where in shared memory chunk `chunk` (16 bytes) of line `line` of a box lies: "128B swizzle".
uint64_t box_chunk_address(uint64_t to, int line, int chunk);

}  // namespace tilefuse
