// A file as bytes, mapped read-only: a page is in memory only once somebody reads it.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tilefuse {

// The bytes stay mapped while a copy of this lives.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // UserError with the path and the system's reason
  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::shared_ptr<const void> mapping_;
  std::span<const std::byte> bytes_;
};

}  // namespace tilefuse
