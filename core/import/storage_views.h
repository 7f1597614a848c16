// Captured tensors that share memory, so that a write into one reaches the others: what turns the in-place
// operators of an exported graph into values.
//
//   y = x[:, 0];  y.add_(1)      write("y", %add)  ->  y is %add, x is `where(column 0, %add, %x)`, and every
//                                other view of x reads the new x
//
// A view is a chain of View nodes between two values; a write goes up the chain by inverting each map.
// Refused: a map in which two elements of the view are one of the base (expand, overlapping windows), or
// whose inverse is no index map.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/import/arguments.h"
#include "core/import/tensor.h"

namespace tilefuse::aten {

// "aten.add_.Tensor" -> "aten.add.Tensor"; nullopt: the operator writes into nothing, has no such
// form, or the name is not of the form namespace.name.overload.
std::optional<std::string> functional_form(std::string_view overload);
// Whether the operator's result shares memory with its operand, where strides can express it.
bool makes_views(std::string_view overload);

class StorageViews {
 public:
  StorageViews(GraphBuilder& builder, CapturedValues& values) : builder_(&builder), values_(&values) {}

  // Both are known. Does nothing where `name` is a copy.
  void add(const std::string& name, const std::string& base);
  // `name` holds `value` from now on, and so does all that shares its memory. Returns the tensor that is no
  // view.
  std::string write(const std::string& name, ValueId value);

 private:
  struct SharedView {
    std::string name, base;
    std::vector<IndexMap> maps;  // from the base to the view
  };
  const SharedView* find(const std::string& name) const;
  ValueId applied(ValueId base, const std::vector<IndexMap>& maps);
  ValueId written_through(ValueId base, ValueId part, const SharedView& view);
  Tensor scattered(const Tensor& base, const Tensor& part, const IndexMap& map, const std::string& name);
  void set(const std::string& name, ValueId value);

  GraphBuilder* builder_;
  CapturedValues* values_;
  std::vector<SharedView> views_;  // in the order of the graph
};

}  // namespace tilefuse::aten
