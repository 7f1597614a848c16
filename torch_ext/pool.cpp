#include "torch_ext/pool.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "codegen/memory_plan.h"

namespace tilefuse {
namespace {

constexpr size_t kAlign = 64, kHugePage = size_t{2} << 20, kPage = 4096;
constexpr int kClasses = 256;
constexpr int kRoomierClasses = 4;  // up to twice as large
// Of a new block: one in so many bytes of smaller ones stays free beside it.
constexpr int64_t kShareBeside = 4;
constexpr size_t kLeastStaggered = 4 * kPage;  // the page that it costs is a small share

// What the pool knows of a block, apart from it: in front of the data it would push a power of two, the most
// common size, into the next class and onto one more page.
struct Block {
  void* memory;
  void* data;  // in it
  size_t bytes;
  int size_class;
  size_t mapped_bytes;  // 0: from the C library
};

// From the system itself where it is large: a C library keeps what it is given back. Nullptr: there is none.
// Whole huge pages begin at the first that lies in it, and `data` there.
struct Memory {
  void* memory = nullptr;
  void* data = nullptr;
  size_t mapped_bytes = 0;
};
Memory map_huge(size_t bytes) {
  const size_t mapped = bytes + kHugePage;
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  void* data = static_cast<char*>(memory) + (kHugePage - address % kHugePage) % kHugePage;
  ::madvise(data, bytes, MADV_HUGEPAGE);  // advice: its refusal costs speed alone
  return {memory, data, mapped};
}
Memory take_memory(size_t bytes, size_t align) {
  if (bytes >= kHugePage) return map_huge(bytes);
  void* memory = nullptr;
  if (::posix_memalign(&memory, align, bytes) != 0) return {};
  return {memory, memory, 0};
}

// Four classes to a power of two: class 4*e + q holds blocks of (4 + q) << (e - 2) bytes.
int class_of(size_t bytes) {
  bytes = std::max(bytes, size_t{256});
  const int exponent = int(std::bit_width(bytes - 1)) - 1;
  const size_t step = size_t{1} << (exponent - 2);
  const auto quarter = int((bytes + step - 1) / step) - 4;
  return 4 * exponent + quarter;
}
size_t bytes_of_class(int size_class) { return size_t(4 + size_class % 4) << (size_class / 4 - 2); }

int64_t default_bound() {
  const auto ram = int64_t(::sysconf(_SC_PHYS_PAGES)) * int64_t(::sysconf(_SC_PAGESIZE));
  return std::min(ram / 8, int64_t{2} << 30);
}

class Pool final : public c10::Allocator {
 public:
  static Pool& instance() {
    static auto* pool = new Pool;  // never destroyed
    return *pool;
  }

  c10::DataPtr allocate(size_t wanted) override { return given(wanted, 0); }
  // For a call of the framework, which gives it back before long: what one call used and the next finds too
  // small would stay beside what that one gets.
  c10::DataPtr allocate_for_a_while(size_t wanted) { return given(wanted, kRoomierClasses); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  PoolStats stats() {
    const std::lock_guard lock(mutex_);
    return {held_, used_, bound_};
  }
  void set_bound(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    bound_ = bytes;
    drop_beyond(bytes);
  }
  int64_t trim() {
    const std::lock_guard lock(mutex_);
    const int64_t before = held_;
    drop_beyond(0);
    return before;
  }

 private:
  c10::DataPtr given(size_t wanted, int roomier) {
    const int size_class = class_of(wanted);
    Block* block = pop(size_class, roomier);
    if (block == nullptr && roomier > 0) drop_smaller(size_class);
    if (block == nullptr) block = fresh(size_class);
    return {block->data, block, &Pool::release, c10::Device(c10::kCPU)};
  }

  // The smallest free block of this class or one of the next `roomier`; its number, or kClasses.
  int free_class(int size_class, int roomier) const {
    const int last = std::min(size_class + roomier, kClasses - 1);
    for (int c = size_class; c <= last; ++c) {
      if (!free_[size_t(c)].empty()) return c;
    }
    return kClasses;
  }

  Block* pop(int size_class, int roomier) {
    const std::lock_guard lock(mutex_);
    const int found = free_class(size_class, roomier);
    used_ += int64_t(bytes_of_class(found < kClasses ? found : size_class));
    if (found == kClasses) return nullptr;
    auto& blocks = free_[size_t(found)];
    Block* block = blocks.back();
    blocks.pop_back();
    held_ -= int64_t(block->bytes);
    return block;
  }

  // The largest of those that are smaller, until a share of what comes is left.
  void drop_smaller(int size_class) {
    const std::lock_guard lock(mutex_);
    int64_t smaller = 0;
    for (int c = 0; c < size_class; ++c) smaller += int64_t(free_[size_t(c)].size() * bytes_of_class(c));
    const int64_t kept = int64_t(bytes_of_class(size_class)) / kShareBeside;
    drop(size_class - 1, smaller - kept);
  }

  Block* fresh(int size_class) {
    const size_t bytes = bytes_of_class(size_class);
    const bool staggered = bytes >= kLeastStaggered;
    const auto [memory, data, mapped] =
        take_memory(bytes + (staggered ? kPage : 0), staggered ? kPage : kAlign);
    if (memory == nullptr) {
      const std::lock_guard lock(mutex_);
      used_ -= int64_t(bytes);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "tilefuse: cannot allocate ", bytes, " bytes");
    }
    const size_t place = staggered ? place_in_page(++places_) : 0;
    return new Block{memory, static_cast<char*>(data) + place, bytes, size_class, mapped};
  }

  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    Pool& pool = instance();
    const std::lock_guard lock(pool.mutex_);
    const auto bytes = int64_t(block->bytes);
    pool.used_ -= bytes;
    if (bytes > pool.bound_) {
      destroy(block);
      return;
    }
    pool.drop_beyond(pool.bound_ - bytes);
    pool.held_ += bytes;
    pool.free_[size_t(block->size_class)].push_back(block);
  }

