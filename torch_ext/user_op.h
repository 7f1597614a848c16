// An operator that the user defined by a plain Python function (tilefuse.op): the kernels compiled for it so
// far, and how a call finds its own.
//
// A call that none of them takes asks Python for one more: the operator
// tilefuse_python::<python_name>_specialise (the same arguments) -> (str, Tensor[]) traces the function,
// compiles the graph and answers
//   {"graph": "graph_0f3a...", ...an argument pattern (argument_pattern.h)...}
// with the tensors that the graph takes as further inputs. Where "graph" is null such calls run the plain
// function, tilefuse_python::<python_name>_plain; without "tensors" only this one does. Derivatives that have
// no kernel (second ones, forward mode, torch.func) are those of tilefuse_python::<python_name>_derivable,
// the function under the caller's autograd. A process without Python has none of them, and says so.
//
// Made at definition, never destroyed; calls from any thread.
#pragma once
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "torch_ext/argument_pattern.h"
#include "torch_ext/graph_runner.h"

namespace tilefuse {

class UserOp {
 public:
  // returns_like: its results are gradients of the tensors that the last argument's bits name, in one list,
  // and have the strides of torch.empty_like of these.
  UserOp(std::string name, std::string python_name, const c10::FunctionSchema& schema, bool returns_like);

  // Below autograd: takes the arguments off the stack and pushes the results.
  void run(torch::jit::Stack& stack) const;

  // At autograd, and above it: the function in the framework's operators, which know every derivative.
  void run_derivable(torch::jit::Stack& stack) const;

  const std::string& name() const { return name_; }
  size_t specialisations() const { return current_.load()->size(); }
  void forget();  // what was compiled: the function has changed
  // A kernel made elsewhere: calls of this pattern run it.
  void add(ArgumentPattern pattern, std::shared_ptr<const GraphRunner> runner);

 private:
  struct Specialisation {
    ArgumentPattern pattern;
    std::shared_ptr<const GraphRunner> runner;  // null: the plain function
    std::vector<at::Tensor> constants;
  };
  using Specialisations = std::vector<std::shared_ptr<const Specialisation>>;

  const Specialisation* find(Arguments arguments) const;
  // Null: the plain function, this time.
  const Specialisation* specialise(Arguments arguments) const;
  void run_plain(torch::jit::Stack& stack) const;
  void run_compiled(const Specialisation& found, torch::jit::Stack& stack) const;
  void push_results(torch::jit::Stack& results, torch::jit::Stack& stack) const;
  void append(std::shared_ptr<const Specialisation> made) const;
  void replace(std::unique_ptr<const Specialisations> next) const;  // under the mutex

  std::string name_, python_name_;
  size_t argument_count_;
  bool returns_list_, returns_like_;
  // Readers take no lock: lists are replaced as a whole and kept as long as the process.
  mutable std::atomic<const Specialisations*> current_;
  mutable std::vector<std::unique_ptr<const Specialisations>> all_;
  mutable std::mutex mutex_;  // of replacement
};

}  // namespace tilefuse
