// Products on tensor cores by the runtime of CUDA kernels: hand-written kernels, and the matrices for them.
// Elements are small whole numbers: their sums are exact.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/gpu/ptx_run.h"

namespace tilefuse {

// Rows and steps of k, or steps of k and rows; `pitch` elements from line to line.
struct Matrix {
  int rows = 0, depth = 0;
  bool is_along_k = true;
  int pitch = 0;
  int at(int row, int k) const;
  int64_t place(int row, int k) const;
  GpuBuffer buffer(const std::string& dtype) const;
};

struct MatrixProduct {
  std::string name, dtype = "bf16";
  int m = 0, n = 0, k = 0;
  bool a_along_k = true, b_along_k = true, is_wide = true;
  int block_m = 64, block_n = 64, step = 32, warp_m = 32, warp_n = 32, stages = 2;
  std::string a_dtype = dtype;  // in memory
  int gap = 0;                  // elements between the lines of the first matrix
  int group_rows = 0;           // of a warpgroup, which has all columns; 0: by warps
  int threads() const {
    return group_rows > 0 ? block_m / group_rows * 128 : block_m / warp_m * (block_n / warp_n) * 32;
  }
  int64_t shared_bytes() const { return int64_t{stages} * (block_m + block_n) * step * 2; }
  int64_t given_bytes() const { return shared_bytes() > 48 << 10 ? shared_bytes() : 0; }  // at the launch
  int64_t blocks() const { return int64_t{(m + block_m - 1) / block_m} * ((n + block_n - 1) / block_n); }
  Matrix a() const { return {m, k, a_along_k, (a_along_k ? k : m) + gap}; }
  Matrix b() const { return {n, k, b_along_k, b_along_k ? k : n}; }
  std::vector<int64_t> sizes() const { return {m, n, k, a().pitch, b().pitch}; }
  GpuGrid grid() const {
    return {.blocks = blocks(),
            .threads = threads(),
            .shared_bytes = given_bytes(),
            .most_shared_bytes = given_bytes()};
  }
  std::vector<GpuBuffer> buffers() const;  // both matrices, and the result
};
void PrintTo(const MatrixProduct& product, std::ostream* out);

// Of a kernel `product`: the addresses of the buffers, then the sizes.
std::string source_of(const MatrixProduct& product);
std::vector<MatrixProduct> product_cases();
std::vector<MatrixProduct> group_product_cases();  // of sm_90a

}  // namespace tilefuse
