#include "tests/gpu/cuda_product_fixture.h"

#include <random>

#include "tests/kernel_fixture.h"

namespace tilefuse {

std::vector<Tensor> whole_numbers(const TileGraph& graph, uint64_t seed, const SymbolValues& symbols) {
  std::vector<Tensor> tensors = random_buffers(graph, seed, symbols);
  std::mt19937_64 random(seed);
  for (Tensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const auto number = static_cast<int64_t>(random() % 9) - 4;
      if (is_float(tensor.dtype())) {
        tensor.set_float(i, double(number));
      } else if (tensor.dtype() == DType::I8) {
        tensor.set_int(i, number);
      }
    }
  }
  return tensors;
}

}  // namespace tilefuse
