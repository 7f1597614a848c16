// CRC-32 as zip files have it, at the speed of memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tilefuse {
uint32_t checksum_of(std::span<const std::byte> bytes);
}
