// A file that appears whole, by rename, or not at all.
//
//   NewFile file("fused.pt2");
//   file.write(bytes);
//   file.finish();
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tilefuse {

class NewFile {
 public:
  explicit NewFile(const std::string& path);  // UserError with the path, as the others
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::span<const std::byte> bytes);
  void write(const std::string& bytes) { write(std::as_bytes(std::span(bytes))); }
  uint64_t size() const { return size_; }
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::string path_, temporary_;
  int file_ = -1;
  uint64_t size_ = 0;
};

// UserError, as the writer would meet later.
void require_writable(const std::string& path);

}  // namespace tilefuse
