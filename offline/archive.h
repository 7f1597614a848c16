// The zip archive that a .pt2 file is, read through libzip: entries by name, each as bytes of the mapped
// file.
//
//   Archive archive = Archive::open("model.pt2");
//   archive.bytes("models/model.json")     checked against the checksum that the archive has for it
//
// All names stand below one folder, which is left out here ("model/models/model.json"). torch stores entries
// uncompressed, and only such are taken: nothing can grow while it is read. A name that leads out of its
// folder, two entries of one name, an entry that reaches over the end of the file or over another entry, a
// directory that is encrypted or cut short: UserError with file and entry.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "offline/mapped_file.h"

namespace tilefuse {

class Archive {
 public:
  struct Entry {
    size_t offset = 0, size = 0;  // in the file
    uint32_t checksum = 0;        // CRC-32
  };

  static Archive open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const MappedFile& file() const { return file_; }
  const std::string& root() const { return root_; }  // the folder, without a slash
  const std::map<std::string, Entry>& entries() const { return entries_; }
  bool has(const std::string& name) const { return entries_.contains(name); }

  // UserError: no such entry, or its bytes are not those of its checksum.
  std::span<const std::byte> bytes(const std::string& name) const;
  std::string_view text(const std::string& name) const;
  std::span<const std::byte> unchecked(const std::string& name) const;

  [[noreturn]] void fail(const std::string& entry, const std::string& what) const;

 private:
  explicit Archive(MappedFile file) : file_(std::move(file)) {}
  void read_directory();
  void strip_root();
  void refuse_overlaps() const;

  MappedFile file_;
  std::string root_;
  std::map<std::string, Entry> entries_;
};

}  // namespace tilefuse
