// The stream that the framework's work on a device goes to now, by the framework's own registry of devices:
// nothing of a device's libraries is linked.
#pragma once
#include <c10/core/Device.h>

namespace tilefuse {

// As the device's driver takes it. Null for host memory, where tests run what stands in for a GPU.
// Throws where the framework has no such device, with its own sentence.
void require_device(c10::Device device);

void* current_stream(c10::Device device);

}  // namespace tilefuse
