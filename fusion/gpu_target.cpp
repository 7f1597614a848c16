#include "fusion/gpu_target.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/result.h"
#include "fusion/profile_reader.h"
#include "fusion/target_profiles.h"

namespace tilefuse {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

constexpr std::array<std::pair<const char*, double GpuTarget::*>, 5> kRatesOfSm90a = {
    {{"warpgroup_flops_per_cycle", &GpuTarget::warpgroup_flops_per_cycle},
     {"warpgroup_tf32_flops_per_cycle", &GpuTarget::warpgroup_tf32_flops_per_cycle},
     {"warpgroup_int8_flops_per_cycle", &GpuTarget::warpgroup_int8_flops_per_cycle},
     {"warpgroup_float8_flops_per_cycle", &GpuTarget::warpgroup_float8_flops_per_cycle},
     {"bulk_copy_gbs", &GpuTarget::bulk_copy_gbs}}};

void read_limits(const ProfileReader& profile, GpuTarget& target) {
  const auto number = [&](const char* name, int64_t low, int64_t high) {
    return static_cast<int>(profile.integer(name, low, high));
  };
  target.multiprocessors = number("multiprocessors", 1, 4096);
  target.threads_per_block = number("threads_per_block", kWarpThreads, 1024);
  target.threads_per_multiprocessor = number("threads_per_multiprocessor", target.threads_per_block, 4096);
  target.blocks_per_multiprocessor = number("blocks_per_multiprocessor", 1, 64);
  target.registers_per_multiprocessor = number("registers_per_multiprocessor", 1 << 14, 1 << 18);
  target.registers_per_thread = number("registers_per_thread", 32, 255);
  target.shared_bytes_per_block = profile.integer("shared_bytes_per_block", kDeclaredSharedBytes, 1 << 18);
  target.shared_bytes_reserved = profile.integer("shared_bytes_reserved", 0, 1 << 14);
  target.shared_bytes_per_multiprocessor =
      profile.integer("shared_bytes_per_multiprocessor",
                      target.shared_bytes_per_block + target.shared_bytes_reserved, 1 << 19);
  target.l2_bytes = profile.integer("l2_bytes", 1 << 20, kGiB);
}

void read_clusters(const ProfileReader& profile, GpuTarget& target) {
  if (!profile.json.contains("most_cluster_blocks")) return;
  target.most_cluster_blocks = static_cast<int>(profile.integer("most_cluster_blocks", 2, 8));
  target.cluster_meeting_us = profile.quantity("cluster_meeting_us");
}

void read_rates(const ProfileReader& profile, GpuTarget& target) {
  target.clock_ghz = profile.quantity("clock_ghz");
  target.memory_gbs = profile.quantity("memory_gbs");
  target.memory_peak_gbs = profile.quantity("memory_peak_gbs");
  target.l2_gbs = profile.quantity("l2_gbs");
  target.memory_latency_ns = profile.quantity("memory_latency_ns");
  target.matrix_flops_per_cycle = profile.quantity("matrix_flops_per_cycle");
  for (const auto& [name, rate] : {std::pair{"tf32_flops_per_cycle", &target.tf32_flops_per_cycle},
                                   std::pair{"int8_flops_per_cycle", &target.int8_flops_per_cycle},
                                   std::pair{"float8_flops_per_cycle", &target.float8_flops_per_cycle}}) {
    if (profile.json.contains(name)) *rate = profile.quantity(name);
  }
  for (const auto& [name, rate] : kRatesOfSm90a) {
    if (!profile.json.contains(name)) continue;
    target.*rate = profile.quantity(name);
    if (target.architecture != "sm_90a")
      profile.fail(name, "is of sm_90a, and the architecture is " + target.architecture);
  }
  if (profile.json.contains("library_chain_share"))
    target.library_chain_share = profile.quantity("library_chain_share");
  target.shared_bytes_per_cycle = profile.quantity("shared_bytes_per_cycle");
  target.shuffle_cycles = profile.quantity("shuffle_cycles");
  target.barrier_cycles = profile.quantity("barrier_cycles");
  target.launch_us = profile.quantity("launch_us");
}

}  // namespace

void leave_to_other_devices(GpuTarget& target) {
  for (const auto& [name, rate] : kRatesOfSm90a) target.*rate = 0;
  target.most_cluster_blocks = 1;
}

GpuTarget parse_gpu_target(std::string_view json, const std::string& origin) {
  const nlohmann::json document = nlohmann::json::parse(json, nullptr, false);
  if (document.is_discarded()) throw UserError(origin + ": not JSON");
  if (!document.is_object()) throw UserError(origin + ": a target profile is a JSON object");
  const ProfileReader profile{document, origin};
  GpuTarget target;
  target.name = profile.text("name");
  const std::string kind = profile.text("kind");
  if (kind != "cuda") profile.fail("kind", "must be \"cuda\", got \"" + kind + "\"");
  target.architecture = profile.text("architecture");
  if (!target.architecture.starts_with("sm_")) {
    profile.fail("architecture",
                 "must be as the compiler calls it, \"sm_80\", got \"" + target.architecture + "\"");
  }
  read_limits(profile, target);
  read_rates(profile, target);
  read_clusters(profile, target);
  return target;
}

GpuTarget load_gpu_target(const std::string& name_or_path) {
  return parse_gpu_target(profile_text("GPU target", embedded_gpu_profiles(), name_or_path), name_or_path);
}

std::vector<std::string> gpu_target_names() { return names_of(embedded_gpu_profiles()); }

}  // namespace tilefuse
