// What a GPU runs for a region: one kernel, or a few that hand each other buffers.
//
//   Result<GpuPlan> plan = plan_gpu(tile_graph, load_gpu_target("cuda-sm80"));
//
// Axes are prepared (gpu_axes.h), every kernel is solved: as rows (gpu_solve.h) or, where it is a product
// that tensor cores compute (gpu_product.h) and that is predicted to be quicker, as tiles of that
// (gpu_product_solve.h); two products with what lies between them are a chain (gpu_chain.h). A reduction,
// that of a product, too, is split where that is predicted to be quicker (gpu_split.h), and so are reductions
// behind each other (gpu_cascade.h) and scans (gpu_scan_parts.h); what a chain only reads of other reductions
// is a kernel in front of it (gpu_apart.h).
// A pin `parts = 16` decides that, `kernel = product`, `kernel = chain` or `kernel = rows` the kind; a
// decision that only one kind has decides the kind, too. Other pins hold for every kernel that has the
// decision. Unsupported: the reason of the first kernel that cannot be made, or a long row that a library
// scans quicker.
#pragma once
#include <variant>

#include "fusion/gpu_chain_solve.h"
#include "fusion/gpu_product_solve.h"
#include "fusion/gpu_solve.h"

namespace tilefuse {

using GpuNestSchedule = std::variant<GpuSchedule, GpuProductSchedule, GpuChainSchedule>;

struct GpuNest {
  TileGraph graph;  // an output that the region does not have is an input of a later nest, of the same name
  GpuNestSchedule schedule;
  std::string why_no_product;  // of a contraction that is computed as rows all the same
};

struct GpuPlan {
  std::vector<GpuNest> nests;
  double cost_us = 0;
};

Result<GpuPlan> plan_gpu(const TileGraph& graph, const GpuTarget& target, const Pins& pins = {},
                         const SizeHints& hints = {});

std::string to_text(const GpuNest& nest);
// Of either kind. UserError: with the line, or with what the graph is not.
GpuNest parse_gpu_nest(std::string_view text, const TileGraph& graph);
std::vector<std::string> check_gpu_nest(const GpuNest& nest, const GpuTarget& target);

double cost_us(const GpuNestSchedule& schedule);
const std::vector<CostTerm>& cost_of(const GpuNestSchedule& schedule);

}  // namespace tilefuse
