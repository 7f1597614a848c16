// Tile graphs of chains with several products of each kind, as the gradient of attention has them: weights
// are made again of scores and of logarithms that are given, and how they change of a second product.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

namespace tilefuse {

struct GradientRegion {
  std::string name, dtype = "bf16";
  // Rows are keys: two totals, of values and of keys, along queries. Else one, of queries, along keys.
  bool is_of_keys = true;
  int heads = 2, sharing = 1;      // so many heads share what is loaded of keys; of queries only
  std::string q = "64", k = "64";  // numbers or size symbols
  int d = 64, v = 64;
  bool heads_inside = false;  // rows of all heads beside each other: [q, heads, d]
  bool shares_axis = false;   // d and v are one axis
  bool is_causal = false;
  bool makes_mean = false;  // of %G and of results %O; else it is loaded
  std::string result_dtype = dtype;

  const std::string& rows() const { return is_of_keys ? k : q; }
  const std::string& walked() const { return is_of_keys ? q : k; }
  bool looks_at(int64_t row, int64_t walked) const {
    return !is_causal || (is_of_keys ? row <= walked : walked <= row);
  }
};
void PrintTo(const GradientRegion& region, std::ostream* out);

std::string text_of(const GradientRegion& region);
GradientRegion random_gradient_region(uint64_t seed);

}  // namespace tilefuse
