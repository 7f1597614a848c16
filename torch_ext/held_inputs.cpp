#include "torch_ext/held_inputs.h"

#include <c10/util/Exception.h>

#include <map>
#include <mutex>

namespace tilefuse {
namespace {

struct Held {
  std::mutex mutex;
  int64_t next = 0;
  std::map<int64_t, std::vector<at::Tensor>> tensors;  // by number
};
Held& held_inputs() {
  static auto* all = new Held;  // never destroyed: tensors may outlive static destruction
  return *all;
}

}  // namespace

int64_t hold_inputs(at::TensorList tensors) {
  Held& all = held_inputs();
  const std::lock_guard lock(all.mutex);
  all.tensors.emplace(all.next, tensors.vec());
  return all.next++;
}

std::vector<at::Tensor> take_held_inputs(int64_t held) {
  Held& all = held_inputs();
  const std::lock_guard lock(all.mutex);
  auto found = all.tensors.extract(held);
  TORCH_CHECK(!found.empty(), "tilefuse: no tensors are held under ", held);
  return std::move(found.mapped());
}

}  // namespace tilefuse
