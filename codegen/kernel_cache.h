// A directory of bytes by key, shared by every process of the user: compiled kernels, plans, tuning results.
//
//   KernelCache cache(directory, limit_bytes);
//   cache.store("plan " + key, bytes);
//   if (auto bytes = cache.load("plan " + key)) use(*bytes);
//
// An entry is a file named by the hash of its key; a trailer holds the checksum of key and bytes, so an entry
// that was cut short, changed or mixed up is dropped as if it were not there. Entries appear whole, by
// rename; nothing is locked; a process that is killed leaves at most a temporary file, which a later one
// removes. What another user owns, or could have written, is not read. Where the directory cannot be made or
// written, the cache stays empty and `refusal` says why; loading from a read-only directory works.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tilefuse {

struct CacheStats {
  int64_t entries = 0;
  int64_t bytes = 0;
};

class KernelCache {
 public:
  // An empty directory: no cache. `owner`: the user whose files may be read.
  KernelCache(std::string directory, int64_t limit_bytes);
  KernelCache(std::string directory, int64_t limit_bytes, uint32_t owner);

  // The bytes behind a key, verified.
  std::optional<std::string> load(std::string_view key) const;
  // A verified file whose first bytes are the entry's, for dlopen: a trailer does not disturb it.
  std::optional<std::string> find_file(std::string_view key) const;
  void store(std::string_view key, std::string_view bytes);
  void remove(std::string_view key);

  CacheStats stats() const;
  CacheStats clear();  // removes all entries; what there was

  const std::string& directory() const { return directory_; }
  const std::string& refusal() const { return refusal_; }  // why nothing is stored; empty: it is

 private:
  std::string path_of(std::string_view key) const;
  std::optional<std::string> read_verified(const std::string& path, std::string_view key) const;
  void bound_size(int64_t added);

  std::string directory_;
  int64_t limit_bytes_;
  uint32_t owner_;
  std::string refusal_;
  bool readable_ = false;
  std::mutex size_mutex_;
  int64_t known_bytes_ = -1;  // after the last look at the directory, with what was stored since; -1: not yet
};

// Below the user's home: "~/.cache/tilefuse". Empty where there is no home.
std::string default_cache_directory();

}  // namespace tilefuse
