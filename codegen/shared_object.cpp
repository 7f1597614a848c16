#include "codegen/shared_object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "codegen/temporary_folder.h"

namespace tilefuse {
namespace {

// A file in memory, gone when it is closed.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("tilefuse-kernel", MFD_CLOEXEC)) {
    if (descriptor_ >= 0 && !write_all(bytes)) close_it();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close_it(); }

  bool exists() const { return descriptor_ >= 0; }
  // The loader takes two files of one path for the same object, and numbers of closed descriptors are given
  // out again: each file gets a path of its own.
  std::string path() const {
    static std::atomic<unsigned> files{0};
    return "/proc/self/fd/" + spelled(files++) + std::to_string(descriptor_);
  }

 private:
  // A number as a way from the folder to itself: "./" and "//" for its binary digits.
  static std::string spelled(unsigned number) {
    std::string way;
    for (; number != 0; number /= 2) way += number % 2 == 0 ? ".//" : "./";
    return way;
  }

  bool write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written <= 0) return false;
      bytes.remove_prefix(size_t(written));
    }
    return true;
  }
  void close_it() {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }

  int descriptor_;
};

}  // namespace

Result<std::shared_ptr<void>> open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc and musl
    return Unsupported{std::string("cannot load a kernel: ") +
                       (reason == nullptr ? "no reason given" : reason)};
  }
  return std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
}

Result<std::shared_ptr<void>> open_library_of(std::string_view bytes) {
  {
    const MemoryFile file(bytes);
    if (file.exists()) {
      auto library = open_library(file.path());
      if (library) return library;
    }
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("kernel.so");
  if (!folder.exists() || !write_file(path, bytes)) {
    return Unsupported{"cannot load a kernel: cannot write to the directory for temporary files"};
  }
  return open_library(path);
}

}  // namespace tilefuse
