#include "core/import/places.h"

#include <algorithm>

#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

bool is_place_dtype(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }

// `index` names the dims of the walked shape that it runs over; 1 elsewhere. The result has the walked shape.
Tensor spread(const Tensor& index, const Shape& walked, int first_dim) {
  if (!is_place_dtype(index.dtype())) decline("places of dtype " + std::string(info(index.dtype()).name));
  Shape aligned(walked.size(), Expr(1));
  const Shape own = index.shape();
  std::copy(own.begin(), own.end(), aligned.begin() + first_dim);
  return expand(reshape(index, aligned), walked);
}

// The dims that are indexed, and where the broadcast indices stand in the walked shape: in the place of the
// first if they are neighbours, in front otherwise.
struct IndexedDims {
  Dims dims;
  int walked_dim = 0;
  bool holds(int dim) const { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }
};

IndexedDims indexed_dims(const Indices& indices) {
  IndexedDims result;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i]) result.dims.push_back(static_cast<int>(i));
  }
  if (result.dims.empty()) decline("no index at all");
  const int span = result.dims.back() - result.dims.front() + 1;
  result.walked_dim = span == static_cast<int>(result.dims.size()) ? result.dims.front() : 0;
  return result;
}

Shape common_shape(const Indices& indices) {
  Shape common;
  for (const auto& given : indices) {
    if (given) common = broadcast_shapes(common, given->shape());
  }
  return common;
}

}  // namespace

Places places_along(int dim, const Tensor& index, int index_dim, const Shape& walked) {
  Places places;
  for (int i = 0; i < static_cast<int>(walked.size()); ++i) {
    places.coordinates.push_back(i == dim ? Expr(0) : Expr::index(i));
    places.from_index.push_back(i == dim ? 0 : -1);
  }
  places.indices.push_back(spread(index, walked, index_dim));
  return places;
}

Shape indexed_shape(const Tensor& data, const Indices& indices) {
  const IndexedDims indexed = indexed_dims(indices);
  Shape walked;
  for (int dim = 0; dim < data.rank(); ++dim) {
    if (!indexed.holds(dim)) walked.push_back(data.size(dim));
  }
  const Shape common = common_shape(indices);
  walked.insert(walked.begin() + indexed.walked_dim, common.begin(), common.end());
  return walked;
}

Places indexed_places(const Tensor& data, const Indices& indices, const Shape& walked) {
  const IndexedDims indexed = indexed_dims(indices);
  const Shape common = common_shape(indices);
  Places places;
  int next = 0;  // of the walked dims that are not indexed
  for (int dim = 0; dim < data.rank(); ++dim) {
    if (indexed.holds(dim)) {
      places.from_index.push_back(static_cast<int>(places.indices.size()));
      const Tensor& given = *indices[static_cast<size_t>(dim)];
      places.indices.push_back(spread(expand(given, common), walked, indexed.walked_dim));
      places.coordinates.emplace_back(0);
      continue;
    }
    const int place = next < indexed.walked_dim ? next : next + static_cast<int>(common.size());
    places.from_index.push_back(-1);
    places.coordinates.push_back(Expr::index(place));
    ++next;
  }
  return places;
}

}  // namespace tilefuse::aten
