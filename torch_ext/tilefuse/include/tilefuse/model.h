// A fused program (.pt2) in a C++ process with LibTorch alone: no Python, and no compiler where the file
// holds machine code for this processor, or this GPU.
//
//   tilefuse::Model model = tilefuse::load("fused.pt2", {.trust = tilefuse::Trust::embedded_code});
//   std::vector<at::Tensor> outputs = model.run({input_ids, attention_mask});
//
// Link libtilefuse_torch.so, libtorch_cpu.so and libc10.so (examples/cpp). Errors are exceptions derived from
// std::exception that name the file, the entry and the field, or the input that does not fit.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace tilefuse {

// Lower case as LibTorch's own names. NOLINTBEGIN(readability-identifier-naming)
enum class Trust {
  nothing,  // code in the file is not run: kernels are compiled from the graphs in it, or torch runs them
  embedded_code,  // machine code in the file is run: for files from somebody whose programs one would run
};
// NOLINTEND(readability-identifier-naming)

struct LoadOptions {
  Trust trust = Trust::nothing;
  std::string cxx;          // compiler for kernels that are not taken from the file; empty: found on PATH
  std::string cache_dir;    // where these are kept; empty: TILEFUSE_CACHE_DIR, or below ~/.cache/tilefuse
  std::string nvrtc;        // folder of NVIDIA's compiler, the same for a GPU; empty: the loader's own path
  std::string gpu_on_host;  // for tests: a driver library whose device memory is the host's
};

// Copies share the program and its state. Calls may run at the same time; those of a program that writes into
// its own buffers take turns.
class __attribute__((visibility("default"))) Model {
 public:
  // The program's tensor inputs in order, as torch.export flattened them. Returns its outputs in order: a
  // size as a tensor without dimensions, None as an undefined tensor. Inputs that the program writes into are
  // written.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

  // Region by region, where its kernels came from; then how the program runs.
  std::string explain() const;

  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

__attribute__((visibility("default"))) Model load(const std::string& path, const LoadOptions& options = {});

}  // namespace tilefuse
