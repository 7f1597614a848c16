#include "tests/gpu/cuda_run.h"

#include <map>
#include <regex>

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

}  // namespace

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

const Result<Nvrtc>& nvrtc() {
  static const Result<Nvrtc> loaded = Nvrtc::load({TILEFUSE_NVRTC_FOLDER});
  return loaded;
}

Pins pins_of(const std::string& text) {
  Pins pins;
  static const std::regex kPin("(\\w+)=([\\w.]+)");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kPin); at != std::sregex_iterator(); ++at) {
    pins.decisions[(*at)[1]] = (*at)[2];
  }
  return pins;
}

CudaKernel compile_cuda(const Nvrtc& nvrtc, const GpuNest& nest, const GpuTarget& target) {
  Result<GpuProgram> program = lower_to_gpu_kernel(nest);
  if (!program) throw UserError(program.unsupported().reason);
  CudaKernel kernel{*std::move(program), {}, {}};
  kernel.source = emit({kernel.program.kernel}, cuda_dialect());
  Result<GpuBinary> binary = nvrtc.compile(kernel.source, target.architecture);
  if (!binary) throw UserError(binary.unsupported().reason + "\n" + kernel.source);
  kernel.binary = *std::move(binary);
  return kernel;
}

CudaKernel compile_cuda(const Nvrtc& nvrtc, const TileGraph& graph, const GpuSchedule& schedule,
                        const GpuTarget& target) {
  return compile_cuda(nvrtc, {graph, schedule, ""}, target);
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
  const GpuGrid grid{.blocks = size(launch.blocks),
                     .threads = launch.threads,
                     .shared_bytes = launch.shared_bytes,
                     .most_shared_bytes = launch.shared_bytes};
  std::vector<TensorMapLayout> maps;
  for (const GpuTensorMap& map : launch.tensor_maps) {
    TensorMapLayout& made = maps.emplace_back();
    const int64_t bytes = size_in_bytes(map.dtype);
    made.buffer = static_cast<size_t>(map.buffer);
    made.element_bytes = static_cast<int>(bytes);
    made.rounds_to_tf32 = map.dtype == DType::F32;
    made.address = static_cast<uint64_t>(size(map.offset) * bytes);
    for (const Expr& extent : map.extents) made.extents.push_back(static_cast<uint64_t>(size(extent)));
    for (const Expr& stride : map.strides)
      made.strides.push_back(static_cast<uint64_t>(size(stride) * bytes));
    made.box.assign(map.box.begin(), map.box.end());
    if (const std::string why = why_no_tensor_map(made); !why.empty())
      throw GpuFault("a tensor map has " + why);
  }
  result.run = run_ptx(parse_ptx(ptx), grid, buffers_of(graph, inputs, symbols), sizes, maps);
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].role != Buffer::Role::Output) continue;
    result.outputs.push_back(tensor_of(graph.buffers[b], result.run.buffers[b], symbols));
  }
  return result;
}

std::vector<CudaKernel> compile_plan(const Nvrtc& nvrtc, const GpuPlan& plan, const GpuTarget& target) {
  std::vector<CudaKernel> kernels;
  for (const GpuNest& nest : plan.nests) kernels.push_back(compile_cuda(nvrtc, nest, target));
  return kernels;
}

CudaPlanRun run_plan(std::vector<CudaKernel> kernels, const GpuPlan& plan, const TileGraph& graph,
                     const std::vector<Tensor>& inputs, const SymbolValues& symbols) {
  CudaPlanRun result;
  std::map<std::string, Tensor> tensors;
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].role == Buffer::Role::Input)
      tensors.insert_or_assign(graph.buffers[b].name, inputs.at(b));
  }
  for (size_t n = 0; n < plan.nests.size(); ++n) {
    const TileGraph& nest = plan.nests[n].graph;
    std::vector<Tensor> read;
    for (const Buffer& buffer : nest.buffers) {
      if (buffer.role == Buffer::Role::Input) read.push_back(tensors.at(buffer.name));
    }
    CudaRun run = run_cuda(kernels[n].program.launch, kernels[n].binary.ptx, nest, read, symbols);
    auto written = run.outputs.begin();
    for (const Buffer& buffer : nest.buffers) {
      if (buffer.role == Buffer::Role::Output) tensors.insert_or_assign(buffer.name, *written++);
    }
    result.runs.push_back(std::move(run.run));
  }
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role == Buffer::Role::Output) result.outputs.push_back(tensors.at(buffer.name));
  }
  result.kernels = std::move(kernels);
  return result;
}

}  // namespace tilefuse
