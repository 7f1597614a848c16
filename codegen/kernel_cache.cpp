#include "codegen/kernel_cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/structural_hash.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tilefuse cache 1";
constexpr size_t kTrailerBytes = 48;  // magic, checksum as 32 digits
constexpr std::string_view kSuffix = ".entry";
constexpr std::string_view kTemporary = "temporary-";
// A temporary file older than this belongs to nobody: no store takes as long.
constexpr auto kStaleAfter = std::chrono::hours(1);

std::string error_text() { return std::generic_category().message(errno); }

std::string trailer_of(std::string_view key, std::string_view bytes) {
  const std::string key_hash = to_text(hash_bytes(key));
  std::string sealed;
  sealed.reserve(key_hash.size() + bytes.size());
  sealed.append(key_hash).append(bytes);
  return std::string(kMagic) + to_text(hash_bytes(sealed));
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

  bool read_all(size_t size, std::string* bytes) const {
    bytes->resize(size);
    size_t done = 0;
    while (done < size) {
      const ssize_t count = read(descriptor_, bytes->data() + done, size - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      done += static_cast<size_t>(count);
    }
    return true;
  }
  bool write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

 private:
  int descriptor_;
};

// Makes what is missing of the path, private to the user. Empty, or what is wrong with it.
std::string make_directory(const std::string& directory) {
  std::error_code error;
  const fs::path path(directory);
  if (!fs::exists(path, error)) {
    if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return "cannot make it: " + error_text();
  }
  return "";
}

std::string unfit(const std::string& directory, uint32_t owner) {
  struct stat facts{};
  if (stat(directory.c_str(), &facts) != 0) return "cannot look at it: " + error_text();
  if (!S_ISDIR(facts.st_mode)) return "it is not a directory";
  if (facts.st_uid != owner) return "it belongs to user " + std::to_string(facts.st_uid);
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users can write to it";
  return "";
}

struct Entry {
  fs::path path;
  int64_t bytes = 0;
  fs::file_time_type used;
};

std::vector<Entry> entries_of(const std::string& directory) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != kSuffix) continue;
    std::error_code gone;
    const auto bytes = static_cast<int64_t>(at->file_size(gone));
    const auto used = gone ? fs::file_time_type{} : at->last_write_time(gone);
    if (!gone) entries.push_back({at->path(), bytes, used});
  }
  return entries;
}

int64_t total_bytes(const std::vector<Entry>& entries) {
  int64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  return bytes;
}

// "temporary-<pid>-<number>": of a process that is gone, or older than any store takes. (A pid may be of
// another container, so that a young file of an unknown process is left alone.)
bool is_stale(const fs::path& path) {
  std::error_code error;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, error);
  if (error) return false;
  if (age > kStaleAfter) return true;
  const std::string name = path.filename().string();
  const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + kTemporary.size(), nullptr, 10));
  const bool is_gone = pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
  return is_gone && age > std::chrono::minutes(1);
}

void remove_stale_files(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kTemporary) && is_stale(at->path())) stale.push_back(at->path());
  }
  for (const fs::path& path : stale) fs::remove(path, error);
}

std::string temporary_name() {
  static std::atomic<uint64_t> number{0};
  return std::string(kTemporary) + std::to_string(getpid()) + "-" + std::to_string(number++);
}

}  // namespace

KernelCache::KernelCache(std::string directory, int64_t limit_bytes)
    : KernelCache(std::move(directory), limit_bytes, geteuid()) {}

KernelCache::KernelCache(std::string directory, int64_t limit_bytes, uint32_t owner)
    : directory_(std::move(directory)), limit_bytes_(limit_bytes), owner_(owner) {
  if (directory_.empty()) {
    refusal_ = "no cache directory is set";
    return;
  }
  const std::string about = "cannot cache kernels in " + directory_ + ": ";
  std::string problem = make_directory(directory_);
  if (problem.empty()) problem = unfit(directory_, owner_);
  readable_ = problem.empty();
  if (problem.empty() && access(directory_.c_str(), W_OK | X_OK) != 0) problem = error_text();
  if (!problem.empty()) refusal_ = about + problem;
}

