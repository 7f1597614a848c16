// A private directory that goes away with what is in it. No two of a process have the same path, even one
// after the other: the loader takes two files of one path for the same object. `mkdtemp` alone does not see
// to that: glibc makes the name of the nanoseconds of a clock, and of 100,000 names some six came twice.
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
