#include "tests/gpu/cuda_product_fixture.h"

#include <random>

#include "tests/kernel_fixture.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {

std::vector<Tensor> whole_numbers(const TileGraph& graph, uint64_t seed, const SymbolValues& symbols) {
  std::vector<Tensor> tensors = random_buffers(graph, seed, symbols);
  std::mt19937_64 random(seed);
  for (Tensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const auto number = static_cast<int64_t>(random() % 9) - 4;
      if (is_float(tensor.dtype())) {
        tensor.set_float(i, double(number));
      } else if (tensor.dtype() == DType::I8) {
        tensor.set_int(i, number);
      } else if (tensor.dtype() == DType::U8) {
        tensor.set_int(i, number + 4);
      }
    }
  }
  return tensors;
}

void PrintTo(const ProductCase& test, std::ostream* out) { PrintTo(test.region, out); }

int64_t size_of(const TileGraph& graph, AxisId axis, const SymbolValues& symbols) {
  return evaluate(graph[axis].extent, {}, [&](const std::string& name) { return symbols.at(name); });
}

namespace {

// What the blocks of a schedule have to execute, no less and no more, of its instruction.
int64_t expected_instructions(const TileGraph& graph, const GpuProduct& product,
                              const GpuProductSchedule& schedule, const SymbolValues& symbols) {
  const auto pieces = [&](AxisId axis, int of) { return (size_of(graph, axis, symbols) + of - 1) / of; };
  int64_t blocks = pieces(product.m, schedule.cluster_m()) * pieces(product.n, schedule.cluster_n()) *
                   schedule.cluster_blocks();
  for (const AxisId axis : product.batch) blocks *= size_of(graph, axis, symbols);
  const int64_t steps = pieces(product.k, schedule.step) *
                        (schedule.step / instruction_depth(schedule.numbers)) *
                        info(schedule.numbers).products;
  const int rows = schedule.block_m / 16;  // of a warp in an instruction, also in one of four warps
  return blocks * steps * rows * (schedule.is_in_groups() ? 1 : schedule.block_n / 8);
}

}  // namespace

void expect_right(const GpuNest& nest, const CudaKernel& kernel, uint64_t seed, const SymbolValues& symbols,
                  bool is_whole) {
  const TileGraph& graph = nest.graph;
  const std::vector<Tensor> inputs = whole_numbers(graph, seed, symbols);
  const std::vector<Tensor> expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}});
  CudaRun found;
  ASSERT_NO_THROW(found = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, inputs, symbols))
      << to_text(graph) << to_text(nest) << kernel.source;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(first_difference(found.outputs.at(i), expected[i], 0), "")
        << "output " << i << "\n"
        << to_text(graph) << to_text(nest) << kernel.source;
  }
  EXPECT_EQ(found.run.bank_conflicts, 0) << to_text(nest);
  const MatrixNumbers numbers = std::get<GpuProductSchedule>(nest.schedule).numbers;
  const Result<GpuProduct> product = analyze_gpu_product(graph, numbers);
  ASSERT_TRUE(product) << product.unsupported().reason;
  // The compiler leaves out the last instructions of results that are sure to lie outside.
  const auto& schedule = std::get<GpuProductSchedule>(nest.schedule);
  const int64_t most = expected_instructions(graph, *product, schedule, symbols);
  const int64_t ran = schedule.is_in_groups() ? found.run.group_products : found.run.matrix_products;
  EXPECT_LE(ran, most);
  EXPECT_GE(ran, is_whole || schedule.is_in_groups() ? most : 1);
  EXPECT_EQ(found.run.group_products + found.run.matrix_products, ran);
}

GpuProductSchedule random_product_schedule(const TileGraph& graph, const GpuProduct& product,
                                           const GpuTarget& target, RandomSource& random) {
  const int bytes = info(product.numbers).bytes;
  for (;;) {
    GpuProductSchedule schedule;
    schedule.tile_graph = graph.name;
    schedule.target = target.name;
    schedule.numbers = product.numbers;
    schedule.block_m = random.pick<int>({16, 32, 64, 128, 256});
    schedule.block_n = random.pick<int>({16, 32, 64, 128, 256});
    schedule.step = random.pick<int>({32, 64, 128}) / bytes;
    schedule.warps_m = random.pick<int>({1, 2, 4});
    schedule.warps_n = random.pick<int>({1, 2, 4});
    schedule.stages = random.pick<int>({2, 3, 4, 5, 8});
    const bool may_be_in_groups = matrix_rate(target, product.numbers, ProductInstruction::Warpgroup) > 0;
    if (may_be_in_groups && (product.numbers == MatrixNumbers::Half || !random.once_in(4))) {
      schedule.instruction = ProductInstruction::Warpgroup;
      schedule.warps_m = random.pick<int>({4, 8, 16});
      schedule.warps_n = 1;
      schedule.step = 128 / bytes;
      if (random.once_in(2)) schedule.copies = ProductCopies::Bulk;
      using enum ProductCluster;
      if (schedule.is_bulk()) schedule.cluster = random.pick<ProductCluster>({Alone, Down, Across});
      if (schedule.is_bulk()) schedule.blocks = random.pick<int>({0, 1, 3}) * schedule.cluster_blocks();
      if (schedule.blocks > 0 && random.once_in(3)) schedule.groups = ProductGroups::Turns;
      if (schedule.is_bulk() && random.once_in(2)) schedule.results = ProductResults::Gathered;
      if (schedule.is_gathered() && !product.element_loads.empty() && random.once_in(2))
        schedule.results = ProductResults::Fetched;
    }
    schedule.tiles_together = random.pick<int>({1, 1, 2, 4});
    if (check_gpu_product_schedule(product, schedule, target).empty()) return schedule;
  }
}

void expect_lean(const CudaKernel& kernel) {
  ASSERT_EQ(kernel.binary.resources.size(), 1U) << kernel.binary.log;
  EXPECT_EQ(kernel.binary.resources[0].spill_bytes, 0) << kernel.source;
  EXPECT_EQ(kernel.binary.resources[0].stack_bytes, 0) << kernel.source;
}

}  // namespace tilefuse
