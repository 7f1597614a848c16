// Split reductions: partial launches write their accumulators to workspaces, the combining launch adds them
// up in the order of the parts, whatever the number of threads.
#include <algorithm>

#include "codegen/launch_lowering.h"
#include "codegen/spell_reduce.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr CodeType kIndexType{DType::I64, CodeShape::Scalar};

}  // namespace

// The element of a part: [part][parallel axes], row-major, parallel lanes last. "part" is bound where this is
// called.
LaunchLowering::Address LaunchLowering::workspace_address(size_t workspace, TileValueId carried) {
  const Workspace& facts = facts_.workspaces[workspace];
  const size_t slot = graph_.buffers.size() + workspace;
  const std::string name = name_of(carried) + "_parts";
  const std::string key = "buffer " + std::to_string(slot);
  if (scopes_.find(key) == nullptr) {
    const CodeType type{facts.dtype, CodeShape::Pointer};
    const Code base = subscript(reference(kBuffers), integer(static_cast<int64_t>(slot)));
    scopes_.remember(key, {scopes_.let(0, name, type, {PointerCast{type, {base, integer(0)}}}), 0, false});
  }
  Expr offset = Expr::symbol("part number", {.low = 0});
  std::vector<AxisId> axes = structure_.parallel;
  std::ranges::stable_partition(axes, [&](AxisId axis) { return axis != schedule_.lane_axis; });
  for (const AxisId axis : axes) {
    offset = offset * facts_.extents[axis.index] + Expr::index(static_cast<int>(axis.index));
  }
  return address({scopes_.find(key)->code, name, at_copy(offset), nullptr, scopes_.depth()}, {});
}

void LaunchLowering::store_partials() {
  scopes_.blank();
  const Copies outside = copies_;
  for (size_t i = 0; i < structure_.reductions.size(); ++i) {
    for (copies_.row = 0; copies_.row < outside.rows; ++copies_.row) {
      for (copies_.lane = 0; copies_.lane < outside.lanes; ++copies_.lane) {
        const Computed partial = value(structure_.reductions[i]);
        store_at(workspace_address(i, structure_.reductions[i]), partial,
                 {.dtype = facts_.workspaces[i].dtype});
      }
    }
  }
  copies_ = outside;
}

void LaunchLowering::combine_partials() {
  struct Sum {
    size_t workspace;
    Copies copies;
    Code variable;
    ReduceSpelling spelling;
    Computed result;
  };
  std::vector<Sum> sums;
  const Copies outside = copies_;
  const bool is_vector = facts_.lanes_are_parallel;
  for (size_t i = 0; i < structure_.reductions.size(); ++i) {
    const TileValueId id = structure_.reductions[i];
    for (copies_.row = 0; copies_.row < outside.rows; ++copies_.row) {
      for (copies_.lane = 0; copies_.lane < outside.lanes; ++copies_.lane) {
        ReduceSpelling spelling = spelling_of(id);
        Code initial = spelling.identity;
        if (is_vector) initial = call("splat", {initial}, {spelling.types[0]});
        const Code variable = scopes_.var(name_of(id) + copy_suffix(id), type_of(id, is_vector), initial);
        const Computed& result = scopes_.remember(value_key(id), {variable, scopes_.depth(), is_vector});
        sums.push_back({i, copies_, variable, std::move(spelling), result});
      }
    }
  }
  const SymbolId part = scopes_.symbol("part", kIndexType);
  scopes_.open();
  scopes_.remember("size part number", {reference(part), scopes_.depth(), false});
  for (const Sum& sum : sums) {
    copies_ = sum.copies;
    const Code element =
        plain_load(workspace_address(sum.workspace, structure_.reductions[sum.workspace]), is_vector);
    const bool has_operator = sum.spelling.op.has_value();
    scopes_.add({Assign{sum.variable, sum.spelling.op,
                        has_operator ? element : call(sum.spelling.combine, {sum.variable, element})},
                 ""});
  }
  copies_ = outside;
  scopes_.add({For{part, integer(0), integer(schedule_.split), 1, "", scopes_.close(), 1}, ""});
}

}  // namespace tilefuse
