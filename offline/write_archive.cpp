#include "offline/write_archive.h"

#include <algorithm>

#include "offline/checksum.h"
#include "offline/new_file.h"

// The layout of zip files: APPNOTE.TXT of PKWARE, 4.3 (records) and 4.5.3 (fields of 64 bits).
namespace tilefuse {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kWideEnd = 0x06064b50,
                   kWideEndLocator = 0x07064b50;
constexpr uint16_t kVersion = 45;             // of zip files with fields of 64 bits
constexpr uint16_t kUnix = 3 << 8;            // whose external attributes are a file's mode
constexpr uint16_t kUtf8 = 1 << 11;           // names are
constexpr uint16_t kFirstDay = (1 << 5) | 1;  // equal files for equal content
constexpr uint32_t kMode = 0100644U << 16;
constexpr uint16_t kWideField = 1, kPaddingField = 0x4246;  // "FB", torch's own field that only takes up room
constexpr uint64_t kAlign = 64, kLocalBytes = 30, kFieldHeader = 4, kWideSizes = 2 * sizeof(uint64_t);
constexpr uint64_t kMostEntries = 0xfffe;

class Record {
 public:
  Record& u16(uint64_t value) { return number(value, 2); }
  Record& u32(uint64_t value) { return number(value, 4); }
  Record& u64(uint64_t value) { return number(value, 8); }
  Record& text(const std::string& value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& number(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += char((value >> (8 * i)) & 0xff);
    return *this;
  }
  std::string bytes_;
};

bool is_ascii(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

class NewZip {
 public:
  NewZip(const std::string& path, uint64_t largest_narrow) : file_(path), largest_narrow_(largest_narrow) {}

  void add(const std::string& name, const NewEntry& entry) {
    const uint64_t size = entry.bytes.size();
    const Facts facts{name, entry.checksum ? *entry.checksum : checksum_of(entry.bytes), size, file_.size()};
    Record fields;
    if (is_wide(size)) fields.u16(kWideField).u16(kWideSizes).u64(size).u64(size);
    const uint64_t start = facts.offset + kLocalBytes + name.size() + fields.bytes().size() + kFieldHeader;
    const std::string padding((kAlign - start % kAlign) % kAlign, 'Z');
    fields.u16(kPaddingField).u16(padding.size()).text(padding);
    Record local;
    shared_part(local.u32(kLocal), facts, fields).text(name).text(fields.bytes());
    file_.write(local.bytes());
    file_.write(entry.bytes);
    add_to_directory(facts);
  }

  void finish() {
    const uint64_t start = file_.size(), bytes = directory_.bytes().size();
    file_.write(directory_.bytes());
    Record end;
    const bool has_many = count_ > std::min(kMostEntries, largest_narrow_);
    if (has_many || is_wide(start) || is_wide(bytes)) {
      constexpr uint64_t kRest = 44;  // bytes of the record behind this number
      end.u32(kWideEnd).u64(kRest).u16(kUnix | kVersion).u16(kVersion).u32(0).u32(0);
      end.u64(count_).u64(count_).u64(bytes).u64(start);
      end.u32(kWideEndLocator).u32(0).u64(start + bytes).u32(1);
    }
    const uint64_t narrow_count = has_many ? 0xffff : count_;
    end.u32(kEnd)
        .u16(0)
        .u16(0)
        .u16(narrow_count)
        .u16(narrow_count)
        .u32(narrow(bytes))
        .u32(narrow(start))
        .u16(0);
    file_.write(end.bytes());
    file_.finish();
  }

 private:
  struct Facts {
    const std::string& name;
    uint32_t checksum;
    uint64_t size, offset;
  };

  bool is_wide(uint64_t value) const { return value > largest_narrow_; }
  uint64_t narrow(uint64_t value) const { return is_wide(value) ? 0xffffffff : value; }

  // Of an entry's two headers, from the version to the lengths of its name and fields.
  Record& shared_part(Record& record, const Facts& facts, const Record& fields) const {
    record.u16(kVersion).u16(is_ascii(facts.name) ? 0 : kUtf8).u16(/*stored*/ 0).u16(/*midnight*/ 0);
    record.u16(kFirstDay).u32(facts.checksum).u32(narrow(facts.size)).u32(narrow(facts.size));
    return record.u16(facts.name.size()).u16(fields.bytes().size());
  }

  void add_to_directory(const Facts& facts) {
    Record wide, fields;
    if (is_wide(facts.size)) wide.u64(facts.size).u64(facts.size);
    if (is_wide(facts.offset)) wide.u64(facts.offset);
    if (!wide.bytes().empty()) fields.u16(kWideField).u16(wide.bytes().size()).text(wide.bytes());
    shared_part(directory_.u32(kCentral).u16(kUnix | kVersion), facts, fields);
    directory_.u16(/*comment*/ 0).u16(/*disk*/ 0).u16(0).u32(kMode).u32(narrow(facts.offset));
    directory_.text(facts.name).text(fields.bytes());
    ++count_;
  }

  NewFile file_;
  uint64_t largest_narrow_;
  Record directory_;
  uint64_t count_ = 0;
};

}  // namespace

void write_archive(const std::string& path, const std::string& root, const NewEntries& entries,
                   uint64_t largest_narrow) {
  NewZip zip(path, largest_narrow);
  for (const NewEntry& entry : entries) {
    std::string full = root;
    full.append("/").append(entry.name);
    zip.add(full, entry);
  }
  zip.finish();
}

}  // namespace tilefuse
