#include "codegen/gpu_executable.h"

#include <algorithm>
#include <charconv>

#include "codegen/emit.h"

namespace tilefuse {
namespace {

constexpr int64_t kScratchAlignment = 256;  // as allocators give it

// "sm_90a" -> 90
int capability_of(const std::string& architecture) {
  int number = 0;
  const size_t digits = architecture.find_first_of("0123456789");
  std::from_chars(architecture.data() + digits, architecture.data() + architecture.size(), number);
  return number;
}

int64_t value_of(const Expr& e, const std::map<std::string, int64_t>& sizes) {
  return evaluate(e, {}, [&](const std::string& name) { return sizes.at(name); });
}

int64_t in_whole(int64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

Expr bytes_of(const Buffer& buffer) {
  Expr elements(1);
  for (const Expr& extent : buffer.shape) elements = elements * extent;
  return elements * size_in_bytes(buffer.dtype);
}

// The machine code, or, where the driver does not know it, PTX, which the driver compiles itself.
Result<CudaFunction> loaded(const GpuMachine& machine, const GpuBinary& binary, const std::string& symbol) {
  Result<CudaFunction> function = machine.driver.load_function(machine.device, binary.cubin, symbol);
  if (function) return function;
  Result<CudaFunction> compiled = machine.driver.load_function(machine.device, binary.ptx, symbol);
  return compiled ? compiled : function;
}

}  // namespace

Result<GpuTarget> gpu_target_for(const CudaDevice& device) {
  const int wanted = device.major * 10 + device.minor;
  std::optional<GpuTarget> best;
  std::string known;
  for (const std::string& name : gpu_target_names()) {
    GpuTarget target = load_gpu_target(name);
    known += (known.empty() ? "" : ", ") + target.architecture;
    const int capability = capability_of(target.architecture);
    const bool is_better = !best || capability > capability_of(best->architecture);
    if (capability <= wanted && is_better) best = std::move(target);
  }
  if (!best) {
    return Unsupported{"cannot make kernels for " + device.name + " (sm_" + std::to_string(wanted) +
                       "): the oldest profiles are for " + known};
  }
  if (capability_of(best->architecture) != wanted) best->architecture = "sm_" + std::to_string(wanted);
  if (device.multiprocessors > 0) best->multiprocessors = device.multiprocessors;
  return *std::move(best);
}

Result<GpuExecutable> GpuExecutable::make(const TileGraph& graph, const GpuMachine& machine,
                                          const Pins& pins) {
  const Result<CudaDevice> device = machine.driver.device(machine.device);
  if (!device) return device.unsupported();
  Result<GpuTarget> target = gpu_target_for(*device);
  if (!target) return target.unsupported();
  const Result<GpuPlan> plan = plan_gpu(graph, *target, pins);
  if (!plan) return plan.unsupported();
  GpuExecutable made(machine.driver, *std::move(target));
  made.buffer_count_ = graph.buffers.size();
  std::map<std::string, size_t> places;
  for (const Buffer& buffer : graph.buffers) places.emplace(buffer.name, places.size());
  for (const GpuNest& nest : plan->nests) {
    const Result<GpuRegion> region = analyze_gpu_region(nest.graph, nest.schedule.lanes);
    if (!region) return region.unsupported();
    const GpuProgram program = lower_to_gpu_kernel(nest.graph, *region, nest.schedule);
    made.sources_.push_back(emit({program.kernel}, cuda_dialect()));
    const Result<GpuBinary> binary = machine.nvrtc.compile(made.sources_.back(), made.target_.architecture);
    if (!binary) return binary.unsupported();
    Result<CudaFunction> function = loaded(machine, *binary, program.launch.symbol);
    if (!function) return function.unsupported();
    Step step{*std::move(function), program.launch, {}};
    for (const Buffer& buffer : nest.graph.buffers) {
      const auto [place, is_new] = places.emplace(buffer.name, places.size());
      if (is_new) made.scratch_.push_back({buffer.name, bytes_of(buffer)});
      step.buffers.push_back(place->second);
    }
    made.steps_.push_back(std::move(step));
  }
  return made;
}

int64_t GpuExecutable::workspace_bytes(const std::map<std::string, int64_t>& sizes) const {
  int64_t bytes = 0;
  for (const Scratch& scratch : scratch_) bytes = in_whole(bytes) + value_of(scratch.bytes, sizes);
  return bytes;
}

std::optional<Unsupported> GpuExecutable::run(const GpuArguments& arguments) const {
  TILEFUSE_CHECK(arguments.buffers.size() == buffer_count_, "a GPU region is called with other buffers");
  std::vector<uint64_t> addresses = arguments.buffers;
  int64_t used = 0;
  for (const Scratch& scratch : scratch_) {
    addresses.push_back(arguments.workspace + static_cast<uint64_t>(in_whole(used)));
    used = in_whole(used) + value_of(scratch.bytes, arguments.sizes);
  }
  for (const uint64_t address : addresses) {
    if (address % kGpuAlignment == 0) continue;
    return Unsupported{"cannot launch a kernel on memory that begins at no multiple of " +
                       std::to_string(kGpuAlignment) + " bytes"};
  }
  for (const Step& step : steps_) {
    const int64_t blocks = value_of(step.launch.blocks, arguments.sizes);
    if (blocks == 0) continue;  // a tensor without elements
    std::vector<uint64_t> values;
    values.reserve(step.buffers.size() + step.launch.sizes.size());
    for (const size_t buffer : step.buffers) values.push_back(addresses[buffer]);
    for (const Expr& size : step.launch.sizes)
      values.push_back(static_cast<uint64_t>(value_of(size, arguments.sizes)));
    const CudaGrid grid{.blocks = blocks, .threads = step.launch.threads, .stream = arguments.stream};
    if (auto refusal = driver_.launch(step.function, grid, values)) return refusal;
  }
  return std::nullopt;
}

}  // namespace tilefuse
