#include "fusion/gpu_plan.h"

#include <algorithm>
#include <array>

#include "core/match.h"
#include "fusion/contraction.h"
#include "fusion/cost_text.h"
#include "fusion/decision_variables.h"
#include "fusion/gpu_apart.h"
#include "fusion/gpu_axes.h"
#include "fusion/gpu_carried.h"
#include "fusion/gpu_cascade.h"
#include "fusion/gpu_scan_parts.h"
#include "fusion/gpu_split.h"
#include "fusion/reduce_in_parts.h"

namespace tilefuse {
namespace {

constexpr std::array kParts = {1, 8, 32, 128, 512};
constexpr std::array kRowsOfBlock = {8, 16, 32, 64, 128};  // that hand on what is reduced across them
// Over a copy: a library scans a single row in parts, one of 2^24 f32 in this time on an H200; several rows
// by a block or so for each, 8 of 128256 at a hundredth of the bandwidth, 4096 columns at a fiftieth.
constexpr double kMostOfScan = 1.5;
constexpr double kLaunchesOfOthers = 3;  // that a short scan saves by what it is fused with
// Prices of one walk and of several kernels are that far apart before the latter are believed.
constexpr double kMarginOfParts = 1.1;

enum class Kind : uint8_t { Any, Rows, Product, Chain };

// Takes the pin out.
Kind pinned_kind(Pins& pins) {
  const auto pin = pins.decisions.extract("kernel");
  if (!pin.empty()) {
    if (pin.mapped() == "rows") return Kind::Rows;
    if (pin.mapped() == "product") return Kind::Product;
    if (pin.mapped() == "chain") return Kind::Chain;
    throw UserError("pin kernel = " + pin.mapped() +
                    ": a kernel is one of rows, of a product or of a chain of products");
  }
  const bool has_chain = std::any_of(pins.decisions.begin(), pins.decisions.end(),
                                     [](const auto& p) { return is_chain_decision(p.first); });
  if (has_chain) return Kind::Chain;
  const bool has_product = std::any_of(pins.decisions.begin(), pins.decisions.end(),
                                       [](const auto& p) { return is_product_decision(p.first); });
  return has_product ? Kind::Product : pins.decisions.empty() ? Kind::Any : Kind::Rows;
}

double judged_us(const GpuNest& nest) {
  return match(
      nest.schedule, [](const GpuSchedule& rows) { return judged_us(rows); },
      [](const GpuProductSchedule& product) { return judged_us(product.cost_us, product.numbers); },
      [](const GpuChainSchedule& chain) { return chain.cost_us; });
}

double judged_us(const GpuPlan& plan) {
  double us = 0;
  for (const GpuNest& nest : plan.nests) us += judged_us(nest);
  return us;
}

Result<GpuNest> product_nest(const TileGraph& graph, const GpuTarget& target, const Pins& pins,
                             const SizeHints& hints) {
  Result<SolvedGpuProduct> solved = solve_gpu_product_numbers(graph, target, pins, hints);
  if (!solved) return solved.unsupported();
  return GpuNest{graph, std::move(solved->schedule), ""};
}

Result<GpuNest> chain_nest(const TileGraph& graph, const GpuTarget& target, const Pins& pins,
                           const SizeHints& hints) {
  const Result<GpuChain> chain = analyze_gpu_chain(graph);
  if (!chain) return chain.unsupported();
  Result<GpuChainSchedule> schedule = solve_gpu_chain(graph, *chain, target, pins, hints);
  if (!schedule) return schedule.unsupported();
  return GpuNest{graph, *std::move(schedule), ""};
}

Result<GpuNest> row_nest(const TileGraph& graph, const GpuTarget& target, const Pins& pins,
                         const SizeHints& hints) {
  Result<GpuSchedule> schedule = solve_gpu(graph, target, pins, hints);
  if (!schedule) return schedule.unsupported();
  return GpuNest{graph, *std::move(schedule), ""};
}

Result<GpuNest> solve_nest(const TileGraph& graph, const GpuTarget& target, Kind kind, const Pins& pins,
                           const SizeHints& hints) {
  if (kind == Kind::Product) return product_nest(graph, target, pins, hints);
  // One walk has no place for products over different axes: no rows are to be compared with.
  if (kind == Kind::Chain || (kind == Kind::Any && count_contractions(graph) > 1))
    return chain_nest(graph, target, pins, hints);
  Result<GpuNest> rows = row_nest(graph, target, pins, hints);
  if (kind == Kind::Rows || !has_contraction(graph)) return rows;
  Result<GpuNest> product = product_nest(graph, target, pins, hints);
  if (product && (!rows || judged_us(*product) < judged_us(*rows))) return product;
  if (rows) {
    rows->why_no_product = product ? "tensor cores would take " + cost_text(cost_us(product->schedule), {})
                                   : product.unsupported().reason;
  }
  return rows;
}

Result<GpuPlan> solve_nests(const std::vector<TileGraph>& graphs, const GpuTarget& target, Kind kind,
                            const Pins& pins, const SizeHints& hints) {
  GpuPlan plan;
  for (const TileGraph& graph : graphs) {
    const bool adds_parts = kind == Kind::Product && !plan.nests.empty();  // which is no product
    const bool is_before = graphs.size() > 1 && kind == Kind::Chain && count_contractions(graph) < 2;
    Result<GpuNest> nest = adds_parts || is_before ? row_nest(graph, target, {}, hints)
                                                   : solve_nest(graph, target, kind, pins, hints);
    if (!nest) return nest.unsupported();
    plan.cost_us += cost_us(nest->schedule);
    plan.nests.push_back(*std::move(nest));
  }
  return plan;
}

struct InParts {
  std::vector<TileGraph> graphs;
  double margin = 1;
};
// `may_walk_again`: a last kernel may walk the rows once more.
std::optional<InParts> in_parts(const TileGraph& graph, int parts, bool may_walk_again) {
  if (parts == 1) return InParts{reductions_apart(graph)};
  if (auto graphs = split_reduction(graph, parts)) return InParts{*std::move(graphs)};
  if (!may_walk_again) return std::nullopt;
  auto graphs = scans(graph) ? split_scan(graph, parts) : split_cascade(graph, parts);
  return graphs ? std::optional(InParts{*std::move(graphs), kMarginOfParts}) : std::nullopt;
}

// No two kernels or more take less, of which the last one walks again.
double least_of_kernels(const TileGraph& graph, const GpuTarget& target, const SizeHints& hints) {
  const Result<RegionFacts> facts = collect_region_facts(graph, hints);
  const double memory = facts ? facts->footprint_bytes / target.memory_gbs / 1e3 : 0;
  return kMarginOfParts * (memory + 2 * target.launch_us);
}

// Of one row; several are scanned quicker here.
std::optional<Unsupported> better_scanned_by_a_library(const TileGraph& graph, const GpuPlan& plan,
                                                       const GpuTarget& target, const SizeHints& hints) {
  if (!scans(graph)) return std::nullopt;
  const Result<Structure> structure = analyze_structure(graph);
  if (!structure) return std::nullopt;
  for (const AxisId axis : structure->parallel) {
    if (!graph[axis].extent.is_constant(1)) return std::nullopt;
  }
  const double library =
      kMostOfScan * bytes_of_buffers(graph, hints) / target.memory_gbs / 1e3 + target.launch_us;
  if (plan.cost_us <= library + kLaunchesOfOthers * target.launch_us) return std::nullopt;
  return Unsupported{"cannot scan " + graph.name + " quicker than a library: it would take " +
                     cost_text(plan.cost_us, {}) + ", there " + cost_text(library, {})};
}

// Sums across rows beside sums within them: the kernel that walks the rows has the pins.
Result<GpuPlan> plan_carried(const TileGraph& graph, const GpuTarget& target, Pins pins,
                             const SizeHints& hints) {
  const auto pinned = pins.decisions.extract("walked");
  if (const Kind kind = pinned_kind(pins); kind == Kind::Product || kind == Kind::Chain)
    return Unsupported{"cannot compute " + graph.name +
                       " as a product: it is reduced across rows and along them"};
  std::optional<Result<GpuPlan>> best;
  for (const int rows : kRowsOfBlock) {
    if (!pinned.empty() && pinned.mapped() != std::to_string(rows)) continue;
    const auto graphs = carry_across_rows(graph, rows);
    if (!graphs)
      return Unsupported{
          "cannot compute " + graph.name +
          " in GPU kernels: what is reduced across its rows is wanted in them, or over several axes"};
    Result<GpuNest> walk = row_nest(graphs->front(), target, pins, hints);
    if (!walk) return walk.unsupported();
    Result<GpuPlan> plan = plan_gpu(graphs->back(), target, {}, hints);
    if (!plan) return plan;
    plan->cost_us += cost_us(walk->schedule);
    plan->nests.insert(plan->nests.begin(), *std::move(walk));
    if (!best || plan->cost_us < (*best)->cost_us) best = std::move(plan);
  }
  if (!best)
    return Unsupported{"cannot walk rows of " + graph.name + " as pinned: walked = " + pinned.mapped()};
  return *std::move(best);
}

// The reductions of a walk at once, or in the number of parts that is predicted to be the quickest.
Result<GpuPlan> plan_walk(const TileGraph& graph, const GpuTarget& target, Pins pins,
                          const SizeHints& hints) {
  const auto pinned = pins.decisions.extract("parts");
  const Kind kind = pinned_kind(pins);
  // A last walk has no decision of a reduction that may be pinned.
  const bool may_walk_again = !pinned.empty() || pins.decisions.empty();
  const double least_again = may_walk_again ? least_of_kernels(graph, target, hints) : 0;
  std::optional<Result<GpuPlan>> best;
  double best_us = 0;
  for (const int parts : kParts) {
    if (!pinned.empty() && pinned.mapped() != std::to_string(parts)) continue;
    const bool is_good = best && *best && best_us <= least_again;
    const auto ways = in_parts(graph, parts, may_walk_again && !is_good);
    if (!ways) continue;
    Result<GpuPlan> plan = solve_nests(ways->graphs, target, kind, pins, hints);
    const double us = plan ? ways->margin * judged_us(*plan) : 0;
    if (best && (!plan || (*best && best_us <= us))) continue;
    best = std::move(plan);
    best_us = us;
  }
  if (!best)
    return Unsupported{"cannot reduce " + graph.name + " in parts as pinned: parts = " + pinned.mapped()};
  return *std::move(best);
}

}  // namespace

Result<GpuPlan> plan_gpu(const TileGraph& graph, const GpuTarget& target, const Pins& pins,
                         const SizeHints& hints) {
  for (const Axis& axis : graph.axes) {
    if (!axis.extent.is_constant(0)) continue;
    return Unsupported{"cannot compute " + graph.name + " in a GPU kernel: its axis " + axis.name +
                       " has no elements"};
  }
  const TileGraph whole = merge_reduced_axes(with_an_axis(graph));
  if (!reductions_in_parts(whole).empty()) return plan_carried(whole, target, pins, hints);
  Result<GpuPlan> plan = plan_walk(whole, target, pins, hints);
  if (plan && pins.decisions.empty()) {  // pinned: whoever asks for it gets it
    if (auto refusal = better_scanned_by_a_library(whole, *plan, target, hints)) return *std::move(refusal);
  }
  return plan;
}

double cost_us(const GpuNestSchedule& schedule) {
  return match(schedule, [](const auto& one) { return one.cost_us; });
}

const std::vector<CostTerm>& cost_of(const GpuNestSchedule& schedule) {
  return std::visit([](const auto& one) -> const std::vector<CostTerm>& { return one.cost; }, schedule);
}

std::string to_text(const GpuNest& nest) {
  const std::string text = match(
      nest.schedule, [&](const GpuSchedule& rows) { return to_text(rows, nest.graph); },
      [&](const GpuProductSchedule& product) {
        return to_text(product, nest.graph, *analyze_gpu_product(nest.graph, product.numbers));
      },
      [&](const GpuChainSchedule& chain) { return to_text(chain, *analyze_gpu_chain(nest.graph)); });
  return nest.why_no_product.empty() ? text : text + "# no tensor cores: " + nest.why_no_product + "\n";
}

GpuNest parse_gpu_nest(std::string_view text, const TileGraph& graph) {
  if (is_chain_schedule(text)) {
    const Result<GpuChain> chain = analyze_gpu_chain(graph);
    if (!chain) throw UserError(chain.unsupported().reason);
    return {graph, parse_gpu_chain_schedule(text, *chain), ""};
  }
  if (!is_product_schedule(text)) return {graph, parse_gpu_schedule(text, graph), ""};
  const Result<GpuProduct> product = analyze_gpu_product(graph, numbers_of_schedule(text));
  if (!product) throw UserError(product.unsupported().reason);
  return {graph, parse_gpu_product_schedule(text, graph, *product), ""};
}

std::vector<std::string> check_gpu_nest(const GpuNest& nest, const GpuTarget& target) {
  return match(
      nest.schedule,
      [&](const GpuSchedule& rows) -> std::vector<std::string> {
        const Result<GpuRegion> region = analyze_gpu_region(nest.graph, rows.lanes);
        if (!region) return {region.unsupported().reason};
        return check_gpu_schedule(nest.graph, *region, rows, target);
      },
      [&](const GpuProductSchedule& schedule) -> std::vector<std::string> {
        const Result<GpuProduct> product = analyze_gpu_product(nest.graph, schedule.numbers);
        if (!product) return {product.unsupported().reason};
        return check_gpu_product_schedule(*product, schedule, target);
      },
      [&](const GpuChainSchedule& schedule) -> std::vector<std::string> {
        const Result<GpuChain> chain = analyze_gpu_chain(nest.graph);
        if (!chain) return {chain.unsupported().reason};
        return check_gpu_chain_schedule(*chain, schedule, target);
      });
}

}  // namespace tilefuse
