// Writes a .pt2 archive: a zip file of entries stored as they are, each on a multiple of 64 bytes, so that
// they can be mapped. The file appears whole, by rename.
//
// Not through libzip, which reads archives here: it takes the checksum of all that it stores, in pieces of
// 8 KiB, and gigabytes of weights have theirs in the archive that they come from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tilefuse {

struct NewEntry {
  std::string name;  // below the root
  std::span<const std::byte> bytes;
  std::optional<uint32_t> checksum = std::nullopt;  // of the bytes, where it is known
};
using NewEntries = std::vector<NewEntry>;

// The largest size, offset or count in a field of 32 bits (of 16, for counts): above it stands a field of 64.
inline constexpr uint64_t kLargestNarrow = 0xfffffffe;

// UserError with the path where it cannot be written.
void write_archive(const std::string& path, const std::string& root, const NewEntries& entries,
                   uint64_t largest_narrow = kLargestNarrow);

}  // namespace tilefuse
