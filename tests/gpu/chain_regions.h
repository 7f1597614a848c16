// Tile graphs of chains for GPUs: scores of rows and keys, what is computed of them, their softmax, and what
// it weighs; in different layouts, with heads that share keys, masks, and several results.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

namespace tilefuse {

struct ChainRegion {
  std::string name, dtype = "bf16";
  int heads = 2, sharing = 1;      // so many heads share keys and values
  std::string q = "64", k = "64";  // numbers or size symbols
  int d = 64, v = 64;
  bool heads_inside = false;  // rows of all heads beside each other: [q, heads, d]
  bool shares_axis = false;   // d and v are one axis
  bool is_turned = false;     // keys lie along k: [heads, d, k]
  // Lines that compute %t of %s, with the buffers and loads that they need. SCORES: the axes of scores.
  std::string buffers = {}, scores = "  %c = constant 0.3 : f32[]\n  %t = mul(%s, %c) : f32[SCORES]\n";
  bool divides_weights = false;  // each by their sum, else what they weigh
  bool stores_spread = false;    // the logarithm of the sum of exponentials, too
  std::string result_dtype = dtype;
  // Whether a row looks at a key, where a mask of positions says so.
  std::function<bool(int64_t, int64_t)> looks_at = {};
};
void PrintTo(const ChainRegion& region, std::ostream* out);

std::string text_of(const ChainRegion& region);
ChainRegion random_chain_region(uint64_t seed);

}  // namespace tilefuse
