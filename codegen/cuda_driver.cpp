#include "codegen/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <limits>

namespace tilefuse {
namespace {

using Context = void*;
// Of CUdevice_attribute, and of CUfunction_attribute.
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
constexpr int kSharedOfMultiprocessor = 81, kSharedOfBlock = 97, kSharedReserved = 111;
constexpr int kMemoryClock = 36, kMemoryBus = 37, kL2Bytes = 38;
constexpr int kMostGivenShared = 8;
// Of CUtensorMapDataType, and of the other choices that a tensor map has.
constexpr int kBytes = 0, kFloat16 = 6, kBfloat16 = 9, kRoundedToTf32 = 11;
constexpr int kNotInterleaved = 0, kPatternOf128Bytes = 3, kPromoteTo256Bytes = 3, kZerosOutside = 0;

// CUtensorMapDataType, of what a box is copied of; elements of eight bits as they lie. Of floats, those that
// are rounded to tf32 on the way, which is what they are copied for.
std::optional<int> tensor_map_type(DType dtype) {
  if (dtype == DType::BF16) return kBfloat16;
  if (dtype == DType::F16) return kFloat16;
  if (dtype == DType::F32) return kRoundedToTf32;
  if (size_in_bytes(dtype) == 1 && dtype != DType::Bool) return kBytes;
  return std::nullopt;
}

}  // namespace

struct CudaDriver::Functions {
  int (*start)(unsigned) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  int (*error_text)(int, const char**) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*retain_context)(Context*, int) = nullptr;
  int (*push_context)(Context) = nullptr;
  int (*pop_context)(Context*) = nullptr;
  int (*synchronize)() = nullptr;
  int (*load_module)(void**, const void*) = nullptr;
  int (*unload_module)(void*) = nullptr;
  int (*function)(void**, void*, const char*) = nullptr;
  int (*set_attribute)(void*, int, int) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**) = nullptr;
  // Since CUDA 12; absent in older drivers.
  int (*encode_tensor_map)(void*, int, uint32_t, uint64_t, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int) = nullptr;
  int (*allocate)(uint64_t*, size_t) = nullptr;
  int (*free)(uint64_t) = nullptr;
  int (*to_device)(uint64_t, const void*, size_t) = nullptr;
  int (*to_host)(void*, uint64_t, size_t) = nullptr;

  // The name of a function that the library lacks; empty: it has all.
  std::string fill(void* library) {
    std::string missing;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    const auto take = [&](auto& function, const char* name) {
      find(function, name);
      if (function == nullptr && missing.empty()) missing = name;
    };
    take(start, "cuInit");
    take(error_name, "cuGetErrorName");
    take(error_text, "cuGetErrorString");
    take(device_count, "cuDeviceGetCount");
    take(device, "cuDeviceGet");
    take(device_name, "cuDeviceGetName");
    take(device_attribute, "cuDeviceGetAttribute");
    take(retain_context, "cuDevicePrimaryCtxRetain");
    take(push_context, "cuCtxPushCurrent_v2");
    take(pop_context, "cuCtxPopCurrent_v2");
    take(synchronize, "cuCtxSynchronize");
    take(load_module, "cuModuleLoadData");
    take(unload_module, "cuModuleUnload");
    take(function, "cuModuleGetFunction");
    take(set_attribute, "cuFuncSetAttribute");
    take(launch, "cuLaunchKernel");
    take(allocate, "cuMemAlloc_v2");
    take(free, "cuMemFree_v2");
    take(to_device, "cuMemcpyHtoD_v2");
    take(to_host, "cuMemcpyDtoH_v2");
    find(encode_tensor_map, "cuTensorMapEncodeTiled");
    return missing;
  }

  std::string text(int status) const {
    const char* name = nullptr;
    const char* text = nullptr;
    error_name(status, &name);
    error_text(status, &text);
    return std::string(name == nullptr ? "error " + std::to_string(status) : name) +
           (text == nullptr ? "" : std::string(", ") + text);
  }
};

// The primary context of a device, current on this thread while this lives. It is retained for the process:
// torch keeps it as well.
class CudaDriver::Current {
 public:
  Current(const Functions& driver, int device) : driver_(driver) {
    Context context = nullptr;
    int handle = 0;
    status_ = driver_.device(&handle, device);
    if (status_ == 0) status_ = driver_.retain_context(&context, handle);
    enter(context);
  }
  // One that is retained already.
  Current(const Functions& driver, Context context) : driver_(driver) { enter(context); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    Context context = nullptr;
    if (status_ == 0) driver_.pop_context(&context);
  }
  int status() const { return status_; }
  Context context() const { return context_; }

