#include "offline/checksum.h"

#include <libdeflate.h>

namespace tilefuse {

uint32_t checksum_of(std::span<const std::byte> bytes) {
  return bytes.empty() ? 0 : libdeflate_crc32(0, bytes.data(), bytes.size());
}

}  // namespace tilefuse
