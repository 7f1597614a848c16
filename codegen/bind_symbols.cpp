#include "codegen/bind_symbols.h"

namespace tilefuse {

std::vector<SymbolBinding> bind_symbols(const Executable& executable) {
  std::vector<SymbolBinding> bindings;
  const auto bind = [&](const Expr& size, size_t position, int dim) {
    if (auto binding = bind_symbol(size, int(position), dim, bindings)) bindings.push_back(*binding);
  };
  for (size_t position = 0; position < executable.inputs.size(); ++position) {
    if (const auto* size = std::get_if<Expr>(&executable.inputs[position].value)) bind(*size, position, -1);
  }
  for (size_t position = 0; position < executable.inputs.size(); ++position) {
    const auto* slot = std::get_if<SlotId>(&executable.inputs[position].value);
    if (slot == nullptr) continue;
    const auto& sizes = executable[*slot].spec.sizes;
    for (size_t dim = 0; dim < sizes.size(); ++dim) bind(sizes[dim], position, int(dim));
  }
  return bindings;
}

}  // namespace tilefuse
