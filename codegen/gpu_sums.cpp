#include "codegen/gpu_sums.h"

#include <utility>

#include "core/result.h"

namespace tilefuse {
namespace {

constexpr CodeType kInt{DType::I32, CodeShape::Scalar};
constexpr int kMatrixColumns = 8, kHalf = 8;       // of the sums of one instruction
constexpr int kSumsOfHalf = 2, kSumsOfMatrix = 4;  // of a thread

}  // namespace

std::vector<Code> GpuSums::digits_of(const Code& number, const std::vector<Digit>& digits) {
  std::vector<Code> places(digits.size(), integer(0));
  std::vector<size_t> several;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (!digits[i].values.is_constant(1)) several.push_back(i);
  }
  Code left = number;
  for (size_t i = 0; i < several.size(); ++i) {
    const Digit& digit = digits[several[i]];
    const bool is_last = i + 1 == several.size();
    const std::string above = i == 0 ? "block" : "above_" + digits[several[i - 1]].name;
    left = let(is_last ? digit.name : above, index_type_, left);
    places[several[i]] = left;
    if (is_last) break;
    const Code values = index_code(digit.values);
    places[several[i]] = let(digit.name, index_type_, operate(CodeOperator::Mod, {left, values}));
    left = operate(CodeOperator::Div, {left, values});
  }
  return places;
}

// Of a row and a step: one element, by the thread that puts it into shared memory.
Code GpuSums::function_of(const GpuFactor& factor) {
  const SymbolId function = scopes_.symbol(name_of(factor.load) + "_at", type_of(factor.load, false));
  const auto coordinates = coordinates_;
  const auto depths = depths_;
  const int vector = std::exchange(lanes_.vector, 1);
  std::vector<SymbolId> parameters;
  scopes_.open();
  for (const AxisId axis : {factor.row, factor.step}) {
    parameters.push_back(scopes_.symbol(graph_[axis].name, index_type_));
    coordinates_[axis] = reference(parameters.back());
    depths_[axis] = scopes_.depth();
    if (axis != lanes_.inner) continue;
    column_ = coordinates_[axis];
    column_depth_ = scopes_.depth();
  }
  scopes_.add({Return{value(factor.load).code}, ""});
  Block body = scopes_.close();
  coordinates_ = coordinates;
  depths_ = depths;
  lanes_.vector = vector;
  scopes_.add({Function{function, std::move(parameters), std::move(body)}, "%" + graph_[factor.load].name});
  return reference(function);
}

Code GpuSums::matrix_of(const GpuFactor& factor, const Code& first) {
  if (factor.is_computed) {
    const Code rows = operate(CodeOperator::Sub, {index_code(graph_[factor.row].extent), first});
    return call(factor.is_along_k ? "computed_along_k" : "computed_along_rows",
                {function_of(factor), first, rows});
  }
  const auto& load = std::get<TileLoad>(graph_[factor.load].op);
  Expr rest = load.offset;
  for (const AxisId axis : {factor.row, factor.step})
    rest = substitute_index(rest, static_cast<int>(axis.index), Expr(0));
  const Code pitch = index_code(factor.pitch);
  Code along = first;
  if (factor.is_along_k) {
    const auto number = constant_of(pitch);
    along = number ? times(first, *number) : operate(CodeOperator::Mul, {first, pitch});
  }
  const Code from = add(add(pointers_[load.buffer.index], index_code(rest)), along);
  const Code extent = index_code(graph_[factor.row].extent);
  const Code rows = constant_of(first) == 0 ? extent : operate(CodeOperator::Sub, {extent, first});
  const std::string kind = factor.is_wide ? "wide_along_" : "single_along_";
  return call(kind + (factor.is_along_k ? "k" : "rows"), {from, pitch, rows});
}

SymbolId GpuSums::declare_tensor_map(std::vector<GpuTensorMap>& maps, const GpuFactor& factor,
                                     const GpuBulkFactor& bulk, int lines) {
  const auto& load = std::get<TileLoad>(graph_[factor.load].op);
  const DType dtype = graph_[load.buffer].dtype;  // copied as it is
  std::vector<int64_t> box = {kBulkLine * 2 / size_in_bytes(dtype), lines};
  box.resize(bulk.extents.size(), 1);
  maps.push_back(
      {static_cast<int>(load.buffer.index), dtype, bulk.offset, bulk.extents, bulk.strides, std::move(box)});
  const std::string& buffer = graph_[load.buffer].name;
  kernel_.arguments.push_back(scopes_.symbol(buffer + "_map", {dtype, CodeShape::TensorMap}));
  return kernel_.arguments.back();
}

