#include "offline/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "core/result.h"

namespace tilefuse {
namespace {

// As large as caches: calls that write hundreds of MiB take the system four times as long.
constexpr size_t kPiece = size_t{256} << 10;

// A name that nobody has. mkstemp would make the file for its owner's eyes only.
int make_beside(const std::string& path, std::string& name) {
  for (int i = 0;; ++i) {
    name = path + "." + std::to_string(::getpid()) + "." + std::to_string(i);
    const int file = ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
}

}  // namespace

NewFile::NewFile(const std::string& path) : path_(path), file_(make_beside(path, temporary_)) {
  if (file_ < 0) fail();
  std::error_code error;
  if (!std::filesystem::is_directory(path_, error)) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
  errno = EISDIR;
  fail();
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void NewFile::fail() const {
  throw UserError(path_ + ": cannot be written: " + std::generic_category().message(errno));
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), std::min(bytes.size(), kPiece));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    size_ += uint64_t(count);
    bytes = bytes.subspan(size_t(count));
  }
}

void NewFile::finish() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  const int status = ::close(file_);  // tells what a network's file system could not write
  file_ = -1;
  if (status != 0) fail();
}

void require_writable(const std::string& path) { const NewFile file(path); }

}  // namespace tilefuse
