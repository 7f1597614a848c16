#include "torch_ext/gpu_stream.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tilefuse {

void* current_stream(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

}  // namespace tilefuse
