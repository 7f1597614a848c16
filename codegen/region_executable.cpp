#include "codegen/region_executable.h"

#include <algorithm>

#include "codegen/memory_plan.h"
#include "codegen/size_program.h"

namespace tilefuse {
namespace {

// What kernels and outputs are sized by that no dimension of an input gives.
std::vector<Expr> unbound_sizes(const CompiledRegion& region) {
  std::vector<SymbolBinding> bindings;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const auto& sizes = region.inputs[i].sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (auto binding = bind_symbol(sizes[d], int(i), int(d), bindings)) bindings.push_back(*binding);
    }
  }
  std::vector<Expr> unbound;
  const auto add = [&](const Expr& size) {
    for (const std::string& symbol : symbols_of(size)) {
      const bool is_bound = std::any_of(bindings.begin(), bindings.end(), [&](const SymbolBinding& binding) {
        return binding.symbol == symbol;
      });
      const Expr given = Expr::symbol(symbol);
      if (!is_bound && std::find(unbound.begin(), unbound.end(), given) == unbound.end()) {
        unbound.push_back(given);
      }
    }
  };
  std::for_each(region.program.sizes.begin(), region.program.sizes.end(), add);
  for (const TensorSpec& output : region.outputs) {
    std::for_each(output.sizes.begin(), output.sizes.end(), add);
    std::for_each(output.strides.begin(), output.strides.end(), add);
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
