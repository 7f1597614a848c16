// A hardware profile of a GPU: every number that the constraints and the cost of GPU schedules use, with unit
// and source, read from configs/targets/cuda-<architecture>.json (embedded in the library; a path works,
// too). Devices of one architecture may have several.
//
//   GpuTarget target = load_gpu_target("cuda-sm90a");
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

constexpr int kWarpThreads = 32;                // of every NVIDIA GPU
constexpr int kGroupWarps = 4;                  // of a warpgroup
constexpr int kSectorBytes = 32;                // that memory is read and written by
constexpr int kAccessBytes = 16;                // the widest access of one thread
constexpr int kDeclaredSharedBytes = 48 << 10;  // that a kernel may declare; more is given at the launch
constexpr int kGpuAlignment = 16;               // bytes that the first element of every buffer is aligned to

struct GpuTarget {
  std::string name;          // "cuda-sm80"
  std::string architecture;  // "sm_80", as the compiler calls it
  int multiprocessors = 1;
  double clock_ghz = 1;
  int threads_per_block = 1024;
  int threads_per_multiprocessor = 2048, blocks_per_multiprocessor = 32;
  int registers_per_multiprocessor = 65536, registers_per_thread = 255;
  // Of shared memory: what a block may have, declared or given at the launch; what each takes beside that.
  int64_t shared_bytes_per_block = 48 << 10, shared_bytes_reserved = 1 << 10;
  int64_t shared_bytes_per_multiprocessor = 100 << 10;
  int64_t l2_bytes = 1 << 20;
  double memory_gbs = 1, l2_gbs = 1;  // GB/s of a copy, read and written bytes together
  double memory_peak_gbs = 1;         // of the memory itself, as the driver's numbers say
  double memory_latency_ns = 500;
  double matrix_flops_per_cycle = 1024;  // of 16-bit floats on tensor cores, by one multiprocessor
  // The same of other numbers (matrix_numbers.h); 0: there are none.
  double tf32_flops_per_cycle = 0, int8_flops_per_cycle = 0, float8_flops_per_cycle = 0;
  bool rounds_to_tf32 = false;  // what the user allows, not the device: factors of f32
  // The same by instructions of warpgroups; 0: there are none. Only the architecture sm_90a has them, which
  // no other device runs, newer ones included.
  double warpgroup_flops_per_cycle = 0;
  // And of the other numbers.
  double warpgroup_tf32_flops_per_cycle = 0, warpgroup_int8_flops_per_cycle = 0,
         warpgroup_float8_flops_per_cycle = 0;
  // From the cache by copies that the machine makes by tensor maps, for the instructions of warpgroups; 0:
  // there are none.
  double bulk_copy_gbs = 0;
  // Of the quicker of these rates, what the framework's kernels of several products in one call (gradients of
  // attention) reach; 0: not known.
  double library_chain_share = 0;
  double shared_bytes_per_cycle = 128;  // by one multiprocessor
  // Blocks of a cluster, which run together and come at each other's shared memory; 1: there are none. And
  // what all of its threads take to meet.
  int most_cluster_blocks = 1;
  double cluster_meeting_us = 0;
  double shuffle_cycles = 25, barrier_cycles = 40;
  double launch_us = 3;
};

// As another device has it that is planned for with these numbers: without what is said of this one only.
void leave_to_other_devices(GpuTarget& target);

GpuTarget parse_gpu_target(std::string_view json, const std::string& origin);  // UserError: file and field
GpuTarget load_gpu_target(const std::string& name_or_path);
std::vector<std::string> gpu_target_names();  // embedded ones

}  // namespace tilefuse