 private:
  void enter(Context context) {
    if (status_ == 0) status_ = driver_.push_context(context);
    context_ = context;
  }

  const Functions& driver_;
  Context context_ = nullptr;
  int status_ = 0;
};

Unsupported CudaDriver::failed(const std::string& what, int status) const {
  return Unsupported{"cannot " + what + ": " + functions_->text(status)};
}

Result<CudaDriver> CudaDriver::load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Unsupported{"cannot use a GPU: there is no NVIDIA driver; tried " + library};
  auto functions = std::make_shared<Functions>();
  const std::string missing = functions->fill(handle);
  if (!missing.empty())
    return Unsupported{"cannot use a GPU: " + library + " has no " + missing + "; the driver is too old"};
  if (const int status = functions->start(0))
    return Unsupported{"cannot use a GPU: the driver does not start: " + functions->text(status)};
  int count = 0;
  if (functions->device_count(&count) != 0 || count == 0)
    return Unsupported{"cannot use a GPU: the driver finds none"};
  return CudaDriver(std::move(functions), count);
}

Result<CudaDevice> CudaDriver::device(int number) const {
  if (number < 0 || number >= device_count_) {
    return Unsupported{"cannot use GPU " + std::to_string(number) + ": there are " +
                       std::to_string(device_count_)};
  }
  CudaDevice device;
  device.number = number;
  int handle = 0;
  std::array<char, 256> name{};
  int status = functions_->device(&handle, number);
  if (status == 0) status = functions_->device_name(name.data(), int(name.size()) - 1, handle);
  if (status == 0) status = functions_->device_attribute(&device.major, kMajor, handle);
  if (status == 0) status = functions_->device_attribute(&device.minor, kMinor, handle);
  if (status == 0) status = functions_->device_attribute(&device.multiprocessors, kMultiprocessors, handle);
  if (status != 0) return failed("ask GPU " + std::to_string(number) + " what it is", status);
  device.name = name.data();
  for (const auto& [value, attribute] :
       {std::pair{&device.shared_bytes_per_block, kSharedOfBlock},
        std::pair{&device.shared_bytes_per_multiprocessor, kSharedOfMultiprocessor},
        std::pair{&device.shared_bytes_reserved, kSharedReserved},
        std::pair{&device.memory_clock_khz, kMemoryClock}, std::pair{&device.memory_bus_bits, kMemoryBus},
        std::pair{&device.l2_bytes, kL2Bytes}}) {
    if (functions_->device_attribute(value, attribute, handle) != 0) *value = 0;
  }
  return device;
}

Result<CudaFunction> CudaDriver::load_function(int device, const std::string& image,
                                               const std::string& name) const {
  const Current current(*functions_, device);
  if (current.status() != 0) return failed("use GPU " + std::to_string(device), current.status());
  void* module = nullptr;
  if (const int status = functions_->load_module(&module, image.c_str()))
    return failed("load the kernel " + name + " on GPU " + std::to_string(device), status);
  CudaFunction function{
      .device = device, .context = current.context(), .function = nullptr, .module = nullptr};
  function.module = std::shared_ptr<void>(module, [functions = functions_, device](void* loaded) {
    const Current its_own(*functions, device);
    if (its_own.status() == 0) functions->unload_module(loaded);
  });
  if (const int status = functions_->function(&function.function, module, name.c_str()))
    return failed("find the kernel " + name, status);
  return function;
}

std::optional<Unsupported> CudaDriver::allow_shared_bytes(const CudaFunction& function,
                                                          const std::string& name, int64_t bytes) const {
  const Current current(*functions_, function.context);
  int status = current.status();
  if (status == 0)
    status = functions_->set_attribute(function.function, kMostGivenShared, static_cast<int>(bytes));
  if (status == 0) return std::nullopt;
  return failed("give a block of " + name + " " + std::to_string(bytes) + " bytes of shared memory on GPU " +
                    std::to_string(function.device),
                status);
}

struct alignas(64) CudaDriver::EncodedTensorMap {
  std::array<uint64_t, 16> words{};
};

