#include "codegen/region_executable.h"

#include <set>
#include <string>

#include "codegen/memory_plan.h"
#include "codegen/size_program.h"

namespace tilefuse {
namespace {

// What kernels and outputs are sized by that no dimension of an input gives.
std::vector<Expr> unbound_sizes(const CompiledRegion& region) {
  std::vector<SymbolBinding> bindings;
  std::set<std::string> known;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const auto& sizes = region.inputs[i].sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const auto binding = bind_symbol(sizes[d], int(i), int(d), bindings);
      if (!binding) continue;
      bindings.push_back(*binding);
      known.insert(binding->symbol);
    }
  }
  std::vector<Expr> unbound;
  const auto add = [&](const std::vector<Expr>& sizes) {
    for (const Expr& size : sizes) {
      for (const std::string& symbol : symbols_of(size)) {
        if (known.insert(symbol).second) unbound.push_back(Expr::symbol(symbol));
      }
    }
  };
  add(region.program.sizes);
  for (const TensorSpec& output : region.outputs) {
    add(output.sizes);
    add(output.strides);
  }
  return unbound;
}

}  // namespace

Executable region_executable(const CompiledRegion& region, const Place& place) {
  Executable executable;
  executable.name = region.name;
  executable.place = place;
  executable.regions = {region};
  LaunchRegion launch;
  const auto add = [&](TensorSpec spec, Home home) {
    executable.slots.push_back({std::move(spec), std::move(home)});
    return SlotId{uint32_t(executable.slots.size() - 1)};
  };
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    launch.inputs.push_back(add(region.inputs[i], InputHome{int(i)}));
    executable.inputs.push_back({launch.inputs.back()});
  }
  for (const Expr& size : unbound_sizes(region)) executable.inputs.push_back({size});
  for (const TensorSpec& output : region.outputs) {
    launch.outputs.push_back(add(output, BlockHome{}));
    executable.outputs.emplace_back(launch.outputs.back());
  }
  std::vector<ArenaRequest> requests;
  for (const Workspace& workspace : region.program.workspaces) {
    const TensorSpec spec{"workspace", workspace.dtype, {workspace.elements}, {Expr(1)}};
    requests.push_back({workspace.elements * int64_t(size_in_bytes(workspace.dtype)), 0, 0});
    launch.workspaces.push_back(add(spec, place.is_gpu() ? Home(BlockHome{}) : Home(ArenaHome{})));
  }
  if (place.is_gpu()) requests.clear();
  const ArenaPlan arena = plan_arena(requests);
  for (size_t w = 0; w < requests.size(); ++w) {
    executable.slots[launch.workspaces[w].index].home = ArenaHome{arena.offsets[w]};
  }
  executable.arena_bytes = arena.bytes;
  executable.instructions.emplace_back(std::move(launch));
  return executable;
}

}  // namespace tilefuse
