// Which calls a specialisation of a user's operator takes: dtypes, ranks, scalars by value, and of every size
// and stride what its graph takes for granted.
//
// Made from the arguments of the call that asked for it and a JSON text that says what may vary:
//   {"tensors": [{"device": "cuda:0", "sizes": [-1, 64], "strides": [{"over": 1}, 1]}, ...],
//                                                                   every tensor, those in lists too
//    "symbols": [["s77", 0, 0], ...],                tensor 0, dimension 0 is s77: the graph's size inputs
//    "guards": [["eq", "Mod(Symbol('s77'), Integer(2))", "Integer(0)"], ...],
//    "tf32": false}     whether torch may round products of f32 on GPUs; absent: it does not matter
// A size of -1 is any from 2 on: 0 and 1 change what broadcasts. {"over": d} is the stride that runs densely
// over dimension d; null stands where the stride does not matter.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "codegen/size_program.h"

namespace tilefuse {

using Arguments = at::ArrayRef<c10::IValue>;

class ArgumentPattern {
 public:
  // UserError where the text does not fit the arguments or a guard cannot be read.
  ArgumentPattern(Arguments arguments, const nlohmann::json& text);

  bool matches(Arguments arguments) const;
  // The graph's inputs, in its order: sizes first, then every tensor.
  void push_inputs(Arguments arguments, std::vector<c10::IValue>& inputs) const;

 private:
  struct Stride {
    enum class Kind : uint8_t { Any, Number, Over } kind = Kind::Any;
    int64_t value = 0;  // the number, or the dimension
  };
  struct TensorPattern {
    c10::ScalarType type = c10::ScalarType::Float;
    c10::Device device = c10::Device(c10::DeviceType::CPU);
    std::vector<int64_t> sizes;
    std::vector<Stride> strides;
  };
  struct Argument {
    enum class Kind : uint8_t { Scalar, Tensor, TensorList } kind = Kind::Scalar;
    c10::IValue scalar;
    size_t first = 0, count = 0;  // in tensors_
  };
  struct SizeAt {
    size_t tensor = 0;
    size_t dim = 0;
  };
  enum class Relation : uint8_t { Equal, NotEqual, Less, LessEqual };
  struct Guard {
    Relation relation = Relation::Equal;
    int left = 0, right = 0;  // registers
  };

  static TensorPattern read_tensor(const at::Tensor& tensor, const nlohmann::json& text);
  void read_guards(const nlohmann::json& text);
  static bool matches_tensor(const TensorPattern& pattern, const at::Tensor& tensor);
  bool guards_hold(Arguments arguments) const;
  int64_t size_at(const SizeAt& where, Arguments arguments) const;

  std::vector<Argument> arguments_;
  std::vector<TensorPattern> tensors_;
  std::vector<SizeAt> sizes_;
  std::vector<Guard> guards_;
  SizeProgram program_;
  std::optional<bool> tf32_;
};

}  // namespace tilefuse
