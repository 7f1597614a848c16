// A private directory that goes away with what is in it.
#pragma once
#include <string>
#include <string_view>

namespace tilefuse {

class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  bool exists() const { return !path_.empty(); }  // false: it could not be made
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

[[nodiscard]] bool write_file(const std::string& path, std::string_view bytes);

}  // namespace tilefuse
