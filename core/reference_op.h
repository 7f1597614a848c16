// One operator of a graph on tensors: what evaluate() walks through.
//
// Sizes and coordinates are evaluated with the context's symbols. Results are rounded or wrapped to the dtype
// of the value they become.
#pragma once
#include <vector>

#include "core/graph.h"
#include "core/reference.h"

namespace tilefuse {

struct ReferenceContext {
  const SymbolValues& symbols;
  ReferenceOptions options;

  int64_t size(const Expr& e) const;
  std::vector<int64_t> shape(const TensorType& type) const;
  int64_t at(const Expr& e, const std::vector<int64_t>& coordinates) const;
  double rounded(DType dtype, double value) const;
};

Tensor reference_map(const ReferenceContext& context, MapFn fn, const std::vector<const Tensor*>& operands,
                     const TensorType& type);
Tensor reference_reduce(const ReferenceContext& context, const Reduce& reduce, const Tensor& operand,
                        const TensorType& type);
Tensor reference_scan(const ReferenceContext& context, const Scan& scan, const Tensor& operand);
Tensor reference_view(const ReferenceContext& context, const IndexMap& map, const Tensor& operand);
Tensor reference_gather(const ReferenceContext& context, const Gather& gather,
                        const std::vector<const Tensor*>& operands, const TensorType& type);
Tensor reference_scatter(const ReferenceContext& context, const Scatter& scatter,
                         const std::vector<const Tensor*>& operands);
Tensor reference_concat(const ReferenceContext& context, int dim, const std::vector<const Tensor*>& operands,
                        const TensorType& type);

}  // namespace tilefuse
