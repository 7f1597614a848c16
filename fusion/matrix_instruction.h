// What multiplies matrices on a GPU: a decision of products and of chains of them.
#pragma once
#include <cstdint>
#include <string_view>

namespace tilefuse {

enum class ProductInstruction : uint8_t { Warp, Warpgroup };  // mma.sync, wgmma
inline std::string_view name_of(ProductInstruction instruction) {
  return instruction == ProductInstruction::Warpgroup ? "wgmma" : "mma.sync";
}

}  // namespace tilefuse