std::string KernelCache::path_of(std::string_view key) const {
  return directory_ + "/" + to_text(hash_bytes(key)) + std::string(kSuffix);
}

std::optional<std::string> KernelCache::read_verified(const std::string& path, std::string_view key) const {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts{};
  if (!file.is_open() || fstat(file.descriptor(), &facts) != 0) return std::nullopt;
  if (!S_ISREG(facts.st_mode) || facts.st_uid != owner_) return std::nullopt;
  const auto size = static_cast<size_t>(facts.st_size);
  std::string bytes;
  if (size < kTrailerBytes || !file.read_all(size, &bytes)) return std::nullopt;
  const std::string trailer = bytes.substr(size - kTrailerBytes);
  bytes.resize(size - kTrailerBytes);
  if (trailer != trailer_of(key, bytes)) return std::nullopt;
  // The time of the last use decides who goes when the cache is full; to the hour is enough.
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (now - facts.st_mtime > 3600) futimens(file.descriptor(), nullptr);
  return bytes;
}

std::optional<std::string> KernelCache::load(std::string_view key) const {
  if (!readable_) return std::nullopt;
  return read_verified(path_of(key), key);
}

std::optional<std::string> KernelCache::find_file(std::string_view key) const {
  if (!readable_) return std::nullopt;
  std::string path = path_of(key);
  if (!read_verified(path, key)) return std::nullopt;
  return path;
}

void KernelCache::store(std::string_view key, std::string_view bytes) {
  if (!refusal_.empty()) return;
  const auto size = static_cast<int64_t>(bytes.size() + kTrailerBytes);
  if (size > limit_bytes_) return;
  bound_size(size);

  const std::string temporary = directory_ + "/" + temporary_name();
  bool written = false;
  {
    const File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.is_open()) return;
    written = file.write_all(bytes) && file.write_all(trailer_of(key, bytes));
  }
  if (!written || rename(temporary.c_str(), path_of(key).c_str()) != 0) unlink(temporary.c_str());
}

void KernelCache::remove(std::string_view key) {
  if (refusal_.empty()) unlink(path_of(key).c_str());
}

// Looks at the directory once, and again whenever the limit seems reached; then the entries unused for
// longest go, down to nine tenths, so that not every store looks again.
void KernelCache::bound_size(int64_t added) {
  const std::lock_guard lock(size_mutex_);
  if (known_bytes_ < 0) {
    remove_stale_files(directory_);
    known_bytes_ = total_bytes(entries_of(directory_));
  }
  known_bytes_ += added;
  if (known_bytes_ <= limit_bytes_) return;

  std::vector<Entry> entries = entries_of(directory_);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  known_bytes_ = total_bytes(entries) + added;
  const int64_t goal = known_bytes_ > limit_bytes_ ? limit_bytes_ - limit_bytes_ / 10 : limit_bytes_;
  for (const Entry& entry : entries) {
    if (known_bytes_ <= goal) break;
    std::error_code error;
    fs::remove(entry.path, error);
    known_bytes_ -= entry.bytes;
  }
}

CacheStats KernelCache::stats() const {
  if (!readable_) return {};
  const std::vector<Entry> entries = entries_of(directory_);
  return {static_cast<int64_t>(entries.size()), total_bytes(entries)};
}

CacheStats KernelCache::clear() {
  CacheStats removed;
  if (!refusal_.empty()) return removed;
  for (const Entry& entry : entries_of(directory_)) {
    std::error_code error;
    if (!fs::remove(entry.path, error)) continue;
    ++removed.entries;
    removed.bytes += entry.bytes;
  }
  remove_stale_files(directory_);
  const std::lock_guard lock(size_mutex_);
  known_bytes_ = -1;
  return removed;
}

std::string default_cache_directory() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return "";
  return std::string(found->pw_dir) + "/.cache/tilefuse";
}

}  // namespace tilefuse
