#include "offline/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/result.h"

namespace tilefuse {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw UserError(path + ": cannot read the file: " + std::generic_category().message(errno));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int file =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
  if (file < 0) fail(path);
  struct stat facts{};
  const bool is_known = ::fstat(file, &facts) == 0;
  if (is_known && !S_ISREG(facts.st_mode)) {
    ::close(file);
    throw UserError(path + ": is no regular file");
  }
  const auto size = size_t(is_known ? facts.st_size : 0);
  void* address = MAP_FAILED;
  if (is_known && size > 0) address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  ::close(file);
  errno = error;
  if (!is_known || (size > 0 && address == MAP_FAILED)) fail(path);
  if (size == 0) return;
  mapping_ = std::shared_ptr<const void>(
      address, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); });
  bytes_ = {static_cast<const std::byte*>(address), size};
}

}  // namespace tilefuse
