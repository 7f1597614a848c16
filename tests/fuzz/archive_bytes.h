// Archives as bytes in memory, where the readers and writers take paths.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tilefuse::fuzz {

// A file without a place in the file system.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();
  std::string path() const;

 private:
  int file_;
};

// A folder of this process's own, removed when it ends.
const std::string& scratch_folder();

using Contents = std::map<std::string, std::string>;       // by name below the root
std::optional<Contents> unpacked(std::string_view bytes);  // nullopt: our reader refuses it
std::string packed(const Contents& contents);
std::string file_bytes(const std::string& path);

}  // namespace tilefuse::fuzz
