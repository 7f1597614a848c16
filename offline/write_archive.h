// Writes a .pt2 archive through libzip: entries stored as they are, each on a multiple of 64 bytes, so that
// they can be mapped. The file appears whole, by rename.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tilefuse {

using NewEntries = std::vector<std::pair<std::string, std::span<const std::byte>>>;  // names below the root

// UserError with the path where it cannot be written.
void write_archive(const std::string& path, const std::string& root, const NewEntries& entries);

}  // namespace tilefuse