  static void destroy(Block* block) {
    if (block->mapped_bytes > 0) {
      ::munmap(block->memory, block->mapped_bytes);
    } else {
      std::free(block->memory);  // NOLINT(cppcoreguidelines-no-malloc): of posix_memalign
    }
    delete block;
  }

  // Largest blocks first: they are the fewest and the dearest to hold.
  void drop_beyond(int64_t bytes) { drop(kClasses - 1, held_ - bytes); }
  void drop(int largest_class, int64_t bytes) {
    for (int c = largest_class; c >= 0 && bytes > 0; --c) {
      auto& blocks = free_[size_t(c)];
      while (!blocks.empty() && bytes > 0) {
        bytes -= int64_t(blocks.back()->bytes);
        held_ -= int64_t(blocks.back()->bytes);
        destroy(blocks.back());
        blocks.pop_back();
      }
    }
  }

  std::mutex mutex_;
  std::array<std::vector<Block*>, kClasses> free_;  // by size class
  int64_t held_ = 0, used_ = 0, bound_ = default_bound();
  std::atomic<size_t> places_ = 0;  // that blocks had in their pages (see kStaggerBytes)
};

constexpr size_t kLeastPooled = size_t{256} << 10;  // a C library keeps what is smaller

thread_local bool pools_allocations = false;

// Blocks of the pool by their data. oneDNN's memory is asked for and given back by address alone.
class GivenBlocks {
 public:
  static GivenBlocks& instance() {
    static auto* blocks = new GivenBlocks;  // never destroyed
    return *blocks;
  }
  void add(void* data, c10::DataPtr block) {
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, std::move(block));
  }
  // Whether there was one.
  bool release(void* data) {
    c10::DataPtr block;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return false;
    block = std::move(found->second);
    blocks_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, c10::DataPtr> blocks_;
};

c10::Allocator* usual_allocator = nullptr;  // set once, before the one below is in its place

class LargeFromPool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t wanted) override {
    if (!pools_allocations || wanted < kLeastPooled) return usual_allocator->allocate(wanted);
    c10::DataPtr block = Pool::instance().allocate_for_a_while(wanted);
    void* data = block.get();
    GivenBlocks::instance().add(data, std::move(block));
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    usual_allocator->copy_data(to, from, bytes);
  }

 private:
  static void release(void* data) {
    if (!GivenBlocks::instance().release(data)) usual_allocator->raw_deleter()(data);
  }
};

void stand_in_for_the_usual() {
  static std::once_flag once;
  std::call_once(once, [] {  // never destroyed, as the pool
    usual_allocator = c10::GetAllocator(c10::kCPU);
    if (usual_allocator->raw_deleter() != nullptr) c10::SetAllocator(c10::kCPU, new LargeFromPool);
  });
}

}  // namespace

PooledAllocations::PooledAllocations() : outer_(pools_allocations) {
  stand_in_for_the_usual();
  pools_allocations = true;
}
PooledAllocations::~PooledAllocations() { pools_allocations = outer_; }

c10::Allocator* pool_allocator() { return &Pool::instance(); }
PoolStats pool_stats() { return Pool::instance().stats(); }
void set_pool_bound(int64_t bytes) { Pool::instance().set_bound(bytes); }
int64_t trim_pool() { return Pool::instance().trim(); }

}  // namespace tilefuse
