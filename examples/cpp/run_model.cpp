// Runs a fused model on saved inputs:
//   run_model fused.pt2 inputs.pt outputs.pt [--trust] [--repeat n] [--nvrtc=FOLDER]
//
// inputs.pt holds a list of tensors, written by torch.save; outputs.pt gets a tuple of them, for torch.load.
// With --trust the machine code in the file is run; without, its kernels are compiled, or torch's operators
// run in their place. --nvrtc: where NVIDIA's compiler is, for kernels that run on a GPU.
#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>
#include <tilefuse/model.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(const std::vector<std::string>& arguments) {
  tilefuse::LoadOptions options;
  int repeat = 1;
  for (size_t i = 3; i < arguments.size(); ++i) {
    if (arguments[i] == "--trust") options.trust = tilefuse::Trust::embedded_code;
    if (arguments[i].starts_with("--nvrtc=")) options.nvrtc = arguments[i].substr(8);
    if (arguments[i] == "--repeat") repeat = std::stoi(arguments.at(i + 1));
  }
  auto start = Clock::now();
  const tilefuse::Model model = tilefuse::load(arguments[0], options);
  std::cout << model.explain() << "loaded in " << milliseconds_since(start) << " ms\n";

  const c10::IValue saved = torch::jit::pickle_load(read_file(arguments[1]));
  std::vector<at::Tensor> inputs;
  for (const c10::IValue& tensor : saved.toListRef()) inputs.push_back(tensor.toTensor());
  const c10::InferenceMode inference;
  std::vector<at::Tensor> outputs;
  for (int i = 0; i < repeat; ++i) {
    start = Clock::now();
    outputs = model.run(inputs);
    std::cout << "call " << i << ": " << milliseconds_since(start) << " ms\n";
  }
  std::vector<c10::IValue> values;
  for (const at::Tensor& output : outputs)
    values.push_back(output.defined() ? c10::IValue(output) : c10::IValue());
  const std::vector<char> bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(values)));
  std::ofstream(arguments[2], std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 3) {
    std::cerr << "usage: run_model fused.pt2 inputs.pt outputs.pt [--trust] [--repeat n] [--nvrtc=FOLDER]\n";
    return 2;
  }
  try {
    run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "run_model: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
