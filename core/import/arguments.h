// The arguments of a captured node, decoded from the schema's tagged unions.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "core/import/captured_op.h"
#include "core/import/field.h"
#include "core/import/metadata.h"

namespace tilefuse::aten {

// What the names of captured tensors stand for so far.
using CapturedValues = std::unordered_map<std::string, ValueId>;

class ArgumentReader {
 public:
  ArgumentReader(Metadata& metadata, const CapturedValues& values) : metadata_(&metadata), values_(&values) {}

  std::vector<Argument> arguments(const Field& inputs) const;  // of a node
  Argument argument(const Field& tagged_union) const;          // nameless
  ValueId tensor(const Field& tensor_argument) const;          // {"name": "x"}

 private:
  Argument list(const Field& items, std::string_view item_tag) const;
  Argument tagged(std::string_view tag, const Field& value) const;
  Argument sym_int(const Field& value) const;

  Metadata* metadata_;
  const CapturedValues* values_;
};

// Runs as the framework would run it: the whole argument list, results as recorded.
std::vector<ValueId> add_call(GraphBuilder& builder, const std::string& overload,
                              const std::vector<Argument>& arguments,
                              const std::vector<ResultRecord>& results);

}  // namespace tilefuse::aten
