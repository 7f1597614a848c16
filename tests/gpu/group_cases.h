// Products by a warpgroup with the wrappers of cuda_warpgroup.h: 64 x 64 by 64 x columns, in four
// instructions, from shared memory that the test has laid out by the table "Canonical Layouts" of the PTX
// ISA, in every pattern and along either axis. Elements are small whole numbers: their sums are exact.
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
  Matrix a() const { return {first.rows, kDepth, true, kDepth}; }
  Matrix b() const { return {second.rows, kDepth, true, kDepth}; }
  int second_begin() const { return (first.bytes() + 1023) / 1024 * 1024; }
  int shared_bytes() const { return second_begin() + second.bytes(); }
  std::vector<GpuBuffer> buffers() const;  // shared memory, the first factor row by row, and the result
};
void PrintTo(const GroupCase& product, std::ostream* out);

// Of a kernel `product`: the addresses of the buffers.
std::string source_of(const GroupCase& product);
std::vector<GroupCase> group_cases();

}  // namespace tilefuse
