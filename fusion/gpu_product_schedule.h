// A schedule of a product on tensor cores (gpu_product.h): the tile that a block computes, and how. Made by
// solve_gpu_product, or written by hand; lower_to_gpu_product follows it and decides nothing itself.
//
//   schedule linear_0 for cuda-sm80 {
//     product  %s: 128 i x 64 j
//     multiply mma.sync
//     numbers  tf32x3
//     step     32 k
//     warps    2 x 2
//     stages   3
//     copies   bulk
//     results  gathered
//     groups   turns
//     cluster  2 i
//     order    16 i
//     blocks   132
//     cost     21.4 us = multiply 15.3 + memory 2.1 + waiting 1 + launch 3
//   }
//
// `numbers`: what is multiplied, where that is not in 16 bits (matrix_numbers.h).
// The warps of a block share its tile evenly. In each step, pieces of both factors, `step` long, lie in
// shared memory; `stages` of them at a time, of which all but one are on their way, or all but two where
// warpgroups multiply: four warps together, `multiply wgmma`, which stand along m. `copies bulk`: one more
// warpgroup copies boxes by tensor maps; else the threads that multiply copy. `results gathered`: sums go
// through shared memory before anything is computed of them, so that a thread has neighbours of a line; else
// it has what the instruction leaves it, two neighbours at a time. `results fetched`: the same, and before
// the products the cache is asked for what is read for each result, of which the first use would wait for
// memory. `groups turns`: two warpgroups have a tile each, and one stores while the other one multiplies;
// `warps` are those of a tile. `cluster 2 i`: two blocks that run together have tiles next to each other
// along that axis, and each copies half of what both multiply to both of them (`down` of the columns they
// share, `across` of the rows). `order`: so many tiles along m are computed before the next ones along n, so
// that blocks that run together share both factors; else one. `blocks`: there are at most so many, which go
// on to further tiles; else a tile has a block of its own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fusion/gpu_occupancy.h"
#include "fusion/gpu_product.h"
#include "fusion/gpu_target.h"
#include "fusion/matrix_instruction.h"
#include "fusion/schedule.h"

namespace tilefuse {

enum class ProductResults : uint8_t { Held, Gathered, Fetched };
std::string_view name_of(ProductResults results);
enum class ProductGroups : uint8_t { Together, Turns };
std::string_view name_of(ProductGroups groups);

enum class ProductCluster : uint8_t { Alone, Down, Across };
std::string_view name_of(ProductCluster cluster);
inline constexpr int kClusterBlocks = 2;

struct GpuProductSchedule {
  std::string tile_graph, target;
  int block_m = 64, block_n = 64;  // of results, by a block
  ProductInstruction instruction = ProductInstruction::Warp;
  MatrixNumbers numbers = MatrixNumbers::Half;
  int step = 32;  // along k
  int warps_m = 2, warps_n = 2;
  int stages = 2;
  ProductCopies copies = ProductCopies::Async;
  ProductResults results = ProductResults::Held;
  ProductGroups groups = ProductGroups::Together;
  ProductCluster cluster = ProductCluster::Alone;
  int tiles_together = 1;      // along m; of clusters, of theirs
  int blocks = 0;              // that compute all tiles; 0: each tile has one
  std::vector<CostTerm> cost;  // as of a Schedule
  double cost_us = 0;

  int threads_of_tile() const { return warps_m * warps_n * kWarpThreads; }
  int multiplying_threads() const { return threads_of_tile() * (takes_turns() ? 2 : 1); }
  int block_threads() const { return multiplying_threads() + (is_bulk() ? kGroupWarps * kWarpThreads : 0); }
  int warp_m() const { return block_m / warps_m; }
  int warp_n() const { return block_n / warps_n; }
  bool is_in_groups() const { return instruction == ProductInstruction::Warpgroup; }
  bool is_bulk() const { return copies == ProductCopies::Bulk; }
  int cluster_blocks() const { return cluster == ProductCluster::Alone ? 1 : kClusterBlocks; }
  // Of results, by the blocks of a cluster.
  int cluster_m() const { return block_m * (cluster == ProductCluster::Down ? kClusterBlocks : 1); }
  int cluster_n() const { return block_n * (cluster == ProductCluster::Across ? kClusterBlocks : 1); }
  bool takes_turns() const { return groups == ProductGroups::Turns; }
  bool is_gathered() const { return results != ProductResults::Held; }
  bool is_fetched() const { return results == ProductResults::Fetched; }
  int group_m() const { return warp_m() * kGroupWarps; }
  bool adds_steps_apart() const { return tilefuse::adds_steps_apart(numbers, instruction); }
  int sums() const { return block_m * block_n / threads_of_tile(); }  // of a thread
  int64_t shared_bytes() const;
};

std::string to_text(const GpuProductSchedule& schedule, const TileGraph& graph, const GpuProduct& product);
bool is_product_schedule(std::string_view text);           // else it is one of rows
MatrixNumbers numbers_of_schedule(std::string_view text);  // which its product is to be analysed for
GpuProductSchedule parse_gpu_product_schedule(std::string_view text, const TileGraph& graph,
                                              const GpuProduct& product);  // UserError with line

// Every way in which kernels cannot follow the schedule, in words; empty where they can. Written apart from
// the constraints of solve_gpu_product, which tests compare with it.
std::vector<std::string> check_gpu_product_schedule(const GpuProduct& product,
                                                    const GpuProductSchedule& schedule,
                                                    const GpuTarget& target);

// 32-bit registers of a thread, as they are estimated to bound the sums that it holds: one for each of these,
// and so many for
struct ProductRegisters {
  double fixed = 0;
  double of_warps = 0;  // where warps multiply, one by one
  // Of a warp, 16 of them. Not of warpgroups, which load no fragments, and of whose many columns the compiler
  // loads again what it has no place for.
  double of_rows = 0, of_columns = 0;
  double of_chunk = 0;  // of 16 bytes, that the thread copies in a step
  // Where it copies nothing: what the compiler computes beside each other then, of sums as they are held.
  double in_bulk = 0;
  double of_long_function = 0;  // beside what is fixed, of sums as they are held
};
ProductRegisters product_registers(const GpuProduct& product);
// How the threads take what is computed of sums.
const GpuAccesses& result_accesses(const GpuProduct& product, const GpuProductSchedule& schedule);
int estimated_registers(const GpuProduct& product, const GpuProductSchedule& schedule);
// What a block of the kernel takes of a multiprocessor.
BlockResources block_resources(const GpuProduct& product, const GpuProductSchedule& schedule);

}  // namespace tilefuse
