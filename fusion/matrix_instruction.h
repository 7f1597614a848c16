// What multiplies matrices on a GPU, and who copies them: decisions of products and of chains of them.
#pragma once
#include <cstdint>
#include <string_view>

namespace tilefuse {

enum class ProductInstruction : uint8_t { Warp, Warpgroup };  // mma.sync, wgmma
inline std::string_view name_of(ProductInstruction instruction) {
  return instruction == ProductInstruction::Warpgroup ? "wgmma" : "mma.sync";
}

enum class ProductCopies : uint8_t { Async, Bulk };  // cp.async, cp.async.bulk.tensor
inline std::string_view name_of(ProductCopies copies) {
  return copies == ProductCopies::Bulk ? "bulk" : "async";
}

}  // namespace tilefuse
