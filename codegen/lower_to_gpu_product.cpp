#include "codegen/lower_to_gpu_product.h"

#include <string>
#include <vector>

#include "codegen/gpu_values.h"
#include "codegen/inline_values.h"
#include "codegen/kernel_header.h"
#include "codegen/name_values.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr CodeType kInt{DType::I32, CodeShape::Scalar};
constexpr int kMatrixRows = 16, kMatrixColumns = 8, kHalf = 8;  // of the sums of one instruction
constexpr int kSumsOfHalf = 2, kSumsOfMatrix = 4;               // of a thread

class ProductLowering final : GpuValues {
 public:
  ProductLowering(const TileGraph& graph, const GpuProduct& product, const GpuProductSchedule& schedule)
      : GpuValues(graph, product.accesses, {product.n, product.vector()}, product.fits_int,
                  schedule.block_threads()),
        product_(product),
        schedule_(schedule) {}

  GpuProgram run() {
    declare_arguments();
    bind_block();
    scopes_.blank();
    multiply();
    scopes_.blank();
    for_each_row([&] { for_each_column([&] { store_results(); }); });
    kernel_.body = scopes_.close();
    kernel_.header = {"fused     " + fused_ops(graph_),
                      "schedule  " + decisions_of(to_text(schedule_, graph_, product_)),
                      "target    " + schedule_.target};
    verify(kernel_, "lower_to_gpu_product");
    Kernel kernel = name_values(inline_values(std::move(kernel_)));
    verify(kernel, "name_values");
    GpuLaunch launch{
        .symbol = kernel.name, .blocks = blocks(), .threads = schedule_.block_threads(), .sizes = {}};
    for (const std::string& symbol : symbols_) launch.sizes.push_back(Expr::symbol(symbol));
    return {std::move(kernel), std::move(launch)};
  }

 private:
  const Expr& extent(AxisId axis) const { return graph_[axis].extent; }
  Expr tiles_down() const { return ceildiv(extent(product_.m), Expr(schedule_.block_m)); }
  Expr tiles_across() const { return ceildiv(extent(product_.n), Expr(schedule_.block_n)); }
  Expr blocks() const {
    Expr count = tiles_down() * tiles_across();
    for (const AxisId axis : product_.batch) count = count * extent(axis);
    return count;
  }

  struct Digit {
    std::string name;
    Expr values;
  };

  // The tile of the block, the quickest along n: blocks that run together share the lines of the first
  // factor.
  void bind_block() {
    const std::string &m = graph_[product_.m].name, &n = graph_[product_.n].name;
    std::vector<Digit> digits = {{"tile_" + n, tiles_across()}, {"tile_" + m, tiles_down()}};
    for (size_t i = product_.batch.size(); i-- > 0;) {
      const AxisId axis = product_.batch[i];
      digits.push_back({graph_[axis].name, extent(axis)});
    }
    const std::vector<Code> places = digits_of(call("block_number", {}, {index_type_.dtype}), digits);
    first_n_ = let("first_" + n, index_type_, times(places[0], schedule_.block_n));
    first_m_ = let("first_" + m, index_type_, times(places[1], schedule_.block_m));
    for (size_t i = 0; i < product_.batch.size(); ++i)
      coordinates_[product_.batch[i]] = places[places.size() - 1 - i];
  }

