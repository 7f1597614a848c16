#include "tests/gpu/cuda_run.h"

#include "codegen/emit.h"
#include "core/index_map.h"
#include "core/result.h"
#include "tests/element_bytes.h"
#include "tests/run_kernel.h"

namespace tilefuse {
namespace {

int64_t position(const std::vector<int64_t>& at, const std::vector<int64_t>& strides) {
  int64_t result = 0;
  for (size_t dim = 0; dim < at.size(); ++dim) result += at[dim] * strides[dim];
  return result;
}

// Where the elements of a buffer lie.
struct Layout {
  std::vector<int64_t> shape, strides;
  int64_t elements = 0;  // with the gaps between them

  Layout(const Buffer& buffer, const SymbolValues& symbols) : shape(sizes_of(buffer, symbols)) {
    for (const Expr& e : buffer.strides) {
      strides.push_back(evaluate(e, {}, [&](const std::string& name) { return symbols.at(name); }));
    }
    if (element_count(shape) == 0) return;
    elements = 1;
    for (size_t dim = 0; dim < shape.size(); ++dim) elements += (shape[dim] - 1) * strides[dim];
  }
};

std::vector<GpuBuffer> buffers_of(const TileGraph& graph, const std::vector<Tensor>& inputs,
                                  const SymbolValues& symbols) {
  std::vector<GpuBuffer> buffers;
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const Buffer& buffer = graph.buffers[b];
    const Layout layout(buffer, symbols);
    const int bytes = size_in_bytes(buffer.dtype);
    GpuBuffer& made = buffers.emplace_back();
    made.bytes.resize(static_cast<size_t>(layout.elements * bytes));
    made.is_output = buffer.role == Buffer::Role::Output;
    if (made.is_output) continue;
    int64_t flat = 0;
    for_each_coordinate(layout.shape, [&](const std::vector<int64_t>& at) {
      write_element(made.bytes.data() + position(at, layout.strides) * bytes, inputs.at(b), flat++);
    });
  }
  return buffers;
}

Tensor tensor_of(const Buffer& buffer, const GpuBuffer& written, const SymbolValues& symbols) {
  const Layout layout(buffer, symbols);
  Tensor tensor(buffer.dtype, layout.shape);
  int64_t flat = 0;
  for_each_coordinate(layout.shape, [&](const std::vector<int64_t>& at) {
    const int64_t byte = position(at, layout.strides) * size_in_bytes(buffer.dtype);
    tensor.set(flat++, read_element(buffer.dtype, written.bytes.data() + byte));
  });
  return tensor;
}

}  // namespace

CudaKernel compile_cuda(const Nvrtc& nvrtc, const TileGraph& graph, const GpuSchedule& schedule,
                        const GpuTarget& target) {
  const Result<GpuRegion> region = analyze_gpu_region(graph);
  if (!region) throw UserError(region.unsupported().reason);
  CudaKernel kernel{lower_to_gpu_kernel(graph, *region, schedule), {}, {}};
  kernel.source = emit({kernel.program.kernel}, cuda_dialect());
  Result<GpuBinary> binary = nvrtc.compile(kernel.source, target.architecture);
  if (!binary) throw UserError(binary.unsupported().reason + "\n" + kernel.source);
  kernel.binary = *std::move(binary);
  return kernel;
}

CudaRun run_cuda(const GpuLaunch& launch, const std::string& ptx, const TileGraph& graph,
                 const std::vector<Tensor>& inputs, const SymbolValues& symbols) {
  const auto size = [&](const Expr& e) {
    return evaluate(e, {}, [&](const std::string& name) { return symbols.at(name); });
  };
  std::vector<int64_t> sizes;
  sizes.reserve(launch.sizes.size());
  for (const Expr& e : launch.sizes) sizes.push_back(size(e));
  CudaRun result;
  result.run = run_ptx(parse_ptx(ptx), {.blocks = size(launch.blocks), .threads = launch.threads},
                       buffers_of(graph, inputs, symbols), sizes);
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].role != Buffer::Role::Output) continue;
    result.outputs.push_back(tensor_of(graph.buffers[b], result.run.buffers[b], symbols));
  }
  return result;
}

}  // namespace tilefuse
