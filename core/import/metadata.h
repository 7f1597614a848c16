// What the capture recorded about values: types, strides, sizes. Refuses what a Graph cannot hold.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/graph.h"
#include "core/import/field.h"

namespace tilefuse::aten {

struct TensorRecord {
  std::string name;
  TensorType type;
  std::vector<Expr> strides;
  std::string device = "cpu";  // "cuda:0"
};

// A result that nothing reads has a name made up by the writer: "max_pool2d_with_indices_unused_1".
inline bool is_unused_name(std::string_view name) { return name.find("_unused_") != std::string_view::npos; }

// Names of the schema's numbers, as the framework spells them: "float32", "strided", "preserve_format".
std::string_view dtype_name(const Field& number);
std::string_view layout_name(const Field& number);
std::string_view memory_format_name(const Field& number);
std::optional<DType> dtype_of(std::string_view framework_name);  // nullopt: not an element type of a Graph
std::string_view dtype_name(DType dtype);
// And back: the number of a "dtype", "layout" or "memory_format" of that name, of an element type.
int64_t schema_number(std::string_view kind, std::string_view framework_name);
int64_t schema_number(DType dtype);

// "cpu", "cuda:0" of a device record; without a number it is the first one.
std::string device_name(const Field& device);

// Reads `range_constraints` and the value tables of one captured graph.
class Metadata {
 public:
  Metadata(const Field& graph, const std::optional<Field>& range_constraints);

  bool is_tensor(const std::string& name) const;
  TensorRecord tensor(const std::string& name, const Field& asked_by);
  Expr storage_offset(const std::string& tensor_name);
  Expr sym_int(const std::string& name, const Field& asked_by);
  Expr size(const Field& int_or_expr);     // {"as_int": 3} or {"as_expr": {"expr_str": ...}}
  Expr expression(const Field& sym_expr);  // {"expr_str": ...}

 private:
  std::vector<Expr> sizes(const Field& list);
  Expr parsed(const Field& expr_str);
  SymbolRange range_of(const std::string& symbol, SymbolRange assumed);

  Field tensor_values_;
  std::optional<Field> sym_int_values_;
  std::map<std::string, SymbolRange> ranges_;   // recorded
  std::map<std::string, SymbolRange> assumed_;  // of symbols without a record: what each mention says
  std::unordered_map<std::string, Expr> parsed_;
};

}  // namespace tilefuse::aten
