#include "codegen/temporary_folder.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tilefuse {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  static std::atomic<uint64_t> folders{0};
  std::error_code error;
  const std::string name = "tilefuse-" + std::to_string(folders++) + "-XXXXXX";
  std::string path = (fs::temp_directory_path(error) / name).string();
  if (error || mkdtemp(path.data()) == nullptr) return;
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

bool write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.flush().good();
}

}  // namespace tilefuse
