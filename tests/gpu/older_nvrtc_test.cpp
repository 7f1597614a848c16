// Kernels of all kinds compile with older releases of NVIDIA's compiler, too: the golden files' CUDA C++, for
// the architecture that each of them is for. What newer releases accept is not the language.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "codegen/nvrtc.h"
#include "fusion/gpu_target.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> folders() {
  std::istringstream list(TILEFUSE_OLDER_NVRTC);
  std::vector<std::string> found;
  for (std::string folder; std::getline(list, folder, ':');) found.push_back(folder);
  return found;
}

struct Source {
  std::string name, text, architecture;
};

// "run: cuda --target cuda-sm80", the tile graph, "---", the sources, each of which begins with its lanes.
std::vector<Source> golden_sources() {
  std::vector<Source> sources;
  for (const auto& entry : fs::directory_iterator(TILEFUSE_CUDA_GOLDENS)) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t source = text.find("\n---\n"), option = text.find("--target "),
                 run = text.find("run: cuda ");
    if (source == std::string::npos || run == std::string::npos ||
        text.find("__global__") == std::string::npos)
      continue;
    std::istringstream words(text.substr(option + 9));
    std::string target;
    words >> target;
    const std::string begin = "\n#define TILEFUSE_LANES";
    for (size_t at = text.find(begin, source); at != std::string::npos;) {
      const size_t next = text.find(begin, at + 1);
      sources.push_back(
          {entry.path().stem().string(), text.substr(at, next - at), load_gpu_target(target).architecture});
      at = next;
    }
  }
  return sources;
}

TEST(OlderNvrtc, compiles_kernels_of_all_kinds) {
  if (folders().empty()) GTEST_SKIP() << "SKIPPED, there is no older NVRTC";
  const std::vector<Source> sources = golden_sources();
  ASSERT_GE(sources.size(), 15U);
  for (const std::string& folder : folders()) {
    const Result<Nvrtc> nvrtc = Nvrtc::load({folder});
    ASSERT_TRUE(nvrtc) << nvrtc.unsupported().reason;
    for (const Source& source : sources) {
      const Result<GpuBinary> binary = nvrtc->compile(source.text, source.architecture);
      EXPECT_TRUE(binary) << source.name << ", NVRTC " << nvrtc->version() << ": "
                          << binary.unsupported().reason;
    }
  }
}

}  // namespace
}  // namespace tilefuse
