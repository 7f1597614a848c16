#include "tests/run_kernel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <utility>

#include "codegen/emit.h"
#include "codegen/module.h"
#include "core/index_map.h"
#include "core/options.h"
#include "tests/element_bytes.h"
#include "tests/sampled.h"

namespace tilefuse {
namespace {

constexpr size_t kPage = 4096, kCanary = 256;
constexpr unsigned char kCanaryByte = 0xa5;
constexpr int kQuickStep = 6;
using KernelFunction = void (*)(const void* const*, const int64_t*, int64_t, int64_t, void*);

// Pages that end where they may no longer be read. `at_end`: the bytes stop there; else they start on a cache
// line, with canaries before and behind.
class GuardedBytes {
 public:
  GuardedBytes(size_t bytes, bool at_end) : bytes_(bytes) {
    const size_t needed = bytes + 2 * kCanary + 64;
    length_ = (needed + kPage - 1) / kPage * kPage;
    void* pages = mmap(nullptr, length_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(pages, MAP_FAILED);
    pages_ = static_cast<unsigned char*>(pages);
    EXPECT_EQ(mprotect(pages_ + length_, kPage, PROT_NONE), 0);
    std::memset(pages_, kCanaryByte, length_);
    start_ = at_end ? pages_ + length_ - bytes : pages_ + kCanary;
  }
  ~GuardedBytes() { munmap(pages_, length_ + kPage); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  unsigned char* data() { return start_; }
  void reset() { std::memset(start_, kCanaryByte, bytes_); }
  std::vector<unsigned char> copy() const { return {start_, start_ + bytes_}; }
  bool canaries_are_whole() const {
    for (const unsigned char* p = pages_; p < pages_ + length_; ++p) {
      if ((p < start_ || p >= start_ + bytes_) && *p != kCanaryByte) return false;
    }
    return true;
  }

 private:
  size_t bytes_, length_ = 0;
  unsigned char *pages_ = nullptr, *start_ = nullptr;
};

bool holds_nan(DType dtype, const unsigned char* element) {
  return is_float(dtype) && std::isnan(std::get<double>(read_element(dtype, element)));
}

std::string spelled(const unsigned char* element, size_t bytes) {
  std::ostringstream digits;
  digits << std::hex << std::setfill('0');
  for (size_t i = bytes; i-- > 0;) digits << std::setw(2) << int{element[i]};
  return digits.str();
}

}  // namespace

std::string first_other_bits(DType dtype, const std::vector<unsigned char>& found,
                             const std::vector<unsigned char>& expected) {
  const auto bytes = static_cast<size_t>(size_in_bytes(dtype));
  if (found.size() != expected.size()) return "other sizes";
  for (size_t at = 0; at + bytes <= found.size(); at += bytes) {
    const unsigned char *a = found.data() + at, *b = expected.data() + at;
    if (std::memcmp(a, b, bytes) == 0 || (holds_nan(dtype, a) && holds_nan(dtype, b))) continue;
    return std::to_string(at / bytes) + ": " + spelled(a, bytes) + " instead of " + spelled(b, bytes);
  }
  return "";
}

std::vector<int64_t> sizes_of(const Buffer& buffer, const SymbolValues& symbols) {
  std::vector<int64_t> sizes;
  for (const Expr& e : buffer.shape) {
    sizes.push_back(evaluate(e, {}, [&](const std::string& name) { return symbols.at(name); }));
  }
  return sizes;
}

KernelRunner::KernelRunner()
    : directory_(testing::TempDir() + "tilefuse_kernels_" + std::to_string(getpid())),
      cache_((std::filesystem::create_directories(directory_), directory_), int64_t{1} << 30) {
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
  Result<Toolchain> toolchain = find_toolchain({"", read_environment().search_path, ""}, cache_);
  EXPECT_TRUE(bool(toolchain));
  if (toolchain) toolchain_ = *toolchain;
}

KernelRunner::~KernelRunner() { std::filesystem::remove_all(directory_); }

bool KernelRunner::draws(const TileGraph& graph, const Schedule& schedule) {
  if (tier_of_tests() != Tier::Quick) return true;
  const std::string last =
      std::exchange(source_, emit(lower_to_kernel(graph, schedule).kernels, cpu_dialect()));
  found_index_error_ = false;
  if (source_ != last) is_drawn_ = emitted_++ % kQuickStep == 0;
  return is_drawn_;
}

std::vector<Tensor> KernelRunner::run(const TileGraph& graph, const Schedule& schedule,
                                      const std::vector<Tensor>& inputs, const SymbolValues& symbols) {
  const auto size = [&](const Expr& e) {
    return evaluate(e, {}, [&](const std::string& symbol) { return symbols.at(symbol); });
  };
  const KernelProgram program = lower_to_kernel(graph, schedule);
  source_ = emit(program.kernels, cpu_dialect());
  Result<Module> module = build(source_, toolchain_, {.instructions = instructions_}, cache_);
  if (!module) {
    ADD_FAILURE() << module.unsupported().reason << "\n" << source_;
    return {};
  }
  std::vector<std::unique_ptr<GuardedBytes>> memory;
  const auto span = [&](const Buffer& buffer) {
    int64_t elements = 1;
    for (size_t i = 0; i < buffer.shape.size(); ++i) {
      if (size(buffer.shape[i]) == 0) return int64_t{0};
      elements += (size(buffer.shape[i]) - 1) * size(buffer.strides[i]);
    }
    return elements;
  };
  const auto position = [&](const Buffer& buffer, const std::vector<int64_t>& at) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] * size(buffer.strides[i]);
    return offset * size_in_bytes(buffer.dtype);
  };
  const auto shape_of = [&](const Buffer& buffer) {
    std::vector<int64_t> shape;
    for (const Expr& e : buffer.shape) shape.push_back(size(e));
    return shape;
  };
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& buffer = graph.buffers[i];
    const bool is_input = buffer.role == Buffer::Role::Input;
    memory.push_back(std::make_unique<GuardedBytes>(
        static_cast<size_t>(span(buffer)) * static_cast<size_t>(size_in_bytes(buffer.dtype)), is_input));
    if (!is_input) continue;
    int64_t at = 0;
    for_each_coordinate(shape_of(buffer), [&](const std::vector<int64_t>& coordinates) {
      write_element(memory[i]->data() + position(buffer, coordinates), inputs[i], at++);
    });
  }
  for (const Workspace& workspace : program.launches.workspaces) {
    memory.push_back(std::make_unique<GuardedBytes>(
        static_cast<size_t>(size(workspace.elements) * size_in_bytes(workspace.dtype)), false));
  }
  for (const Pack& pack : program.launches.packs) {
    memory.push_back(std::make_unique<GuardedBytes>(
        static_cast<size_t>(pack.elements * size_in_bytes(pack.dtype)), false));
  }
  std::vector<const void*> buffers;
  for (const auto& bytes : memory) buffers.push_back(bytes->data());
  std::vector<int64_t> sizes;
  for (const Expr& e : program.launches.sizes) sizes.push_back(size(e));
  found_index_error_ = false;
  std::vector<Launch> launches;
  for (const Pack& pack : program.launches.packs) launches.push_back(pack.launch);
  launches.insert(launches.end(), program.launches.launches.begin(), program.launches.launches.end());
  const auto launch_all = [&](bool backwards) {
    for (const Launch& launch : launches) {
      auto* kernel = reinterpret_cast<KernelFunction>(module->symbol(launch.symbol));
      ASSERT_NE(kernel, nullptr) << launch.symbol;
      GuardedBytes scratch(static_cast<size_t>(size(launch.scratch_bytes)), false);
      int64_t error = 0;
      std::memcpy(scratch.data(), &error, sizeof error);
      const int64_t tiles = size(launch.tiles);
      if (backwards) {
        for (int64_t tile = tiles; tile-- > 0;) {
          kernel(buffers.data(), sizes.data(), tile, tile + 1, scratch.data());
        }
      } else {
        kernel(buffers.data(), sizes.data(), 0, tiles, scratch.data());
      }
      std::memcpy(&error, scratch.data(), sizeof error);
      found_index_error_ |= error != 0;
      EXPECT_TRUE(scratch.canaries_are_whole()) << "scratch is written outside of its bytes";
    }
  };
  launch_all(false);
  std::vector<std::vector<unsigned char>> first_run;
  for (const auto& bytes : memory) {
    first_run.push_back(bytes->copy());
    EXPECT_TRUE(bytes->canaries_are_whole()) << "memory outside of a buffer is written";
  }
  for (size_t i = inputs.size(); i < memory.size(); ++i) memory[i]->reset();
  launch_all(true);
  for (size_t i = 0; i < memory.size(); ++i) {
    const size_t buffers_end = graph.buffers.size();
    const size_t workspaces_end = buffers_end + program.launches.workspaces.size();
    const DType dtype = i < buffers_end      ? graph.buffers[i].dtype
                        : i < workspaces_end ? program.launches.workspaces[i - buffers_end].dtype
                                             : program.launches.packs[i - workspaces_end].dtype;
    EXPECT_EQ(first_other_bits(dtype, memory[i]->copy(), first_run[i]), "")
        << "other bits in memory " << i << " when the tiles run one by one, backwards";
  }
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& buffer = graph.buffers[i];
    if (buffer.role == Buffer::Role::Input) continue;
    Tensor& output = outputs.emplace_back(buffer.dtype, shape_of(buffer));
    int64_t at = 0;
    for_each_coordinate(shape_of(buffer), [&](const std::vector<int64_t>& coordinates) {
      output.set(at++, read_element(buffer.dtype, memory[i]->data() + position(buffer, coordinates)));
    });
  }
  return outputs;
}

}  // namespace tilefuse
