// Packs of constants in this process: made when they are first wanted, shared by all that want the same.
//
// A pack is of a storage, from an address in it, in a version of its tensor, in a layout. Where any of these
// is another at a later call, there is another pack: what counts versions is packed again when it has
// changed. Writes that count none (through `tensor.data`, numpy, or in inference mode) are not seen.
//
// Who uses a pack holds it; it goes with its last holder. A pack whose storage is gone goes when the next one
// is made, or when somebody counts them.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

namespace tilefuse {

struct PackStats {
  int64_t packs = 0, bytes = 0;
};
PackStats pack_stats();
void forget_all_packs();  // what is wanted from now on is packed again

class PackedConstant;  // with its memory

// The packs of one operand of a kernel, one for each storage that was given. Safe from any thread.
class OperandPacks {
 public:
  OperandPacks(std::string layout, size_t bytes);
  OperandPacks(const OperandPacks&) = delete;
  OperandPacks& operator=(const OperandPacks&) = delete;
  ~OperandPacks();

  // Of what lies at `data`, in the storage of `source`; `make` writes it.
  std::shared_ptr<const PackedConstant> find(const at::Tensor& source, const void* data,
                                             const std::function<void(void* packed)>& make);
  void forget();
  void forget_the_dead();  // those whose storage is gone

 private:
  std::string layout_;
  size_t bytes_;
  std::shared_mutex mutex_;
  std::vector<std::shared_ptr<const PackedConstant>> held_;
};

const void* data_of(const PackedConstant& pack);

}  // namespace tilefuse
