// Tile graphs of products for GPUs: operands in both layouts, with gaps between their lines, batches, sizes
// that no tile divides, and different things that are computed of the sums.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

namespace tilefuse {

struct ProductRegion {
  std::string name, dtype = "bf16";
  std::string m = "64", n = "64", k = "64";  // numbers or size symbols
  bool first_along_k = true, second_along_k = true;
  int gap = 0;                                            // elements between the lines of the first factor
  int batch = 0;                                          // products beside each other; 0: no such axis
  bool shares_second = false;                             // all of the batch multiply by the same
  std::string declared = "f32";                           // of products and sums
  std::string first_dtype = dtype, second_dtype = dtype;  // in memory
  // Lines of the tile graph that compute %y of %s, and buffers and loads that they need.
  std::string buffers = {}, epilogue = "  %y = cast(%s) : DTYPE[RESULT]\n", result_dtype = dtype;
  bool is_turned = false;  // the result is stored along m
};
void PrintTo(const ProductRegion& region, std::ostream* out);

std::string text_of(const ProductRegion& region);
ProductRegion random_product_region(uint64_t seed);

}  // namespace tilefuse