std::optional<Unsupported> CudaDriver::encode(const CudaTensorMap& map, EncodedTensorMap& to) const {
  if (std::any_of(map.extents.begin(), map.extents.end(), [](int64_t extent) { return extent == 0; }))
    return std::nullopt;
  const auto refuse = [](const std::string& why) { return Unsupported{"cannot make a tensor map: " + why}; };
  if (functions_->encode_tensor_map == nullptr)
    return refuse("the driver has no cuTensorMapEncodeTiled; it is too old");
  const std::optional<int> type = tensor_map_type(map.dtype);
  if (!type) return refuse("of " + std::string(info(map.dtype).name));
  // Coordinates are 32-bit.
  for (const int64_t extent : map.extents) {
    if (extent > std::numeric_limits<int32_t>::max())
      return refuse("an axis of " + std::to_string(extent) + " elements is too long");
  }
  const std::vector<uint64_t> extents(map.extents.begin(), map.extents.end()),
      strides(map.strides.begin(), map.strides.end());
  const std::vector<uint32_t> box(map.box.begin(), map.box.end()), each(map.box.size(), 1);
  const int status =
      functions_->encode_tensor_map(to.words.data(), *type, static_cast<uint32_t>(extents.size()),
                                    map.address, extents.data(), strides.data(), box.data(), each.data(),
                                    kNotInterleaved, kPatternOf128Bytes, kPromoteTo256Bytes, kZerosOutside);
  if (status != 0) return failed("make a tensor map", status);
  return std::nullopt;
}

std::optional<Unsupported> CudaDriver::launch(const CudaFunction& function, const CudaGrid& grid,
                                              std::vector<uint64_t> arguments,
                                              const std::vector<CudaTensorMap>& tensor_maps) const {
  if (grid.blocks < 1 || grid.blocks > std::numeric_limits<int32_t>::max())
    return Unsupported{"cannot launch " + std::to_string(grid.blocks) +
                       " blocks: a grid has 1 to 2147483647"};
  const Current current(*functions_, function.context);
  if (current.status() != 0) return failed("use GPU " + std::to_string(function.device), current.status());
  std::vector<void*> places;
  places.reserve(arguments.size() + tensor_maps.size());
  for (uint64_t& argument : arguments) places.push_back(&argument);
  std::vector<EncodedTensorMap> encoded(tensor_maps.size());
  for (size_t i = 0; i < tensor_maps.size(); ++i) {
    if (auto refusal = encode(tensor_maps[i], encoded[i])) return refusal;
    places.push_back(encoded[i].words.data());
  }
  const int status = functions_->launch(
      function.function, static_cast<unsigned>(grid.blocks), 1, 1, static_cast<unsigned>(grid.threads), 1, 1,
      static_cast<unsigned>(grid.shared_bytes), grid.stream, places.data(), nullptr);
  if (status != 0) return failed("launch a kernel", status);
  return std::nullopt;
}

Result<uint64_t> CudaDriver::allocate(int device, int64_t bytes) const {
  const Current current(*functions_, device);
  uint64_t address = 0;
  int status = current.status();
  if (status == 0) status = functions_->allocate(&address, static_cast<size_t>(bytes));
  if (status != 0) return failed("allocate " + std::to_string(bytes) + " bytes", status);
  return address;
}

void CudaDriver::free(int device, uint64_t address) const {
  const Current current(*functions_, device);
  if (current.status() == 0) functions_->free(address);
}

std::optional<Unsupported> CudaDriver::to_device(int device, uint64_t to, const void* from,
                                                 int64_t bytes) const {
  const Current current(*functions_, device);
  int status = current.status();
  if (status == 0) status = functions_->to_device(to, from, static_cast<size_t>(bytes));
  if (status != 0) return failed("copy to the GPU", status);
  return std::nullopt;
}

std::optional<Unsupported> CudaDriver::to_host(int device, void* to, uint64_t from, int64_t bytes) const {
  const Current current(*functions_, device);
  int status = current.status();
  if (status == 0) status = functions_->to_host(to, from, static_cast<size_t>(bytes));
  if (status != 0) return failed("copy from the GPU", status);
  return std::nullopt;
}

std::optional<Unsupported> CudaDriver::wait(int device) const {
  const Current current(*functions_, device);
  int status = current.status();
  if (status == 0) status = functions_->synchronize();
  if (status != 0) return failed("wait for the GPU", status);
  return std::nullopt;
}

}  // namespace tilefuse
