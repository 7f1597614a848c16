// One captured operator call while it is expanded: its arguments by schema name, its recorded results.
//
//   Outputs build_silu(CapturedOp& op) {
//     const Tensor x = widened(op.tensor("self"));
//     return {cast(x * sigmoid(x), op.dtype())};
//   }
//
// An accessor declines (the node becomes a Call) when the argument has a form that a builder cannot take.
// Every argument that is present must be read: what a builder did not look at, it did not implement.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/import/metadata.h"
#include "core/import/tensor.h"

namespace tilefuse::aten {

struct Argument;
struct Opaque {  // a form that no core op and no Call can hold: a SymFloat, a graph, a complex number
  std::string what;
};
using ArgumentList = std::vector<Argument>;
struct Argument {
  std::string name;  // empty inside lists
  std::variant<NoneArgument, ValueId, bool, Expr, double, std::string, EnumArgument, ArgumentList, Opaque>
      value;
  Expr storage_offset;  // of a tensor, as recorded
};

// One output of the node; nullopt where the operator returned None.
using ResultRecord = std::optional<TensorRecord>;
using Outputs = std::vector<std::optional<Tensor>>;
using Number = std::variant<Scalar, Expr>;

class CapturedOp {
 public:
  CapturedOp(GraphBuilder& builder, std::string overload, std::vector<Argument> arguments,
             std::vector<ResultRecord> results);

  GraphBuilder& builder() const { return *builder_; }
  const std::string& overload() const { return overload_; }  // "aten.add.Tensor"

  // ------------------------------------------------------------ arguments
  bool has(std::string_view name) const;  // present and not None
  bool is_tensor(std::string_view name) const;
  Tensor tensor(std::string_view name);
  Expr storage_offset(std::string_view tensor_name);
  std::optional<Tensor> optional_tensor(std::string_view name);
  std::vector<Tensor> tensors(std::string_view name);
  std::vector<std::optional<Tensor>> optional_tensors(std::string_view name);
  int64_t integer(std::string_view name, std::optional<int64_t> fallback = std::nullopt);
  double number(std::string_view name, std::optional<double> fallback = std::nullopt);
  bool flag(std::string_view name, bool fallback);
  std::vector<bool> flags(std::string_view name);
  std::string text(std::string_view name, const std::string& fallback);
  Number scalar(std::string_view name);
  Expr size(std::string_view name, const std::optional<Expr>& fallback = std::nullopt);
  std::vector<Expr> sizes(std::string_view name);
  int dim(std::string_view name, int rank, std::optional<int> fallback = std::nullopt);
  Dims dims(std::string_view name, int rank);  // sorted; all of them if absent, None or empty
  std::vector<int64_t> integers(std::string_view name);
  void ignore(std::string_view name) { read_.insert(std::string(name)); }
  std::vector<std::string> unread() const;

  // ------------------------------------------------------------ recorded results
  size_t result_count() const { return results_.size(); }
  bool has_result(size_t i) const { return i < results_.size() && results_[i].has_value(); }
  const TensorRecord& result(size_t i = 0) const;
  bool is_used(size_t i) const;  // false: the capture says that nothing reads the result
  DType dtype(size_t i = 0) const { return result(i).type.dtype; }
  const Shape& shape(size_t i = 0) const { return result(i).type.shape; }

 private:
  const Argument* find(std::string_view name);
  const Argument& required(std::string_view name);
  Tensor as_tensor(const Argument& argument) const;

  GraphBuilder* builder_;
  std::string overload_;
  std::vector<Argument> arguments_;
  std::vector<ResultRecord> results_;
  std::set<std::string, std::less<>> read_;
};

// The place of `dim` counted from the front; declines where it is out of range. Rank 0 counts as rank 1.
int wrapped_dim(int64_t dim, int rank);

}  // namespace tilefuse::aten
