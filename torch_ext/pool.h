// Memory for outputs and arenas. Freed blocks keep their pages: a fresh large block costs several times the
// kernel that fills it, in page faults.
//
// Blocks are 64-byte aligned, in size classes a quarter of a power of two apart, and begin at changing places
// of their pages (memory_plan.h says why); large ones ask for huge pages. What is freed beyond the bound goes
// back to the system. Safe from any thread; never destroyed, since tensors may outlive static destruction.
#pragma once
#include <c10/core/Allocator.h>

#include <cstdint>

namespace tilefuse {

struct PoolStats {
  int64_t held_bytes = 0;   // freed by tensors, kept for the next
  int64_t used_bytes = 0;   // in tensors
  int64_t bound_bytes = 0;  // of held_bytes
};

c10::Allocator* pool_allocator();

// While one lives, large tensors that the framework allocates on the CPU in this thread come from the pool,
// too: its own allocator would get fresh pages for a result of tens of megabytes at each call, whose faults
// may cost more than a convolution. The first one puts an allocator in the place of the framework's, which
// hands on what no such object asks for.
class PooledAllocations {
 public:
  PooledAllocations();
  ~PooledAllocations();
  PooledAllocations(const PooledAllocations&) = delete;
  PooledAllocations& operator=(const PooledAllocations&) = delete;

 private:
  bool outer_;  // whether another one lived
};
PoolStats pool_stats();
void set_pool_bound(int64_t bytes);
int64_t trim_pool();  // bytes given back

}  // namespace tilefuse
