#include "tests/fuzz/archive_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "core/result.h"
#include "offline/archive.h"
#include "offline/write_archive.h"

namespace tilefuse::fuzz {
namespace {

namespace fs = std::filesystem;

class ScratchFolder {
 public:
  ScratchFolder() : path_((fs::temp_directory_path() / "tilefuse-fuzz-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

const std::string& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path();
}

MemoryFile::MemoryFile(std::string_view bytes) : file_(memfd_create("model.pt2", MFD_CLOEXEC)) {
  if (file_ < 0) throw std::runtime_error("cannot make a file in memory");
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written <= 0) throw std::runtime_error("cannot write a file in memory");
    bytes.remove_prefix(size_t(written));
  }
}

MemoryFile::~MemoryFile() { ::close(file_); }

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(file_); }

std::optional<Contents> unpacked(std::string_view bytes) {
  const MemoryFile file(bytes);
  try {
    const Archive archive = Archive::open(file.path());
    Contents contents;
    for (const auto& [name, entry] : archive.entries()) contents[name] = archive.text(name);
    return contents;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string packed(const Contents& contents) {
  const std::string path = scratch_folder() + "/packed.pt2";
  NewEntries entries;
  for (const auto& [name, text] : contents) {
    entries.push_back({name, std::as_bytes(std::span(text))});
  }
  write_archive(path, "model", entries);
  return file_bytes(path);
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tilefuse::fuzz
