#include "core/import/metadata.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "core/import/refusal.h"
#include "core/import/sympy_text.h"
#include "core/result.h"

namespace tilefuse::aten {
namespace {

struct NamedNumber {
  int64_t number;
  std::string_view name;
};

constexpr std::array kDTypeNames = {NamedNumber{0, "unknown"},
                                    NamedNumber{1, "uint8"},
                                    NamedNumber{2, "int8"},
                                    NamedNumber{3, "int16"},
                                    NamedNumber{4, "int32"},
                                    NamedNumber{5, "int64"},
                                    NamedNumber{6, "float16"},
                                    NamedNumber{7, "float32"},
                                    NamedNumber{8, "float64"},
                                    NamedNumber{9, "complex32"},
                                    NamedNumber{10, "complex64"},
                                    NamedNumber{11, "complex128"},
                                    NamedNumber{12, "bool"},
                                    NamedNumber{13, "bfloat16"},
                                    NamedNumber{28, "uint16"},
                                    NamedNumber{29, "float8_e4m3fn"},
                                    NamedNumber{30, "float8_e5m2"},
                                    NamedNumber{31, "float8_e4m3fnuz"},
                                    NamedNumber{32, "float8_e5m2fnuz"},
                                    NamedNumber{33, "float8_e8m0fnu"},
                                    NamedNumber{34, "uint32"},
                                    NamedNumber{35, "uint64"}};
constexpr std::array kLayoutNames = {NamedNumber{0, "unknown"},    NamedNumber{1, "sparse_coo"},
                                     NamedNumber{2, "sparse_csr"}, NamedNumber{3, "sparse_csc"},
                                     NamedNumber{4, "sparse_bsr"}, NamedNumber{5, "sparse_bsc"},
                                     NamedNumber{6, "_mkldnn"},    NamedNumber{7, "strided"}};
constexpr std::array kMemoryFormatNames = {
    NamedNumber{0, "unknown"}, NamedNumber{1, "contiguous_format"}, NamedNumber{2, "channels_last"},
    NamedNumber{3, "channels_last_3d"}, NamedNumber{4, "preserve_format"}};

struct NamedDType {
  std::string_view name;
  DType dtype;
};
constexpr std::array kDTypes = {NamedDType{"bool", DType::Bool},
                                NamedDType{"uint8", DType::U8},
                                NamedDType{"int8", DType::I8},
                                NamedDType{"int16", DType::I16},
                                NamedDType{"int32", DType::I32},
                                NamedDType{"int64", DType::I64},
                                NamedDType{"float16", DType::F16},
                                NamedDType{"bfloat16", DType::BF16},
                                NamedDType{"float32", DType::F32},
                                NamedDType{"float64", DType::F64},
                                NamedDType{"uint16", DType::U16},
                                NamedDType{"uint32", DType::U32},
                                NamedDType{"uint64", DType::U64},
                                NamedDType{"complex32", DType::C32},
                                NamedDType{"complex64", DType::C64},
                                NamedDType{"complex128", DType::C128},
                                NamedDType{"float8_e4m3fn", DType::F8E4M3FN},
                                NamedDType{"float8_e5m2", DType::F8E5M2},
                                NamedDType{"float8_e4m3fnuz", DType::F8E4M3FNUZ},
                                NamedDType{"float8_e5m2fnuz", DType::F8E5M2FNUZ},
                                NamedDType{"float8_e8m0fnu", DType::F8E8M0FNU}};

std::string_view name_of(const Field& number, std::span<const NamedNumber> table, const char* what) {
  const int64_t wanted = number.integer();
  for (const NamedNumber& row : table) {
    if (row.number == wanted) return row.name;
  }
  number.fail("is no " + std::string(what) + " of the schema: " + std::to_string(wanted));
}

std::map<std::string, SymbolRange> read_ranges(const std::optional<Field>& constraints) {
  std::map<std::string, SymbolRange> ranges;
  if (!constraints) return ranges;
  for (const auto& [name, unused] : constraints->json().items()) {
    const Field limits = (*constraints)[name];
    const auto low = limits.find("min_val");
    const auto high = limits.find("max_val");
    SymbolRange range;
    range.low = low ? low->integer() : std::numeric_limits<int64_t>::min();
    range.high = high ? high->integer() : std::numeric_limits<int64_t>::max();
    if (range.low > range.high) {
      limits.fail("has min_val " + std::to_string(range.low) + " above max_val " +
                  std::to_string(range.high));
    }
    ranges.emplace(name, range);
  }
  return ranges;
}

constexpr std::string_view kGpuKind = "cuda";

}  // namespace

std::string_view dtype_name(const Field& number) { return name_of(number, kDTypeNames, "dtype"); }
std::string_view layout_name(const Field& number) { return name_of(number, kLayoutNames, "layout"); }
std::string_view memory_format_name(const Field& number) {
  return name_of(number, kMemoryFormatNames, "memory format");
}

std::optional<DType> dtype_of(std::string_view framework_name) {
  for (const NamedDType& row : kDTypes) {
    if (row.name == framework_name) return row.dtype;
  }
  return std::nullopt;
}

int64_t schema_number(std::string_view kind, std::string_view framework_name) {
  std::span<const NamedNumber> table = kDTypeNames;
  if (kind == "layout") table = kLayoutNames;
  if (kind == "memory_format") table = kMemoryFormatNames;
  const auto row = std::find_if(table.begin(), table.end(), [&](const NamedNumber& candidate) {
    return candidate.name == framework_name;
  });
  TILEFUSE_CHECK(row != table.end(),
                 "the schema has no " + std::string(kind) + " " + std::string(framework_name));
  return row->number;
}

std::string_view dtype_name(DType dtype) {
  const auto row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                [&](const NamedDType& candidate) { return candidate.dtype == dtype; });
  TILEFUSE_CHECK(row != kDTypes.end(), std::string("the schema has no dtype ") + info(dtype).name);
  return row->name;
}

