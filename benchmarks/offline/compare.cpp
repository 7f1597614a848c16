// Loads a fused file and an AOTInductor package of the same program and calls them in turn, from C++:
//
//   compare fused.pt2 package.pt2 inputs.pt THREADS SECONDS
//
// Prints one JSON object: milliseconds to load each and for its first call, then microseconds of every later
// call, and the largest difference of their results. Whoever loads first pays for nothing of the other: which
// one it is, the caller decides with --swap.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>
#include <tilefuse/model.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>

namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Contestant {
  std::string name;
  std::function<std::function<Tensors(const Tensors&)>()> load;
  std::function<Tensors(const Tensors&)> run = nullptr;
  double load_ms = 0, first_ms = 0;
  std::vector<double> us = {};
};

Tensors saved_tensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const c10::IValue saved = torch::jit::pickle_load({std::istreambuf_iterator<char>(file), {}});
  Tensors tensors;
  for (const c10::IValue& tensor : saved.toListRef()) tensors.push_back(tensor.toTensor());
  return tensors;
}

double difference(const Tensors& a, const Tensors& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  }
  return largest;
}

void print(const Contestant& contestant) {
  std::cout << "\"" << contestant.name << "\": {\"load_ms\": " << contestant.load_ms
            << ", \"first_call_ms\": " << contestant.first_ms << ", \"us\": [";
  for (size_t i = 0; i < contestant.us.size(); ++i) std::cout << (i > 0 ? ", " : "") << contestant.us[i];
  std::cout << "]}, ";
}

void run(const std::vector<std::string>& arguments) {
  at::set_num_threads(std::stoi(arguments[3]));
  const Tensors inputs = saved_tensors(arguments[2]);
  std::vector<Contestant> contestants(2);
  contestants[0] = {"tilefuse", [&] {
                      auto model = std::make_shared<tilefuse::Model>(
                          tilefuse::load(arguments[0], {.trust = tilefuse::Trust::embedded_code}));
                      return [model](const Tensors& given) { return model->run(given); };
                    }};
  contestants[1] = {"aot_inductor", [&] {
                      auto model = std::make_shared<torch::inductor::AOTIModelPackageLoader>(arguments[1]);
                      return [model](const Tensors& given) { return model->run(given); };
                    }};
  const bool is_swapped = arguments.size() > 5 && arguments[5] == "--swap";
  if (is_swapped) std::swap(contestants[0], contestants[1]);
  const c10::InferenceMode inference;
  std::vector<Tensors> results;
  for (Contestant& contestant : contestants) {
    auto start = Clock::now();
    contestant.run = contestant.load();
    contestant.load_ms = milliseconds_since(start);
    start = Clock::now();
    results.push_back(contestant.run(inputs));
    contestant.first_ms = milliseconds_since(start);
  }
  const auto begin = Clock::now();
  while (milliseconds_since(begin) < 1e3 * std::stod(arguments[4])) {
    for (Contestant& contestant : contestants) {
      contestant.run(inputs);  // the one before left its data in the caches
      const auto start = Clock::now();
      contestant.run(inputs);
      contestant.us.push_back(1e3 * milliseconds_since(start));
    }
  }
  std::cout << "{";
  for (const Contestant& contestant : contestants) print(contestant);
  std::cout << "\"difference\": " << difference(results[0], results[1]) << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 5) {
    std::cerr << "usage: compare fused.pt2 package.pt2 inputs.pt THREADS SECONDS [--swap]\n";
    return 2;
  }
  try {
    run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "compare: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