Code GpuSums::bulk_matrix_of(const GpuFactor& factor, const GpuBulkFactor& bulk, SymbolId map,
                             const Code& first) {
  std::vector<Code> arguments = {reference(map), first};
  if (bulk.matrix) arguments.push_back(index_code(*bulk.matrix));
  const DType dtype = graph_[std::get<TileLoad>(graph_[factor.load].op).buffer].dtype;
  const std::vector<DType> types = size_in_bytes(dtype) == 2 ? std::vector<DType>{} : std::vector{dtype};
  return call(factor.is_along_k ? "bulk_along_k" : "bulk_along_rows", std::move(arguments), types);
}

Code GpuSums::shared_elements(DType dtype, int64_t bytes) {
  if (given_at_launch(bytes) > 0) return call("given_elements", {}, {dtype});
  return call("shared_elements", {}, {dtype}, {bytes / size_in_bytes(dtype)});
}

void GpuSums::unrolled(SymbolId place, int count, const std::string& axis,
                       const std::function<void()>& body) {
  scopes_.open();
  body();
  Block block = scopes_.close();
  scopes_.add({For{place, integer(0), integer(count), 1, axis, std::move(block), count}, ""});
}

std::vector<Code> GpuSums::if_inside(AxisId axis, const Code& coordinate, int block) {
  const Expr& extent = graph_[axis].extent;
  if (is_multiple_of(extent, block)) return {};
  return {operate(CodeOperator::Less, {coordinate, index_code(extent)})};
}

void GpuSums::for_each_row(const SumAxis& rows, Beyond beyond, const std::function<void()>& body) {
  const std::string& name = graph_[rows.axis].name;
  const SymbolId place = scopes_.symbol("row_place", kInt);
  row_place_ = reference(place);
  unrolled(place, rows.warp / kHalf, name, [&] {
    const Code matrix = times(divided(row_place_, kMatrixRows / kHalf), rows.apart);
    const Code half = times(rest_of(row_place_, kMatrixRows / kHalf), kHalf);
    Code at = add(add(rows.own, matrix), half);
    const bool repeats = beyond == Beyond::Repeat && !is_multiple_of(graph_[rows.axis].extent, rows.block);
    if (repeats) {
      const Code extent = index_code(graph_[rows.axis].extent);
      const auto number = constant_of(extent);
      const Code last =
          number ? literal(*number - 1, index_type_.dtype) : operate(CodeOperator::Sub, {extent, integer(1)});
      at = call("min_nan", {at, last}, {index_type_.dtype});
    }
    const Code row = scopes_.let(scopes_.depth(), name, index_type_, at);
    const auto inside = repeats ? std::vector<Code>{} : if_inside(rows.axis, row, rows.block);
    in_condition(inside, [&] {
      coordinates_[rows.axis] = row;
      depths_[rows.axis] = scopes_.depth();
      body();
    });
  });
}

void GpuSums::for_each_column(const SumAxis& columns, const std::function<void()>& body,
                              const std::function<void()>& before) {
  const int apart = kSumsOfHalf / lanes_.vector;
  const SymbolId place = scopes_.symbol("column_place", kInt);
  column_place_ = reference(place);
  unrolled(place, columns.warp / kMatrixColumns * apart, graph_[columns.axis].name, [&] {
    const Code matrix = times(divided(column_place_, apart), kMatrixColumns);
    column_ = add(add(columns.own, matrix), rest_of(column_place_, apart));
    column_depth_ = scopes_.depth();
    before();
    in_condition(if_inside(columns.axis, column(), columns.block), body);
  });
}

Code GpuSums::place_of_sum(int warp_columns) const {
  const int apart = kSumsOfHalf / lanes_.vector, matrices = warp_columns / kMatrixColumns;
  const Code matrix =
      add(times(divided(row_place_, kMatrixRows / kHalf), matrices), divided(column_place_, apart));
  const Code at =
      add(times(matrix, kSumsOfMatrix), times(rest_of(row_place_, kMatrixRows / kHalf), kSumsOfHalf));
  return add(at, rest_of(column_place_, apart));
}

Computed GpuSums::sum_at(SymbolId sums, int warp_columns, TileValueId id) {
  const Code at = place_of_sum(warp_columns);
  const bool is_vector = lanes_.vector > 1;
  const Code sum = is_vector ? call("lanes_of", {add(reference(sums), at)}) : subscript(reference(sums), at);
  const int depth = scopes_.depth();
  return Computed{scopes_.let(depth, name_of(id), type_of(id, is_vector), sum), depth, is_vector};
}

}  // namespace tilefuse
