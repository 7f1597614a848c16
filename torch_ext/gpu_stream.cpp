#include "torch_ext/gpu_stream.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tilefuse {

void require_device(c10::Device device) {
  if (device.is_cpu()) return;
  const int count = c10::impl::VirtualGuardImpl(device.type()).deviceCount();
  TORCH_CHECK(device.index() < count, "the program is for ", device, ", and torch finds ", count,
              " of such devices");
}

void* current_stream(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

}  // namespace tilefuse
