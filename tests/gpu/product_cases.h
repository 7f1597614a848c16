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
  int plus = 0;  // to every number, where there are none below zero
  int at(int row, int k) const;
  int64_t place(int row, int k) const;
  GpuBuffer buffer(const std::string& dtype) const;
};
int element_bytes(const std::string& dtype);

struct MatrixProduct {
  std::string name, dtype = "bf16";
  int m = 0, n = 0, k = 0;
  bool a_along_k = true, b_along_k = true, is_wide = true;
  int block_m = 64, block_n = 64, step = 32, warp_m = 32, warp_n = 32, stages = 2;
  std::string a_dtype = dtype;    // in memory
  int gap = 0;                    // elements between the lines of the first matrix
  int group_rows = 0;             // of a warpgroup, which has all columns; 0: by warps
  bool is_bulk = false;           // one more warpgroup copies, by tensor maps
  int batch = 0;                  // products beside each other, of matrices along k; 0: no such dimension
  bool shares_b = false;          // all of the batch multiply by the same
  bool is_between_lines = false;  // line by line of a, the batch; then b is shared
  int resident = 0;               // blocks that go on to further tiles; 0: each tile has one
  bool takes_turns = false;       // two groups, a tile each
  bool is_gathered = false;       // results go through shared memory
  int matrices() const { return batch > 0 ? batch : 1; }
  int threads() const {
    if (group_rows == 0) return block_m / warp_m * (block_n / warp_n) * 32;
    return (multiplying_groups() + (is_bulk ? 1 : 0)) * 128;
  }
  int multiplying_groups() const { return takes_turns ? 2 : block_m / group_rows; }
  int64_t shared_bytes() const {
    return int64_t{stages} * ((block_m + block_n) * step * 2 + (is_bulk ? 16 : 0)) + (is_bulk ? 16 : 0) +
           (is_gathered ? multiplying_groups() * 4 * 4096 : 0);
  }
  int64_t given_bytes() const { return shared_bytes() > 48 << 10 ? shared_bytes() : 0; }  // at the launch
  int64_t blocks() const {
    return int64_t{(m + block_m - 1) / block_m} * ((n + block_n - 1) / block_n) * matrices();
  }
  // Of a batch, one below the other.
  Matrix a() const {
    if (is_between_lines) return {m, k * batch, true, k * batch};
    return {m * matrices(), k, a_along_k, (a_along_k ? k : m) + gap};
  }
  int a_at(int matrix, int row, int step) const {
    return is_between_lines ? a().at(row, matrix * k + step) : a().at(matrix * m + row, step);
  }
  Matrix b() const { return {shares_b ? n : n * matrices(), k, b_along_k, b_along_k ? k : n}; }
  int row_of_b(int matrix, int column) const { return shares_b ? column : matrix * n + column; }
  std::vector<int64_t> sizes() const { return {m, n, k, a().pitch, b().pitch}; }
  GpuGrid grid() const {
    return {.blocks = resident > 0 ? resident : blocks(),
            .threads = threads(),
            .shared_bytes = given_bytes(),
            .most_shared_bytes = given_bytes()};
  }
  std::vector<GpuBuffer> buffers() const;  // both matrices, and the result
  std::vector<TensorMapLayout> maps() const;
};
void PrintTo(const MatrixProduct& product, std::ostream* out);

// Of a kernel `product`: the addresses of the buffers, then the sizes.
std::string source_of(const MatrixProduct& product);
std::vector<MatrixProduct> product_cases();
std::vector<MatrixProduct> group_product_cases();  // of sm_90a
std::vector<MatrixProduct> bulk_product_cases();   // of sm_90a

}  // namespace tilefuse
