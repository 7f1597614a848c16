// The device that a captured graph is planned for, and what its capture has on other ones.
//
// A graph with a tensor on a GPU is planned for that GPU: for the first one, in the order of the inputs,
// where there are several. An operator that reads or makes anything elsewhere stays a Call, so that the
// framework does what it does, its errors included.
//
// Numbers are the exception: a tensor of no dimension, made on the CPU of nothing but literals, is a constant
// to operators that are expanded. Who looks at it from outside gets what the framework makes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/import/arguments.h"

namespace tilefuse::aten {

std::string device_of_graph(const Field& graph);  // "cpu", "cuda:0"

class Elsewhere {
 public:
  Elsewhere(GraphBuilder& builder, std::string device);

  void place(ValueId value, const TensorRecord& record);
  bool may_expand(const std::vector<Argument>& arguments, const std::vector<ResultRecord>& results) const;
  // To be told of everything that was expanded.
  void note_number(const std::string& overload, const std::vector<Argument>& arguments,
                   const std::vector<ResultRecord>& results, const Outputs& outputs);
  // On the device where the capture had it.
  ValueId as_it_was(ValueId value);
  std::vector<Argument> as_they_were(std::vector<Argument> arguments);
  // Refusal, where one of the two is elsewhere.
  void refuse_write(const std::string& target, ValueId into, ValueId value) const;

 private:
  struct Number {
    std::string overload;
    std::vector<Argument> arguments;
    TensorRecord record;
    std::optional<ValueId> made;
  };
  bool reads_elsewhere(const std::vector<Argument>& arguments) const;
  bool is_elsewhere(const ResultRecord& result) const { return result && result->device != device_; }
  bool is_number(const std::vector<Argument>& arguments, const std::vector<ResultRecord>& results) const;

  GraphBuilder* builder_;
  std::string device_;
  std::map<ValueId, Number> numbers_;  // by the constant
};

}  // namespace tilefuse::aten
