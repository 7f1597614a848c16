// Stands in for NVIDIA's driver where there is none: the same functions, on host memory. A module is loaded
// from PTX: machine code is refused, as by a driver that does not know it. A launch runs it in the model of a
// GPU with all its checks, and every call is written down.
//
// An argument that is the address of an allocation is a buffer, and so is a null one in front of such: memory
// of a tensor without elements. The kernel stores to an output or it does not: that is found in its PTX, by
// following addresses from parameters to stores.
#include "tests/gpu/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tests/gpu/ptx_run.h"

namespace tilefuse {
namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kNotFound = 500, kLaunchFailed = 719;

struct FakeModule {
  PtxProgram program;
  std::set<size_t> outputs;       // numbers of parameters
  int64_t most_shared_bytes = 0;  // given at a launch, as it was set
};

struct FakeDriver {
  std::string calls, told;
  std::map<std::string, int> failures;
  std::mutex mutex;  // of the allocations: the framework's threads make tensors
  std::map<uint64_t, size_t> allocations;
  int devices = 1, major = 8, minor = 0;
  int memory_clock_khz = 0, memory_bus_bits = 0;
  int most_shared_bytes = 163 << 10, said_shared_bytes = 163 << 10;  // of a block
  int contexts = 0;                                                  // pushed
};

FakeDriver& driver() {
  static FakeDriver one;
  return one;
}

// Writes the call down; the status that a test wants of it.
int called(const std::string& name, const std::string& rest = "") {
  driver().calls += name + (rest.empty() ? "" : " " + rest) + "\n";
  const auto failure = driver().failures.extract(name);
  return failure.empty() ? 0 : failure.mapped();
}
int called_in_context(const std::string& name, const std::string& rest = "") {
  const int status = called(name, rest);
  return driver().contexts > 0 ? status : 201;  // CUDA_ERROR_INVALID_CONTEXT
}

std::set<size_t> stored_parameters(const PtxProgram& program) {
  std::map<int, std::set<size_t>> from;  // parameters that a register's value is made of
  std::set<size_t> stored;
  for (size_t before = ~size_t{0}, now = 0; before != now;) {
    before = now;
    for (const PtxInstruction& instruction : program.instructions) {
      if (instruction.kind == PtxKind::LoadParameter) {
        const auto& offsets = program.parameter_offsets;
        const auto at = std::find(offsets.begin(), offsets.end(), instruction.offset);
        from[instruction.results[0]].insert(static_cast<size_t>(at - offsets.begin()));
      }
      if (instruction.kind == PtxKind::Store && instruction.space == PtxSpace::Global) {
        const auto& address = from[instruction.operands.back()];
        stored.insert(address.begin(), address.end());
      }
      if (instruction.kind != PtxKind::Compute) continue;
      for (const int operand : instruction.operands) {
        const std::set<size_t> parameters = from[operand];
        from[instruction.results[0]].insert(parameters.begin(), parameters.end());
      }
    }
    now = stored.size();
    for (const auto& [reg, parameters] : from) now += parameters.size();
  }
  return stored;
}

// Bytes from an address to the end of its allocation; 0: it is in none.
size_t bytes_behind(uint64_t address) {
  const std::lock_guard lock(driver().mutex);
  const auto after = driver().allocations.upper_bound(address);
  if (after == driver().allocations.begin()) return 0;
  const auto& [first, bytes] = *std::prev(after);
  return address - first < bytes ? first + bytes - address : 0;
}

// Of a buffer of the launch: where its memory is in the model is known then.
TensorMapLayout tensor_map_at(const void* place, const std::vector<uint64_t>& addresses) {
  TensorMapBytes bytes;
  std::memcpy(bytes.data(), place, bytes.size());
  TensorMapLayout map = decode_tensor_map(bytes);
  const auto holds = [&](uint64_t address) {
    return address <= map.address && map.address < address + bytes_behind(address);
  };
  const auto found = std::find_if(addresses.begin(), addresses.end(), holds);
  if (found == addresses.end()) throw GpuFault("a tensor map of memory that the launch does not have");
  map.buffer = static_cast<size_t>(found - addresses.begin());
  map.address -= *found;
  return map;
}

int launch(const FakeModule& module, const GpuGrid& grid, void** arguments) {
  std::vector<uint64_t> values(module.program.parameter_offsets.size());
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], arguments[i], sizeof values[i]);
  size_t buffer_count = values.size();
  while (buffer_count > 0 && bytes_behind(values[buffer_count - 1]) == 0) --buffer_count;

  std::vector<GpuBuffer> buffers(buffer_count);
  for (size_t i = 0; i < buffer_count; ++i) {
    buffers[i].bytes.resize(bytes_behind(values[i]));
    buffers[i].is_output = module.outputs.contains(i);
    if (!buffers[i].bytes.empty())
      std::memcpy(buffers[i].bytes.data(), reinterpret_cast<const void*>(values[i]), buffers[i].bytes.size());
  }
  const std::vector<uint64_t> addresses(values.begin(), values.begin() + std::ptrdiff_t(buffer_count));
  const std::vector<int64_t> sizes(values.begin() + std::ptrdiff_t(buffer_count), values.end());
  std::vector<TensorMapLayout> maps;
  for (size_t i = 0; i < module.program.tensor_map_offsets.size(); ++i)
    maps.push_back(tensor_map_at(arguments[values.size() + i], addresses));
  const GpuRun run = run_ptx(module.program, grid, std::move(buffers), sizes, maps);
  for (size_t b = 0; b < addresses.size(); ++b) {
    if (!run.buffers[b].is_output) continue;
    std::memcpy(reinterpret_cast<void*>(addresses[b]), run.buffers[b].bytes.data(),
                run.buffers[b].bytes.size());
  }
  return 0;
}

}  // namespace
}  // namespace tilefuse