  // The digits of a number, the first one the quickest.
  std::vector<Code> digits_of(const Code& number, const std::vector<Digit>& digits) {
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

  // The matrix of a factor from the first row of the tile on.
  Code matrix_of(const GpuFactor& factor) {
    const auto& load = std::get<TileLoad>(graph_[factor.load].op);
    Expr rest = load.offset;
    for (const AxisId axis : {factor.row, product_.k})
      rest = substitute_index(rest, static_cast<int>(axis.index), Expr(0));
    const Code first = factor.row == product_.m ? first_m_ : first_n_;
    const Code pitch = index_code(factor.pitch);
    Code along = first;
    if (factor.is_along_k) {
      const auto number = constant_of(pitch);
      along = number ? times(first, *number) : operate(CodeOperator::Mul, {first, pitch});
    }
    const Code from = add(add(pointers_[load.buffer.index], index_code(rest)), along);
    const Code rows = operate(CodeOperator::Sub, {index_code(extent(factor.row)), first});
    const std::string kind = factor.is_wide ? "wide_along_" : "single_along_";
    return call(kind + (factor.is_along_k ? "k" : "rows"),
                {from, pitch, constant_of(first) == 0 ? index_code(extent(factor.row)) : rows});
  }

  void multiply() {
    sums_ = scopes_.symbol(name_of(product_.sum) + "_sums", {DType::F32, CodeShape::Scalar});
    scopes_.add({Var{.symbol = sums_, .initial = std::nullopt, .count = schedule_.sums()}, ""});
    const GpuProductSchedule& s = schedule_;
    scopes_.add(
        {Effect{call("multiply_tiles",
                     {reference(sums_), matrix_of(product_.first), matrix_of(product_.second),
                      index_code(extent(product_.k))},
                     {product_.dtype}, {s.block_m, s.block_n, s.step, s.warp_m(), s.warp_n(), s.stages})},
         "%" + graph_[product_.sum].name});
  }

  void unrolled(const SymbolId place, int count, const std::string& axis, const std::function<void()>& body) {
    scopes_.open();
    body();
    Block block = scopes_.close();
    scopes_.add({For{place, integer(0), integer(count), 1, axis, std::move(block), count}, ""});
  }

  // Where the tile may reach beyond the matrix.
  std::vector<Code> if_inside(AxisId axis, const Code& coordinate, int block) {
    if (is_multiple_of(extent(axis), block)) return {};
    return {operate(CodeOperator::Less, {coordinate, index_code(extent(axis))})};
  }

  // Rows of the sums that the thread holds: two halves of each matrix.
  void for_each_row(const std::function<void()>& body) {
    const std::string& name = graph_[product_.m].name;
    const Code own = let("own_" + name, index_type_,
                         add(first_m_, call("row_of_sums", {}, {}, {schedule_.warp_m(), schedule_.warps_n})));
    const SymbolId place = scopes_.symbol("row_place", kInt);
    row_place_ = reference(place);
    unrolled(place, schedule_.warp_m() / kHalf, name, [&] {
      const Code matrix = times(divided(row_place_, kMatrixRows / kHalf), kMatrixRows);
      const Code half = times(rest_of(row_place_, kMatrixRows / kHalf), kHalf);
      const Code row = scopes_.let(scopes_.depth(), name, index_type_, add(add(own, matrix), half));
      in_condition(if_inside(product_.m, row, schedule_.block_m), [&] {
        coordinates_[product_.m] = row;
        depths_[product_.m] = scopes_.depth();
        body();
      });
    });
  }

  // Columns: two neighbours of each matrix, together or one by one.
  void for_each_column(const std::function<void()>& body) {
    const std::string& name = graph_[product_.n].name;
    const Code own =
        let("own_" + name, index_type_,
            add(first_n_, call("column_of_sums", {}, {}, {schedule_.warp_n(), schedule_.warps_n})));
    const int apart = kSumsOfHalf / lanes_.vector;
    const SymbolId place = scopes_.symbol("column_place", kInt);
    column_place_ = reference(place);
    unrolled(place, schedule_.warp_n() / kMatrixColumns * apart, name, [&] {
      const Code matrix = times(divided(column_place_, apart), kMatrixColumns);
      column_ = add(add(own, matrix), rest_of(column_place_, apart));
      column_depth_ = scopes_.depth();
      in_condition(if_inside(product_.n, column(), schedule_.block_n), body);
    });
  }

  void store_results() {
    for (const TileStore& store : graph_.stores) emit_store(store);
  }

  // The sums lie in the order that cuda_product.h says.
  std::optional<Computed> held(TileValueId id) override {
    if (id != product_.sum) return std::nullopt;
    const int apart = kSumsOfHalf / lanes_.vector, matrices = schedule_.warp_n() / kMatrixColumns;
    const Code matrix =
        add(times(divided(row_place_, kMatrixRows / kHalf), matrices), divided(column_place_, apart));
    Code at = add(times(matrix, kSumsOfMatrix), times(rest_of(row_place_, kMatrixRows / kHalf), kSumsOfHalf));
    at = add(at, rest_of(column_place_, apart));
    const bool is_vector = lanes_.vector > 1;
    const Code sum =
        is_vector ? call("lanes_of", {add(reference(sums_), at)}) : subscript(reference(sums_), at);
    const int depth = scopes_.depth();
    return Computed{scopes_.let(depth, name_of(id), type_of(id, is_vector), sum), depth, is_vector};
  }

  const GpuProduct& product_;
  const GpuProductSchedule& schedule_;
  Code first_m_, first_n_;  // of the block's tile
  SymbolId sums_;
  Code row_place_, column_place_;  // of the sum at hand, among those of the thread
};

}  // namespace

GpuProgram lower_to_gpu_product(const TileGraph& graph, const GpuProduct& product,
                                const GpuProductSchedule& schedule) {
  return ProductLowering(graph, product, schedule).run();
}

}  // namespace tilefuse
