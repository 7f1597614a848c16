// NVIDIA's driver, loaded when it is wanted: nothing is linked against it, and a machine without it gets a
// reason.
//
//   Result<CudaDriver> driver = CudaDriver::load();
//   Result<CudaFunction> function = driver->load_function(0, binary.cubin, "softmax_0_kernel");
//   driver->launch(*function, {.blocks = 132, .threads = 256, .stream = stream}, arguments);
//
// Work goes into the device's primary context, the one that torch and the CUDA runtime use: their memory and
// streams are valid in it. The context that was current on the calling thread is current again behind every
// call.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/result.h"

namespace tilefuse {

struct CudaDevice {
  int number = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  // Of shared memory; 0: the driver does not know the question.
  int shared_bytes_per_block = 0;  // that a launch may give
  int shared_bytes_per_multiprocessor = 0, shared_bytes_reserved = 0;
  // Of the memory, which moves two bits a clock and wire, and of the cache; 0 as above.
  int memory_clock_khz = 0, memory_bus_bits = 0, l2_bytes = 0;
  double memory_peak_gbs() const { return 2.0 * memory_clock_khz * memory_bus_bits / 8 / 1e6; }
};

struct CudaGrid {
  int64_t blocks = 1;
  int threads = 32;
  int64_t shared_bytes = 0;  // of a block, beside what the kernel declares; no more than was allowed
  void* stream = nullptr;    // the default one
};

// A matrix of which a kernel copies boxes, to lines of 128 bytes whose chunks have changed places
// (codegen/runtime/cuda_bulk_copy.h). What a box has outside is zeros.
struct CudaTensorMap {
  uint64_t address = 0;
  DType dtype = DType::BF16;     // f32: rounded to tf32 on the way
  std::vector<int64_t> extents;  // the innermost first; no elements: nothing is copied
  std::vector<int64_t> strides;  // bytes, of all dimensions but the innermost
  std::vector<int64_t> box;      // elements
};

// A function of a loaded module, which stays loaded while a copy of this lives.
struct CudaFunction {
  int device = 0;
  void* context = nullptr;  // the device's
  void* function = nullptr;
  std::shared_ptr<void> module;
};

class CudaDriver {
 public:
  // Unsupported: there is none, it lacks a function, it does not start, or there is no device; with what it
  // says.
  static Result<CudaDriver> load(const std::string& library = "libcuda.so.1");

  int device_count() const { return device_count_; }
  Result<CudaDevice> device(int number) const;
  // `image`: a cubin, or PTX, which the driver compiles.
  Result<CudaFunction> load_function(int device, const std::string& image, const std::string& name) const;
  // Before launches may give a block so much shared memory. nullopt: they may.
  std::optional<Unsupported> allow_shared_bytes(const CudaFunction& function, const std::string& name,
                                                int64_t bytes) const;
  // Every argument is 8 bytes: an address, or a size; tensor maps come behind them. nullopt: it is under way.
  std::optional<Unsupported> launch(const CudaFunction& function, const CudaGrid& grid,
                                    std::vector<uint64_t> arguments,
                                    const std::vector<CudaTensorMap>& tensor_maps = {}) const;

  // ---- memory, for those who have no allocator of their own
  Result<uint64_t> allocate(int device, int64_t bytes) const;
  void free(int device, uint64_t address) const;
  std::optional<Unsupported> to_device(int device, uint64_t to, const void* from, int64_t bytes) const;
  std::optional<Unsupported> to_host(int device, void* to, uint64_t from, int64_t bytes) const;
  std::optional<Unsupported> wait(int device) const;  // for all that was launched

 private:
  struct Functions;
  class Current;
  CudaDriver(std::shared_ptr<const Functions> functions, int device_count)
      : functions_(std::move(functions)), device_count_(device_count) {}
  struct EncodedTensorMap;
  std::optional<Unsupported> encode(const CudaTensorMap& map, EncodedTensorMap& to) const;
  Unsupported failed(const std::string& what, int status) const;

  std::shared_ptr<const Functions> functions_;
  int device_count_ = 0;
};

}  // namespace tilefuse