using tilefuse::called;
using tilefuse::called_in_context;
using tilefuse::driver;
using tilefuse::FakeModule;

extern "C" {

const char* fake_cuda_calls() {
  driver().told = std::move(driver().calls);
  driver().calls.clear();
  return driver().told.c_str();
}
void fake_cuda_fail(const char* call, int status) { driver().failures[call] = status; }
void fake_cuda_capability(int major, int minor) {
  driver().major = major;
  driver().minor = minor;
}
void fake_cuda_devices(int count) { driver().devices = count; }
void fake_cuda_shared_bytes(int most, int said) {
  driver().most_shared_bytes = most;
  driver().said_shared_bytes = said;
}
void fake_cuda_memory_rate(int clock_khz, int bus_bits) {
  driver().memory_clock_khz = clock_khz;
  driver().memory_bus_bits = bus_bits;
}

void fake_cuda_memory_made(void* memory, size_t bytes) {
  const std::lock_guard lock(driver().mutex);
  driver().allocations[reinterpret_cast<uint64_t>(memory)] = bytes;
}
void fake_cuda_memory_gone(void* memory, size_t) {
  const std::lock_guard lock(driver().mutex);
  driver().allocations.erase(reinterpret_cast<uint64_t>(memory));
}

int cuInit(unsigned) { return called("cuInit"); }
int cuGetErrorName(int status, const char** name) {
  *name = status == tilefuse::kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_TEST";
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "as the test wants it";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = driver().devices;
  return called("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "Model of a GPU", static_cast<size_t>(length));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int said = driver().said_shared_bytes;
  const std::map<int, int> known = {{16, 4},
                                    {75, driver().major},
                                    {76, driver().minor},
                                    {81, said + 1024},
                                    {97, said},
                                    {111, 1024},
                                    {36, driver().memory_clock_khz},
                                    {37, driver().memory_bus_bits},
                                    {38, 50 << 20}};
  const auto found = known.find(attribute);
  const bool is_of_shared = attribute == 81 || attribute == 97 || attribute == 111;
  const bool is_of_memory = attribute >= 36 && attribute <= 38;
  if (found == known.end() || (is_of_shared && said == 0) || (is_of_memory && driver().memory_bus_bits == 0))
    return tilefuse::kInvalidValue;
  *value = found->second;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &driver();
  return called("cuDevicePrimaryCtxRetain");
}
int cuCtxPushCurrent_v2(void*) {
  ++driver().contexts;
  return 0;
}
int cuCtxPopCurrent_v2(void**) {
  --driver().contexts;
  return 0;
}
int cuCtxSynchronize() { return called_in_context("cuCtxSynchronize"); }

int cuModuleLoadData(void** module, const void* image) {
  if (const int status = called_in_context("cuModuleLoadData")) return status;
  try {
    auto made = std::make_unique<FakeModule>();
    made->program = tilefuse::parse_ptx(static_cast<const char*>(image));
    made->outputs = tilefuse::stored_parameters(made->program);
    *module = made.release();
    return 0;
  } catch (const std::exception& error) {
    driver().calls += std::string("  ") + error.what() + "\n";
    return tilefuse::kInvalidImage;
  }
}
int cuModuleUnload(void* module) {
  delete static_cast<FakeModule*>(module);
  return called_in_context("cuModuleUnload");
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  const bool is_there = static_cast<FakeModule*>(module)->program.name == name;
  const int status = called_in_context("cuModuleGetFunction", name);
  return is_there ? status : tilefuse::kNotFound;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  auto& module = *static_cast<FakeModule*>(function);
  const std::string rest =
      module.program.name + ": attribute " + std::to_string(attribute) + " = " + std::to_string(value);
  if (const int status = called_in_context("cuFuncSetAttribute", rest)) return status;
  const bool fits = module.program.given_at.value_or(0) + value <= driver().most_shared_bytes;
  if (attribute != 8 || value < 0 || !fits) return tilefuse::kInvalidValue;
  module.most_shared_bytes = value;
  return 0;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned shared, void* stream, void** arguments, void**) {
  const auto& module = *static_cast<FakeModule*>(function);
  const std::string rest = module.program.name + ": " + std::to_string(blocks) + " blocks of " +
                           std::to_string(threads) +
                           (shared == 0 ? "" : " with " + std::to_string(shared) + " bytes") +
                           (stream == nullptr ? "" : ", on a stream");
  if (const int status = called_in_context("cuLaunchKernel", rest)) return status;
  const tilefuse::GpuGrid grid{.blocks = blocks,
                               .threads = static_cast<int>(threads),
                               .shared_bytes = shared,
                               .most_shared_bytes = module.most_shared_bytes};
  try {
    if (const std::string why = tilefuse::why_refused(module.program, grid); !why.empty()) {
      driver().calls += "  " + why + "\n";
      return tilefuse::kInvalidValue;
    }
    return tilefuse::launch(module, grid, arguments);
  } catch (const std::exception& error) {
    driver().calls += std::string("  ") + error.what() + "\n";
    return tilefuse::kLaunchFailed;
  }
}

int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                           int interleave, int pattern, int, int fill) {
  // Of bytes, f16, bf16, and f32 that is rounded to tf32.
  static const std::map<int, int> kElementBytes = {{0, 1}, {6, 2}, {9, 2}, {11, 4}};
  const auto element = kElementBytes.find(type);
  tilefuse::TensorMapLayout layout{.address = reinterpret_cast<uint64_t>(address),
                                   .element_bytes = element == kElementBytes.end() ? 2 : element->second,
                                   .rounds_to_tf32 = type == 11,
                                   .extents = {extents, extents + rank},
                                   .strides = {strides, strides + rank - 1},
                                   .box = {box, box + rank}};
  const bool is_known =
      element != kElementBytes.end() && interleave == 0 && pattern == 3 && fill == 0 &&
      std::all_of(element_strides, element_strides + rank, [](uint32_t n) { return n == 1; });
  const std::string why = is_known ? tilefuse::why_no_tensor_map(layout) : "a form that is not known";
  if (const int status = called("cuTensorMapEncodeTiled", why)) return status;
  if (!why.empty()) return tilefuse::kInvalidValue;
  std::memcpy(map, tilefuse::encode(layout).data(), tilefuse::kTensorMapBytes);
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (const int status = called_in_context("cuMemAlloc", std::to_string(bytes))) return status;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *address = reinterpret_cast<uint64_t>(memory);
  driver().allocations[*address] = bytes;
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  if (driver().allocations.erase(address) == 0) return tilefuse::kInvalidValue;
  std::free(reinterpret_cast<void*>(address));
  return called_in_context("cuMemFree");
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return called_in_context("cuMemcpyHtoD");
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return called_in_context("cuMemcpyDtoH");
}
}
