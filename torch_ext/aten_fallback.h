// Runs a refused region with the framework's operators, node by node: right and slow, so that one region that
// cannot be compiled costs only itself.
//
// f16 and bf16 are held in f32 between nodes, as in a kernel.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/graph.h"

namespace tilefuse {

class AtenFallback {
 public:
  explicit AtenFallback(Graph graph) : graph_(std::move(graph)) {}

  // inputs by position, all on `device`. Returns the outputs, of any strides. An index out of range is an
  // IndexError on the CPU; elsewhere it is the device's own assertion, as nobody waits for the device.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs,
                              const std::map<std::string, int64_t>& symbols, c10::Device device) const;

 private:
  Graph graph_;
};

}  // namespace tilefuse
