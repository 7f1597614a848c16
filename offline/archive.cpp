#include "offline/archive.h"

#include <zip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/result.h"
#include "offline/checksum.h"

namespace tilefuse {
namespace {

constexpr zip_int64_t kMostEntries = 1 << 20;

// The file's bytes as libzip reads them. libzip has no question for where the bytes of an entry lie; it is
// where it reads when the entry's raw bytes are asked for.
class NotingSource {
 public:
  explicit NotingSource(std::span<const std::byte> bytes) : bytes_(bytes) { zip_error_init(&error_); }
  NotingSource(const NotingSource&) = delete;
  NotingSource& operator=(const NotingSource&) = delete;
  ~NotingSource() { zip_error_fini(&error_); }

  size_t last_read() const { return last_read_; }

  static zip_int64_t call(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    return static_cast<NotingSource*>(self)->answer(data, length, command);
  }

 private:
  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_OPEN:
        position_ = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return read(data, length);
      case ZIP_SOURCE_SEEK:
        return seek(data, length);
      case ZIP_SOURCE_TELL:
        return zip_int64_t(position_);
      case ZIP_SOURCE_STAT:
        return stat(data);
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, length);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
        return 0;
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_SEEK,
                                              ZIP_SOURCE_TELL, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
                                              ZIP_SOURCE_CLOSE, ZIP_SOURCE_FREE, ZIP_SOURCE_SUPPORTS, -1);
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }
  zip_int64_t read(void* data, zip_uint64_t length) {
    last_read_ = position_;
    const size_t count = std::min<zip_uint64_t>(length, bytes_.size() - position_);
    if (count > 0) std::memcpy(data, bytes_.data() + position_, count);
    position_ += count;
    return zip_int64_t(count);
  }
  zip_int64_t seek(void* data, zip_uint64_t length) {
    const zip_int64_t target =
        zip_source_seek_compute_offset(position_, bytes_.size(), data, length, &error_);
    if (target < 0) return -1;
    position_ = size_t(target);
    return 0;
  }
  zip_int64_t stat(void* data) const {
    auto* facts = static_cast<zip_stat_t*>(data);
    zip_stat_init(facts);
    facts->valid = ZIP_STAT_SIZE;
    facts->size = bytes_.size();
    return sizeof(zip_stat_t);
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0, last_read_ = 0;
  zip_error_t error_{};
};

struct DiscardZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Zip = std::unique_ptr<zip_t, DiscardZip>;

Zip open_zip(const std::string& path, NotingSource& bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_function_create(&NotingSource::call, &bytes, &error);
  Zip zip(source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr);
  if (!zip) {
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (source) zip_source_free(source);
    throw UserError(path + ": is no .pt2 file (a zip archive): " + why);
  }
  return zip;
}

bool leads_out(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos) return true;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part == ".." || part == ".") return true;
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  return false;
}

}  // namespace

void Archive::fail(const std::string& entry, const std::string& what) const {
  throw UserError(path() + ": entry " + entry + ": " + what);
}

Archive Archive::open(const std::string& path) {
  Archive archive{MappedFile(path)};
  archive.read_directory();
  archive.strip_root();
  archive.refuse_overlaps();
  return archive;
}

void Archive::read_directory() {
  NotingSource source(file_.bytes());
  const Zip zip = open_zip(path(), source);
  const zip_int64_t count = zip_get_num_entries(zip.get(), 0);
  if (count > kMostEntries) throw UserError(path() + ": holds " + std::to_string(count) + " entries");
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t facts;
    constexpr zip_uint64_t kWanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_CRC |
                                     ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(zip.get(), zip_uint64_t(i), 0, &facts) != 0 || (facts.valid & kWanted) != kWanted) {
      throw UserError(path() + ": entry " + std::to_string(i) + " of the directory cannot be read");
    }
    const std::string name = facts.name;
    if (leads_out(name)) fail(name, "its name leads out of the archive's folder");
    if (name.ends_with('/')) continue;
    if (facts.comp_method != ZIP_CM_STORE || facts.encryption_method != ZIP_EM_NONE ||
        facts.size != facts.comp_size) {
      fail(name, "is compressed or encrypted; torch.export.save stores entries as they are");
    }
    Entry entry{0, size_t(facts.size), facts.crc};
    if (facts.size > 0) {
      const std::unique_ptr<zip_file_t, CloseEntry> opened(
          zip_fopen_index(zip.get(), zip_uint64_t(i), ZIP_FL_COMPRESSED));
      char first = 0;
      if (!opened || zip_fread(opened.get(), &first, 1) != 1) fail(name, "cannot be read from the archive");
      entry.offset = source.last_read();
    }
    const size_t end = file_.bytes().size();
    if (entry.offset > end || entry.size > end - entry.offset) {
      fail(name, "its " + std::to_string(entry.size) + " bytes at " + std::to_string(entry.offset) +
                     " reach over the end of the file");
    }
    if (!entries_.emplace(name, entry).second) fail(name, "stands in the archive twice");
  }
}

void Archive::strip_root() {
  if (entries_.empty()) throw UserError(path() + ": is an empty archive");
  const std::string& first = entries_.begin()->first;
  root_ = first.substr(0, first.find('/'));
  std::map<std::string, Entry> stripped;
  for (const auto& [name, entry] : entries_) {
    if (name.rfind(root_ + "/", 0) != 0) {
      root_.clear();  // an archive of older torch, or none of torch at all: its names are told as they are
      return;
    }
    stripped.emplace(name.substr(root_.size() + 1), entry);
  }
  entries_ = std::move(stripped);
}

void Archive::refuse_overlaps() const {
  std::vector<std::pair<size_t, const std::string*>> starts;
  for (const auto& [name, entry] : entries_) {
    if (entry.size > 0) starts.emplace_back(entry.offset, &name);
  }
  std::sort(starts.begin(), starts.end());
  for (size_t i = 1; i < starts.size(); ++i) {
    const Entry& before = entries_.at(*starts[i - 1].second);
    if (before.offset + before.size > starts[i].first) {
      fail(*starts[i].second, "shares bytes with the entry " + *starts[i - 1].second);
    }
  }
}

std::span<const std::byte> Archive::unchecked(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(name, "is missing");
  return file_.bytes().subspan(found->second.offset, found->second.size);
}

std::span<const std::byte> Archive::bytes(const std::string& name) const {
  const std::span<const std::byte> bytes = unchecked(name);
  if (checksum_of(bytes) != entries_.at(name).checksum) {
    fail(name, "its bytes are not those of its checksum: the file is damaged");
  }
  return bytes;
}

std::string_view Archive::text(const std::string& name) const {
  const std::span<const std::byte> content = bytes(name);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

}  // namespace tilefuse
