#include "offline/write_archive.h"

#include <zip.h>

#include "core/result.h"

namespace tilefuse {
namespace {

constexpr size_t kAlign = 64, kHeader = 30, kFieldHeader = 4;
constexpr zip_uint16_t kPadding = 0x4246;  // "FB": torch's own name for the field that only takes up room

class NewZip {
 public:
  explicit NewZip(const std::string& path) : path_(path) {
    int error = 0;
    zip_ = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (zip_ != nullptr) return;
    zip_error_t why;
    zip_error_init_with_code(&why, error);
    const std::string reason = zip_error_strerror(&why);
    zip_error_fini(&why);
    throw UserError(path + ": cannot be written: " + reason);
  }
  NewZip(const NewZip&) = delete;
  NewZip& operator=(const NewZip&) = delete;
  ~NewZip() {
    if (zip_ != nullptr) zip_discard(zip_);
  }

  void add(const std::string& name, std::span<const std::byte> bytes) {
    zip_source_t* source = zip_source_buffer(zip_, bytes.data(), bytes.size(), 0);
    const zip_int64_t index =
        source == nullptr ? -1 : zip_file_add(zip_, name.c_str(), source, ZIP_FL_ENC_GUESS);
    if (index < 0) {
      if (source != nullptr) zip_source_free(source);
      fail();
    }
    require(zip_set_file_compression(zip_, zip_uint64_t(index), ZIP_CM_STORE, 0));
    require(zip_file_set_dostime(zip_, zip_uint64_t(index), 0, (1 << 5) | 1,
                                 0));  // equal files for equal content
    pad(zip_uint64_t(index), name, bytes.size());
  }

  void close() {
    if (zip_close(zip_) != 0) fail();
    zip_ = nullptr;
  }

 private:
  void require(int status) {
    if (status != 0) fail();
  }
  [[noreturn]] void fail() { throw UserError(path_ + ": cannot be written: " + zip_strerror(zip_)); }

  // Where the bytes come to lie follows from what is written before them.
  void pad(zip_uint64_t index, const std::string& name, size_t size) {
    const size_t start = offset_ + kHeader + name.size() + kFieldHeader;
    const std::string padding((kAlign - start % kAlign) % kAlign, 'Z');
    require(zip_file_extra_field_set(zip_, index, kPadding, ZIP_EXTRA_FIELD_NEW,
                                     reinterpret_cast<const zip_uint8_t*>(padding.data()),
                                     zip_uint16_t(padding.size()), ZIP_FL_LOCAL));
    offset_ = start + padding.size() + size;
  }

  std::string path_;
  zip_t* zip_ = nullptr;
  size_t offset_ = 0;
};

}  // namespace

void write_archive(const std::string& path, const std::string& root, const NewEntries& entries) {
  NewZip zip(path);
  for (const auto& [name, bytes] : entries) {
    std::string full = root;
    full.append("/").append(name);
    zip.add(full, bytes);
  }
  zip.close();
}

}  // namespace tilefuse
