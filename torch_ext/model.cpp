#include "torch_ext/tilefuse/include/tilefuse/model.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "codegen/link_regions.h"
#include "core/canonicalize.h"
#include "offline/program_file.h"
#include "torch_ext/call_operator.h"
#include "torch_ext/gpu_stream.h"
#include "torch_ext/graph_runner.h"
#include "torch_ext/region_operators.h"
#include "torch_ext/tensors.h"

namespace tilefuse {

struct Model::State {
  std::string path;
  std::vector<c10::IValue> arguments;  // by input of the graph: the state; what the caller gives is none yet
  std::vector<size_t> given;           // by tensor of the caller: the input
  std::vector<std::string> names;      // of these
  std::unique_ptr<GraphRunner> runner;
  std::string report;
  bool writes_state = false;
  mutable std::mutex turns;
};

namespace {

// Operators of a graph that is loaded, not compiled: nothing is known of regions but their names.
Graph imported(const ProgramFile& file) {
  Result<Graph> graph = import_program(file);
  if (!graph) {
    throw UserError(file.archive().path() + ": cannot be run without Python: " + graph.unsupported().reason);
  }
  return canonicalize(*graph);
}

// The bytes of an entry as they are mapped, or a copy of them: what is written into, or starts at an odd
// address.
c10::Storage storage_of(const Archive& archive, const std::string& entry, bool is_written) {
  const std::span<const std::byte> bytes = archive.bytes(entry);
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0;
  if (is_written || !is_aligned || bytes.empty()) {
    c10::Storage copy = pooled_storage(bytes.size());
    if (!bytes.empty()) std::memcpy(copy.mutable_data(), bytes.data(), bytes.size());
    return copy;
  }
  auto* mapping = new MappedFile(archive.file());
  c10::DataPtr data(
      const_cast<std::byte*>(bytes.data()), mapping,
      [](void* context) { delete static_cast<MappedFile*>(context); }, c10::kCPU);
  return {c10::Storage::use_byte_size_t(), bytes.size(), std::move(data), nullptr, false};
}

// The same bytes on a GPU.
c10::Storage moved(const c10::Storage& storage, c10::Device device) {
  const auto bytes = int64_t(storage.nbytes());
  const at::Tensor target = framework_tensor({bytes}, {1}, c10::ScalarType::Byte, device);
  if (bytes > 0) copy_into(target, tensor_over(storage, {bytes}, {1}, 0, c10::ScalarType::Byte));
  return target.storage();
}

std::set<size_t> written_inputs(const Executable& executable) {
  std::set<size_t> written;
  for (const Instruction& instruction : executable.instructions) {
    if (const auto* back = std::get_if<WriteBack>(&instruction)) written.insert(size_t(back->position));
  }
  return written;
}

// Where the program wants its input; nullopt: in memory of the processor's, as it is mapped.
std::optional<c10::Device> gpu_of(const Executable& executable, size_t position) {
  const auto* slot = std::get_if<SlotId>(&executable.inputs[position].value);
  if (slot == nullptr || !executable.place.is_gpu()) return std::nullopt;
  const std::string& elsewhere = executable[*slot].spec.elsewhere;
  return c10::Device(elsewhere.empty() ? executable.place.device : elsewhere);
}

void place_state(Model::State& state, const ProgramFile& file) {
  const Executable& executable = state.runner->executable();
  const std::set<size_t> written = written_inputs(executable);
  std::set<std::string> written_entries;
  for (const size_t position : written) {
    const ProgramInput& input = file.inputs()[position];
    if (input.kind == ProgramInput::Kind::State) written_entries.insert(file.state()[input.index].entry);
  }
  state.writes_state = !written_entries.empty();
  std::map<std::string, c10::Storage> storages;  // tensors of one entry share it
  for (size_t position = 0; position < file.inputs().size(); ++position) {
    const ProgramInput& input = file.inputs()[position];
    state.arguments.emplace_back();
    if (input.kind == ProgramInput::Kind::State) {
      const StateTensor& tensor = file.state()[input.index];
      if (!storages.contains(tensor.entry)) {
        c10::Storage bytes = storage_of(file.archive(), tensor.entry, written_entries.contains(tensor.entry));
        const auto gpu = gpu_of(executable, position);
        storages.emplace(tensor.entry, gpu ? moved(bytes, *gpu) : std::move(bytes));
      }
      state.arguments.back() = tensor_over(storages.at(tensor.entry), tensor.sizes, tensor.strides,
                                           tensor.offset, to_scalar_type(tensor.dtype));
    } else if (std::holds_alternative<SlotId>(executable.inputs[position].value)) {
      state.given.push_back(position);
      state.names.push_back(input.name);
    }
  }
}

// Operators of regions and ready ones compute tensors; what else stands in our namespace is for this process.
void refuse_functions(const Graph& graph, const std::string& path) {
  for (const Node& node : graph.nodes) {
    const Call* call = std::get_if<Call>(&node.op);
    if (call != nullptr && call->op.starts_with("tilefuse::") && node.results.empty()) {
      throw UserError(path + ": cannot be run: it calls " + call->op + ", which computes no tensor");
    }
  }
}

// What a file computes outside of calls, `tilefuse fuse` has made kernels of.
void refuse_unfused(const Graph& graph, const std::string& path) {
  for (const Node& node : graph.nodes) {
    if (node.results.empty() || std::holds_alternative<Input>(node.op) ||
        std::holds_alternative<View>(node.op) || std::holds_alternative<Call>(node.op)) {
      continue;
    }
    std::string text = path + ": cannot be run: no kernel computes " + graph[node.results[0]].name;
    text.append("; `tilefuse fuse ").append(path).append(" -o FUSED.pt2` makes a file that can");
    throw UserError(text);
  }
}

// A size that the caller would have to pass has no tensor to be read off.
void refuse_sizes(const Executable& executable, const std::string& path) {
  for (size_t i = 0; i < executable.inputs.size(); ++i) {
    const auto* size = std::get_if<Expr>(&executable.inputs[i].value);
    if (size != nullptr && !size->constant()) {
      throw UserError(path + ": input " + std::to_string(i) + " is a size: only tensors are passed");
    }
  }
}

// A program on a GPU without a region has no kernel whose architecture would matter.
Place place_of(const Graph& graph, const std::vector<FileRegion>& regions) {
  if (!regions.empty()) return regions.front().place;
  return graph.device == "cpu" ? Place{} : Place{graph.device, "any"};
}

std::string report_of(const std::vector<FileRegion>& regions, const Executable& executable) {
  std::string text;
  for (const FileRegion& region : regions) text += "region " + region.op + ": " + region.how + "\n";
  return text + to_text(executable);
}

}  // namespace

namespace {

std::shared_ptr<const Model::State> load_state(const std::string& path, const LoadOptions& options) {
  const ProgramFile file = ProgramFile::open(path);
  auto state = std::make_shared<Model::State>();
  state->path = path;
  CompileOptions compiling = parse_compile_options("{}", read_environment());
  if (!options.cxx.empty()) compiling.cxx = options.cxx;
  if (!options.cache_dir.empty()) compiling.cache_dir = options.cache_dir;
  if (!options.nvrtc.empty()) compiling.nvrtc = {options.nvrtc};
  compiling.gpu_on_host = options.gpu_on_host;
  std::vector<FileRegion> regions;
  const ExtraFiles files = extra_files(file.archive());
  if (!files.empty()) {
    regions = register_regions(files, path + ": entry " + std::string(kExtraFolder),
                               options.trust == Trust::embedded_code, compiling);
  }
  std::map<std::string, CompiledRegion> compiled;
  std::map<std::string, const FileRegion*> by_operator;
  for (const FileRegion& region : regions) {
    compiled.emplace(region.op, region.compiled);
    by_operator.emplace(region.op, &region);
  }
  const Graph graph = imported(file);
  const Place place = place_of(graph, regions);
  require_device(c10::Device(place.device));
  refuse_functions(graph, path);
  refuse_unfused(graph, path);
  LinkedGraph linked = link_regions(graph, compiled, facts_of, place);
  RegionSymbols symbols;
  RegionKernels kernels;
  for (const std::string& op : linked.operators) {
    symbols.push_back(symbols_of(by_operator.at(op)->module));
    kernels.push_back(by_operator.at(op)->gpu);
  }
  state->report = report_of(regions, linked.executable);
  refuse_sizes(linked.executable, path);
  state->runner = place.is_gpu() ? std::make_unique<GraphRunner>(std::move(linked.executable), kernels)
                                 : std::make_unique<GraphRunner>(std::move(linked.executable), symbols);
  place_state(*state, file);
  return state;
}

}  // namespace

Model load(const std::string& path, const LoadOptions& options) {
  try {
    return Model(load_state(path, options));
  } catch (const UserError& error) {
    const std::string text = error.what();
    throw UserError(text.starts_with(path) ? text : path + ": " + text);
  } catch (const c10::Error& error) {  // of an operator that does not take what it is given
    throw UserError(path + ": " + error.what_without_backtrace());
  } catch (const std::logic_error& error) {  // an InternalError, or an argument of another kind
    throw UserError(path + ": " + error.what());
  } catch (const std::bad_variant_access&) {
    throw UserError(path + ": an operator is given an argument of another kind");
  }
}

std::vector<at::Tensor> Model::run(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != state_->given.size()) {
    throw UserError(state_->path + ": takes " + std::to_string(state_->given.size()) + " tensors, got " +
                    std::to_string(inputs.size()));
  }
  torch::jit::Stack stack = state_->arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      throw UserError(state_->path + ": input " + state_->names[i] + " is an undefined tensor");
    }
    stack[state_->given[i]] = inputs[i];
  }
  {
    std::unique_lock<std::mutex> turn(state_->turns, std::defer_lock);
    if (state_->writes_state) turn.lock();
    state_->runner->run(stack);
  }
  std::vector<at::Tensor> outputs;
  size_t next = 0;
  for (const ExecutableOutput& output : state_->runner->executable().outputs) {
    if (std::holds_alternative<NoneArgument>(output)) {
      outputs.emplace_back();
    } else if (std::holds_alternative<Expr>(output)) {
      at::Tensor size = pooled_tensor({}, {}, c10::ScalarType::Long);
      *static_cast<int64_t*>(size.mutable_data_ptr()) = stack[next++].toInt();
      outputs.push_back(std::move(size));
    } else {
      outputs.push_back(std::move(stack[next++]).toTensor());
    }
  }
  return outputs;
}

std::string Model::explain() const { return state_->report; }

}  // namespace tilefuse
