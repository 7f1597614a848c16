// Runs a fused model for a GPU in the model of one: run_on_host_gpu fake_cuda.so host_memory.so nvrtc_folder
// fused.pt2 inputs.pt outputs.pt [--trust]
//
// As examples/cpp/run_model.cpp, twice on the same inputs; tensors of the CPU stand for memory of the GPU.
#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <tilefuse/model.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iostream>
#include <iterator>

namespace {

void* opened(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return handle;
}

std::vector<char> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(int argc, char** argv) {
  void* driver = opened(argv[1]);
  void* memory = opened(argv[2]);
  const auto capability = reinterpret_cast<void (*)(int, int)>(dlsym(driver, "fake_cuda_capability"));
  const auto shared = reinterpret_cast<void (*)(int, int)>(dlsym(driver, "fake_cuda_shared_bytes"));
  const auto calls = reinterpret_cast<const char* (*)()>(dlsym(driver, "fake_cuda_calls"));
  capability(8, 0);
  shared(163 << 10, 163 << 10);
  reinterpret_cast<void (*)(int)>(dlsym(memory, "host_memory_use"))(1);

  tilefuse::LoadOptions options;
  options.gpu_on_host = argv[1];
  options.nvrtc = argv[3];
  if (argc > 7) options.trust = tilefuse::Trust::embedded_code;
  const tilefuse::Model model = tilefuse::load(argv[4], options);
  std::cout << model.explain();
  std::vector<at::Tensor> inputs;
  const c10::IValue saved = torch::jit::pickle_load(read_file(argv[5]));
  for (const c10::IValue& tensor : saved.toListRef()) inputs.push_back(tensor.toTensor().clone());
  const c10::InferenceMode inference;
  calls();
  model.run(inputs);
  std::vector<c10::IValue> values;
  for (const at::Tensor& output : model.run(inputs)) values.emplace_back(output);
  std::cout << calls();
  const std::vector<char> bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(values)));
  std::ofstream(argv[6], std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "run_on_host_gpu: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