int64_t schema_number(DType dtype) { return schema_number("dtype", dtype_name(dtype)); }

std::string device_name(const Field& device) {
  const std::string& kind = device["type"].text();
  if (kind != kGpuKind) return kind;
  const auto index = device.find("index");
  return kind + ":" + std::to_string(index ? index->integer() : 0);
}

Metadata::Metadata(const Field& graph, const std::optional<Field>& range_constraints)
    : tensor_values_(graph["tensor_values"]),
      sym_int_values_(graph.find("sym_int_values")),
      ranges_(read_ranges(range_constraints)) {}

bool Metadata::is_tensor(const std::string& name) const { return tensor_values_.find(name).has_value(); }

TensorRecord Metadata::tensor(const std::string& name, const Field& asked_by) {
  if (!is_tensor(name)) asked_by.fail("names the tensor '" + name + "', which tensor_values does not have");
  const Field record = tensor_values_[name].inside("tensor '" + name + "'");
  const std::string_view layout = layout_name(record["layout"]);
  if (layout != "strided") {
    refuse("cannot take a graph with the " + std::string(layout) + " tensor '" + name +
           "': only strided ones");
  }
  const std::string& kind = record["device"]["type"].text();
  if (kind != "cpu" && kind != kGpuKind) {
    refuse("cannot take a graph with the tensor '" + name + "' on " + kind +
           ": kernels are made for processors and NVIDIA's GPUs");
  }
  const std::string_view dtype = dtype_name(record["dtype"]);
  const std::optional<DType> known = dtype_of(dtype);
  if (!known) {
    refuse("cannot take a graph with the tensor '" + name + "' of dtype " + std::string(dtype) +
           ": it is not an element type of the tensor graph");
  }
  TensorRecord result{
      name, {*known, sizes(record["sizes"])}, sizes(record["strides"]), device_name(record["device"])};
  if (result.strides.size() != result.type.shape.size()) {
    record.fail("has " + std::to_string(result.type.shape.size()) + " sizes but " +
                std::to_string(result.strides.size()) + " strides");
  }
  return result;
}

Expr Metadata::storage_offset(const std::string& tensor_name) {
  const auto record = tensor_values_.find(tensor_name);
  const auto offset = record ? record->find("storage_offset") : std::nullopt;
  return offset ? size(*offset) : Expr(0);
}

Expr Metadata::sym_int(const std::string& name, const Field& asked_by) {
  const auto found = sym_int_values_ ? sym_int_values_->find(name) : std::nullopt;
  if (!found) asked_by.fail("names the size '" + name + "', which sym_int_values does not have");
  return size(found->inside("size '" + name + "'"));
}

Expr Metadata::size(const Field& int_or_expr) {
  const auto [tag, value] = int_or_expr.tagged();
  if (tag == "as_int") return value.integer();
  if (tag == "as_expr") return expression(value);
  int_or_expr.fail("must be as_int or as_expr, got " + std::string(tag));
}

Expr Metadata::expression(const Field& sym_expr) { return parsed(sym_expr["expr_str"]); }

std::vector<Expr> Metadata::sizes(const Field& list) {
  std::vector<Expr> result;
  result.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    result.push_back(size(list.at(i)));
    const Expr& size = result.back();
    const int64_t most = bounds(size).high;
    if (most >= 0) continue;
    const std::string range = size.constant() ? "" : ", which is at most " + std::to_string(most);
    list.at(i).fail("must not be negative, got " + to_text(size) + range);
  }
  return result;
}

Expr Metadata::parsed(const Field& expr_str) {
  const std::string& text = expr_str.text();
  const auto known = parsed_.find(text);
  if (known != parsed_.end()) return known->second;
  const auto range = [this](const std::string& name, SymbolRange assumed) { return range_of(name, assumed); };
  const Result<Expr> expr = [&] {
    try {
      return parse_sympy(text, range);
    } catch (const UserError& error) {
      expr_str.fail(error.what());
    }
  }();
  if (!expr) refuse(expr.unsupported().reason);
  return parsed_.emplace(text, *expr).first->second;
}

SymbolRange Metadata::range_of(const std::string& symbol, SymbolRange assumed) {
  const auto recorded = ranges_.find(symbol);
  if (recorded != ranges_.end()) return recorded->second;
  const SymbolRange said = assumed_.try_emplace(symbol, assumed).first->second;
  if (said.low != assumed.low) {
    throw UserError("says otherwise than another place whether " + symbol + " is positive");
  }
  return said;
}

}  // namespace tilefuse::aten
