// Host memory that stands for a GPU's, for the framework: every tensor of the CPU is told to the library that
// stands in for the driver (fake_cuda.cpp), which so knows the bounds of what kernels are given.
//
// Loaded by tests behind fake_cuda: it finds that library's functions by name.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>

#include <new>

namespace tilefuse {
namespace {

using Tell = void (*)(void* memory, size_t bytes);

struct Functions {
  Tell made = reinterpret_cast<Tell>(dlsym(RTLD_DEFAULT, "fake_cuda_memory_made"));
  Tell gone = reinterpret_cast<Tell>(dlsym(RTLD_DEFAULT, "fake_cuda_memory_gone"));
};
const Functions& driver() {
  static const Functions functions;
  return functions;
}

class HostMemory final : public c10::Allocator {
 public:
  static constexpr size_t kAlignment = 256;  // as that of a GPU gives it

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::DeviceType::CPU};
    void* memory = ::operator new(bytes, std::align_val_t(kAlignment));
    driver().made(memory, bytes);
    return {memory, memory, &release, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

 private:
  static void release(void* memory) {
    if (memory == nullptr) return;
    driver().gone(memory, 0);
    ::operator delete(memory, std::align_val_t(kAlignment));
  }
};

}  // namespace
}  // namespace tilefuse

extern "C" {
// From now on, or no longer. A tensor goes as it was made.
__attribute__((visibility("default"))) void host_memory_use(int is_used) {
  static c10::Allocator* before = c10::GetCPUAllocator();
  static auto* memory = new tilefuse::HostMemory;  // tensors may outlive static destruction
  c10::SetCPUAllocator(is_used != 0 ? memory : before, /*priority=*/200);
}
}
