// A factor of a product as a matrix of which the machine itself copies boxes to shared memory, by a tensor
// map that the launch makes: what the map says. Two dimensions, or three with the axis of a batch.
//
//   load %x[b*32768 + i*512 + k + 64]    =>  from element 64 on; 512 along k, 64 i, 512 apart, 8 b, 32768
//   apart
//
// Where several axes of a batch, or a part of one (h // 4), say which matrix it is, the third dimension
// counts the elements of a line, or a part of them: a matrix begins at so many of those. Matrices then
// overlap.
#pragma once
#include <optional>
#include <vector>

#include "core/result.h"
#include "fusion/gpu_factor.h"

namespace tilefuse {

struct GpuBulkFactor {
  Expr offset;                 // elements from the begin of the buffer
  std::vector<Expr> extents;   // the innermost first
  std::vector<Expr> strides;   // elements; of all dimensions but the innermost
  std::optional<Expr> matrix;  // the coordinate in the last dimension, where there are three
};

// Unsupported: why tensor maps cannot say it, in a part of a sentence.
Result<GpuBulkFactor> describe_bulk_factor(const TileGraph& graph, const GpuFactor& factor,
                                           const std::vector<AxisId>& batch);

}  // namespace tilefuse
