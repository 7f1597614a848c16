#include "torch_ext/packs.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "torch_ext/pool.h"

namespace tilefuse {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// Inference tensors count no versions.
int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0
                               : int64_t(tensor.unsafeGetTensorImpl()->version_counter().current_version());
}

// What makes two packs of one layout the same.
struct PackOrigin {
  const c10::StorageImpl* storage;
  const void* data;
  int64_t version;
  auto operator<=>(const PackOrigin&) const = default;
};

PackOrigin origin_of(const at::Tensor& source, const void* data) {
  return {source.storage().unsafeGetStorageImpl(), data, version_of(source)};
}

}  // namespace

class PackedConstant {
 public:
  PackedConstant(const at::Tensor& source, const PackOrigin& made_of, size_t size)
      : origin(made_of),
        storage(source.storage().getWeakStorageImpl()),
        bytes(size),
        memory(pool_allocator()->allocate(size)) {}

  // An older version.
  bool is_outdated_by(const PackOrigin& other) const {
    return origin.storage == other.storage && origin.data == other.data;
  }

  const PackOrigin origin;
  const WeakStorage storage;  // as long as it is held, no other storage has this address
  const size_t bytes;
  const c10::DataPtr memory;
};

const void* data_of(const PackedConstant& pack) { return pack.memory.get(); }

namespace {

// All packs that somebody holds. Never destroyed: graphs may outlive static destruction.
class AllPacks {
 public:
  static AllPacks& instance() {
    static auto* all = new AllPacks;
    return *all;
  }

  std::shared_ptr<const PackedConstant> find_or_make(const at::Tensor& source, const PackOrigin& origin,
                                                     size_t bytes, const std::string& layout,
                                                     const std::function<void(void*)>& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(packs_, [](const auto& entry) { return entry.second.expired(); });
    const Key key{origin, layout};
    if (const auto found = packs_.find(key); found != packs_.end()) {
      if (auto pack = found->second.lock()) return pack;
    }
    auto pack = std::make_shared<const PackedConstant>(source, origin, bytes);
    make(pack->memory.get());
    packs_.insert_or_assign(key, pack);
    return pack;
  }

  PackStats stats() {
    const std::lock_guard lock(mutex_);
    PackStats stats;
    for (const auto& [key, weak] : packs_) {
      const auto pack = weak.lock();
      if (!pack) continue;
      ++stats.packs;
      stats.bytes += int64_t(pack->bytes);
    }
    return stats;
  }

 private:
  using Key = std::pair<PackOrigin, std::string>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const PackedConstant>> packs_;
};

}  // namespace

namespace {

// Who may hold packs. Its lock is taken before that of a holder, never inside.
class Holders {
 public:
  static Holders& instance() {
    static auto* all = new Holders;
    return *all;
  }
  void add(OperandPacks* holder) {
    const std::lock_guard lock(mutex_);
    holders_.insert(holder);
  }
  void remove(OperandPacks* holder) {
    const std::lock_guard lock(mutex_);
    holders_.erase(holder);
  }
  void each(void (OperandPacks::*action)()) {
    const std::lock_guard lock(mutex_);
    for (OperandPacks* holder : holders_) (holder->*action)();
  }

 private:
  std::mutex mutex_;
  std::set<OperandPacks*> holders_;
};

}  // namespace

PackStats pack_stats() {
  Holders::instance().each(&OperandPacks::forget_the_dead);
  return AllPacks::instance().stats();
}
void forget_all_packs() { Holders::instance().each(&OperandPacks::forget); }

OperandPacks::OperandPacks(std::string layout, size_t bytes) : layout_(std::move(layout)), bytes_(bytes) {
  Holders::instance().add(this);
}

OperandPacks::~OperandPacks() { Holders::instance().remove(this); }

std::shared_ptr<const PackedConstant> OperandPacks::find(const at::Tensor& source, const void* data,
                                                         const std::function<void(void*)>& make) {
  const PackOrigin origin = origin_of(source, data);
  const auto known = [&]() -> std::shared_ptr<const PackedConstant> {
    for (const auto& pack : held_) {
      if (pack->origin == origin) return pack;
    }
    return nullptr;
  };
  {
    const std::shared_lock lock(mutex_);
    if (auto pack = known()) return pack;
  }
  Holders::instance().each(&OperandPacks::forget_the_dead);
  const std::unique_lock lock(mutex_);
  if (auto pack = known()) return pack;
  std::erase_if(held_, [&](const auto& pack) { return pack->is_outdated_by(origin); });
  held_.push_back(AllPacks::instance().find_or_make(source, origin, bytes_, layout_, make));
  return held_.back();
}

void OperandPacks::forget_the_dead() {
  const std::unique_lock lock(mutex_);
  std::erase_if(held_, [](const auto& pack) { return pack->storage.expired(); });
}

void OperandPacks::forget() {
  const std::unique_lock lock(mutex_);
  held_.clear();
}

}  // namespace tilefuse
