// Products by a warpgroup with the wrappers of cuda_warpgroup.h and cuda_warpgroup_numbers.h: 64 x 64
// elements of 16 bits by 64 x columns, or what takes as many bytes along k, in four instructions, from shared
// memory that the test has laid out by the table "Canonical Layouts" of the PTX ISA, in every pattern and
// along either axis. Elements are small whole numbers: their sums are exact.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/gpu/product_cases.h"

namespace tilefuse {

// A factor as it lies in shared memory.
struct SharedFactor {
  int rows = 64;
  int line_bytes = 128;    // 16: without a pattern
  bool is_turned = false;  // lines lie along the rows
  int gap = 0;             // patterns that are left out between one and the next
  int stride() const { return 8 * line_bytes * (1 + gap); }
  int leading() const;
  int bytes() const;
  int place(int row, int k) const;  // bytes from its begin
  int start(int step) const;        // of 16 steps of k
};

struct GroupCase {
  static constexpr int kDepth = 64, kThreads = 128;
  std::string name, dtype = "bf16";
  SharedFactor first = {}, second = {};
  bool is_first_in_registers = false;
  std::string second_dtype = dtype;
  bool forgets = false;  // what was in the sums before
  bool is_of_numbers() const { return element_bytes(dtype) != 2; }
  bool has_integers() const { return dtype.ends_with("char"); }
  int depth() const { return kDepth * 2 / element_bytes(dtype); }
  Matrix a() const { return matrix(first.rows, dtype); }
  Matrix b() const { return matrix(second.rows, second_dtype); }
  int second_begin() const { return (first.bytes() + 1023) / 1024 * 1024; }
  int shared_bytes() const { return second_begin() + second.bytes(); }
  Matrix matrix(int rows, const std::string& of) const {
    return {rows, depth(), true, depth(), of == "unsigned char" ? 4 : 0};
  }
  std::vector<GpuBuffer> buffers() const;  // shared memory, the first factor row by row, and the result
};
void PrintTo(const GroupCase& product, std::ostream* out);

// Of a kernel `product`: the addresses of the buffers.
std::string source_of(const GroupCase& product);
std::vector<GroupCase> group_cases();

}  // namespace tilefuse
