// What an exported program says about its graph's inputs and outputs: which inputs are the program's state,
// and which outputs are values to write back into inputs.
//
//   output_specs[0] = {"buffer_mutation": {"arg": {"name": "add"}, "buffer_name": "steps"}}
//     mutations() == {0: "b_steps"}, the graph input that input_specs names for that buffer
//
// A graph without output specs (our own capture writes none) returns all its outputs.
#pragma once
#include <map>
#include <set>
#include <string>

#include "core/import/field.h"

namespace tilefuse::aten {

class Signature {
 public:
  explicit Signature(const Field& graph_module);

  // Parameters, buffers and constants: tensors that the program keeps.
  bool is_state(const std::string& input) const { return state_.contains(input); }
  // By position of the output that holds a value: the input that it is written back into.
  const std::map<size_t, std::string>& mutations() const { return mutated_; }

 private:
  void read_input(const Field& spec);
  void read_output(const Field& spec, size_t position);

  std::set<std::string> state_;
  std::map<std::string, std::string> input_of_;  // by qualified name of a parameter or buffer
  std::map<size_t, std::string> mutated_;
};

}  // namespace tilefuse::aten
