#include "codegen/lower_to_gpu_product.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/gpu_sums.h"
#include "codegen/inline_values.h"
#include "codegen/kernel_header.h"
#include "codegen/name_values.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr int kUnrolledPlaces = 4;  // of gathered sums: so many loads are under way together

class ProductLowering final : GpuSums {
 public:
  ProductLowering(const TileGraph& graph, const GpuProduct& product, const GpuProductSchedule& schedule)
      : GpuSums(graph, result_accesses(product, schedule),
                {product.n, result_accesses(product, schedule).widest}, product.fits_int,
                schedule.block_threads()),
        product_(product),
        schedule_(schedule) {}

  GpuProgram run() {
    declare_arguments();
    if (schedule_.is_bulk()) {
      multiply_in_bulk();
    } else {
      bind_tile(call("block_number", {}, {index_type_.dtype}));
      scopes_.blank();
      multiply();
      scopes_.blank();
      store_results();
    }
    kernel_.body = scopes_.close();
    kernel_.cluster = schedule_.cluster_blocks();
    kernel_.header = {"fused     " + fused_ops(graph_),
                      "schedule  " + decisions_of(to_text(schedule_, graph_, product_)),
                      "target    " + schedule_.target};
    verify(kernel_, "lower_to_gpu_product");
    Kernel kernel = name_values(inline_values(std::move(kernel_)));
    verify(kernel, "name_values");
    GpuLaunch launch{.symbol = kernel.name,
                     .blocks = schedule_.blocks > 0 ? min(blocks(), Expr(schedule_.blocks)) : blocks(),
                     .threads = schedule_.block_threads(),
                     .shared_bytes = given_at_launch(schedule_.shared_bytes()),
                     .sizes = {},
                     .tensor_maps = std::move(tensor_maps_)};
    for (const std::string& symbol : symbols_) launch.sizes.push_back(Expr::symbol(symbol));
    return {std::move(kernel), std::move(launch)};
  }

 private:
  const Expr& extent(AxisId axis) const { return graph_[axis].extent; }
  // Tiles of clusters, where blocks are in such.
  Expr tiles_down() const { return ceildiv(extent(product_.m), Expr(schedule_.cluster_m())); }
  Expr tiles_across() const { return ceildiv(extent(product_.n), Expr(schedule_.cluster_n())); }
  Expr tiles() const {
    Expr count = tiles_down() * tiles_across();
    for (const AxisId axis : product_.batch) count = count * extent(axis);
    return count;
  }
  Expr blocks() const { return tiles() * Expr(schedule_.cluster_blocks()); }

  // A block copies its part of what a cluster shares.
  void declare_tensor_maps() {
    const auto lines = [&](const GpuFactor& factor, int rows, ProductCluster shared) {
      return (factor.is_along_k ? rows : schedule_.step) /
             (schedule_.cluster == shared ? schedule_.cluster_blocks() : 1);
    };
    first_map_ = declare_tensor_map(tensor_maps_, product_.first, product_.first_bulk,
                                    lines(product_.first, schedule_.block_m, ProductCluster::Across));
    second_map_ = declare_tensor_map(tensor_maps_, product_.second, product_.second_bulk,
                                     lines(product_.second, schedule_.block_n, ProductCluster::Down));
  }

  // The tile of that number: the quickest along n, or down some rows first.
  void bind_tile(const Code& number) {
    const std::string &m = graph_[product_.m].name, &n = graph_[product_.n].name;
    const bool is_compact = schedule_.tiles_together > 1;
    std::vector<Digit> digits = {{"tile_" + n, tiles_across()}, {"tile_" + m, tiles_down()}};
    if (is_compact) digits = {{"tile", tiles_across() * tiles_down()}};
    for (size_t i = product_.batch.size(); i-- > 0;) {
      const AxisId axis = product_.batch[i];
      digits.push_back({graph_[axis].name, extent(axis)});
    }
    const std::vector<Code> places = digits_of(number, digits);
    const auto [tile_m, tile_n] = is_compact ? compact_tile(places[0]) : std::pair{places[1], places[0]};
    first_n_ = let("first_" + n, index_type_, first_of(tile_n, schedule_.cluster_n(), schedule_.block_n));
    first_m_ = let("first_" + m, index_type_, first_of(tile_m, schedule_.cluster_m(), schedule_.block_m));
    for (size_t i = 0; i < product_.batch.size(); ++i) {
      coordinates_[product_.batch[i]] = places[places.size() - 1 - i];
      depths_[product_.batch[i]] = let_depth_;
    }
  }

  // Of the block's tile, in that of its cluster.
  static Code first_of(const Code& tile, int cluster, int block) {
    const Code first = times(tile, cluster);
    return cluster == block ? first : add(first, times(call("rank_in_cluster", {}), block));
  }

  std::pair<Code, Code> compact_tile(const Code& number) {
    const SymbolId row = scopes_.symbol("tile_" + graph_[product_.m].name, index_type_);
    const SymbolId column = scopes_.symbol("tile_" + graph_[product_.n].name, index_type_);
    scopes_.add({LetPair{row, column,
                         call("compact_tile", {number, index_code(tiles_down()), index_code(tiles_across())},
                              {index_type_.dtype}, {schedule_.tiles_together})},
                 ""});
    return {reference(row), reference(column)};
  }

  // One warpgroup copies the pieces of all tiles of the block, the others multiply.
  void multiply_in_bulk() {
    declare_tensor_maps();
    if (schedule_.blocks > 0) last_ = let("tiles", index_type_, index_code(tiles()));
    const GpuProductSchedule& s = schedule_;
    const std::vector<int64_t> sizes = sizes_of_stages();
    std::vector<int64_t> begun = sizes, walked = sizes, cluster;
    if (s.cluster_blocks() > 1) cluster.push_back(static_cast<int64_t>(s.cluster));
    if (s.takes_turns() || !cluster.empty()) begun.push_back(s.takes_turns() ? 1 : 0);
    for (std::vector<int64_t>* of_call : {&begun, &walked})
      of_call->insert(of_call->end(), cluster.begin(), cluster.end());
    const std::vector<int64_t> groups = {s.multiplying_threads() / (kGroupWarps * kWarpThreads)};
    const Code memory = shared_elements(product_.dtype, s.shared_bytes());
    const auto with_factors = [&](std::vector<Code> arguments, const Code& round) {
      for (Code& argument : std::vector<Code>{
               memory, bulk_matrix_of(product_.first, product_.first_bulk, first_map_, first_m_),
               bulk_matrix_of(product_.second, product_.second_bulk, second_map_, first_n_),
               index_code(extent(product_.k)), round})
        arguments.push_back(std::move(argument));
      return arguments;
    };
    const auto effect = [&](Code code, const std::string& note = "") {
      scopes_.add({Effect{std::move(code)}, note});
    };
    effect(call("begin_stages", {memory}, {}, begun));
    in_condition({call("is_copying", {}, {}, groups)}, [&] {
      effect(call("begin_copying", {}, {}, groups));
      for_each_tile(false, [&](const Code& round) {
        effect(call("copy_in_bulk", with_factors({}, round), {}, walked));
      });
      effect(call("end_thread", {}));
    });
    effect(call("begin_multiplying", {}, {}, groups));
    if (s.is_gathered())
      gathered_ = let("gathered", {product_.sums, CodeShape::Pointer},
                      call("gathered_memory", {memory}, gathered_types(), sizes));
    scopes_.blank();
    for_each_tile(s.takes_turns(), [&](const Code& round) {
      declare_sums();
      if (s.is_gathered()) bind_gathered_places();
      if (s.is_fetched()) fetch_what_results_read();
      effect(call(s.takes_turns() ? "multiply_in_turn" : "multiply_in_bulk",
                  with_factors({reference(sums_)}, round), {product_.dtype}, walked),
             "%" + graph_[product_.sum].name);
      scopes_.blank();
      if (schedule_.is_gathered()) {
        store_gathered_results();
      } else {
        store_results();
      }
    });
    if (!cluster.empty()) effect(call("end_stages", {}, {}, cluster));
  }

  std::vector<DType> gathered_types() const {
    return product_.sums == DType::F32 ? std::vector<DType>{} : std::vector{product_.sums};
  }
  int64_t rows_between_groups() const { return schedule_.takes_turns() ? 0 : schedule_.group_m(); }
  std::vector<int64_t> sizes_of_stages() const {
    return {schedule_.block_m, schedule_.block_n, schedule_.step, schedule_.group_m(), schedule_.stages};
  }

  // Those of the block, or of one of two groups in it, one after another; `body` takes how many of the block
  // were before.
  void for_each_tile(bool is_of_group, const std::function<void(const Code&)>& body) {
    const Code block = call("block_number", {}, {index_type_.dtype});
    const Code first = divided(block, schedule_.cluster_blocks());
    const int groups = is_of_group ? 2 : 1, together = schedule_.blocks / schedule_.cluster_blocks();
    const auto in_tile = [&](const Code& number, const Code& round) {
      let_depth_ = scopes_.depth();
      bind_tile(number);
      body(round);
      let_depth_ = 0;
    };
    if (schedule_.blocks == 0) return in_tile(first, integer(0));
    const SymbolId number = scopes_.symbol("number", index_type_);
    scopes_.open();
    in_tile(reference(number), divided(reference(number), together));
    Block of_tile = scopes_.close();
    const Code first_of_group = add(first, times(call("group_number", {}), together));
    scopes_.add({For{number, is_of_group ? first_of_group : first, last_, int64_t{together} * groups, "",
                     std::move(of_tile)},
                 ""});
  }

  void declare_sums() {
    sums_ = scopes_.symbol(name_of(product_.sum) + "_sums", {product_.sums, CodeShape::Scalar});
    scopes_.add({Var{.symbol = sums_, .initial = std::nullopt, .count = schedule_.sums()}, ""});
  }

  void multiply() {
    declare_sums();
    const GpuProductSchedule& s = schedule_;
    const std::string multiply = s.is_in_groups() ? "multiply_tiles_in_groups" : "multiply_tiles";
    std::vector<int64_t> sizes =
        s.is_in_groups() ? sizes_of_stages() : std::vector<int64_t>{s.block_m,  s.block_n,  s.step,
                                                                    s.warp_m(), s.warp_n(), s.stages};
    if (const int products = info(s.numbers).products; products > 1) sizes.push_back(products);
    scopes_.add({Effect{call(multiply,
                             {reference(sums_), shared_elements(product_.dtype, s.shared_bytes()),
                              matrix_of(product_.first, first_m_), matrix_of(product_.second, first_n_),
                              index_code(extent(product_.k))},
                             {product_.dtype}, sizes)},
                 "%" + graph_[product_.sum].name});
  }

  SumAxis sum_axis(AxisId axis, const Code& first, const Code& place, int block, int warp) {
    return {axis, let("own_" + graph_[axis].name, index_type_, add(first, place)), block, warp};
  }

  void store_results() {
    const GpuProductSchedule& s = schedule_;
    const Code row = s.is_in_groups() ? call("row_of_group_sums", {}, {}, {rows_between_groups()})
                                      : call("row_of_sums", {}, {}, {s.warp_m(), s.warps_n});
    const Code column = call("column_of_sums", {}, {}, {s.warp_n(), s.warps_n});
    SumAxis rows = sum_axis(product_.m, first_m_, row, s.cluster_m(), s.warp_m());
    if (s.is_in_groups()) rows.apart = kGroupWarps * kMatrixRows;
    const SumAxis columns = sum_axis(product_.n, first_n_, column, s.cluster_n(), s.warp_n());
    for_each_row(rows, Beyond::LeaveOut, [&] {
      for_each_column(columns, [&] {
        for (const TileStore& store : graph_.stores) emit_store(store);
      });
    });
  }

  void bind_gathered_places() {
    own_m_ = let("own_" + graph_[product_.m].name, index_type_,
                 add(first_m_, call("row_of_gathered_sums", {}, {}, {rows_between_groups()})));
    own_n_ = let("own_" + graph_[product_.n].name, index_type_,
                 add(first_n_, call("column_of_gathered_sums", {})));
  }

  // 64 rows and 64 columns of a warpgroup at a time, of which a warp has 16 rows.
  void for_each_gathered_piece(const std::function<void(const Code&, int)>& body) {
    const SymbolId piece = scopes_.symbol("piece", {DType::I32, CodeShape::Scalar});
    const int pieces_across = schedule_.block_n / kGatheredColumns;
    unrolled(piece, schedule_.group_m() / (kGroupWarps * kMatrixRows) * pieces_across, "",
             [&] { body(reference(piece), pieces_across); });
  }

  void store_gathered_results() {
    for_each_gathered_piece([&](const Code& piece, int pieces_across) {
      scopes_.add({Effect{call("gather_sums", {gathered_, reference(sums_), piece}, {}, {schedule_.block_n})},
                   "%" + graph_[product_.sum].name});
      for_each_gathered_place(piece, pieces_across, [&] {
        for (const TileStore& store : graph_.stores) emit_store(store);
      });
    });
  }

  void fetch_what_results_read() {
    for_each_gathered_piece([&](const Code& piece, int pieces_across) {
      for_each_gathered_place(piece, pieces_across, [&] {
        for (const TileValueId id : product_.element_loads) {
          const auto& load = std::get<TileLoad>(graph_[id].op);
          scopes_.add({Effect{call("fetch", {pointer_at(load.buffer, load.offset)})}, "%" + graph_[id].name});
        }
      });
    });
  }

  // Long functions need registers for what they compute of one place, and are not unrolled.
  void for_each_gathered_place(const Code& piece, int pieces_across, const std::function<void()>& body) {
    const int threads = std::min(kGatheredColumns / lanes_.vector, kWarpThreads);
    const int lines = kWarpThreads / threads, columns = threads * lanes_.vector;
    const CodeType place{DType::I32, CodeShape::Scalar};
    const SymbolId row = scopes_.symbol("row_place", place), column = scopes_.symbol("column_place", place);
    const auto in_place = [&](const Code& column_place) {
      line_ = times(reference(row), lines);
      column_of_line_ = times(column_place, columns);
      const Code at =
          add(add(own_m_, times(divided(piece, pieces_across), int64_t{kGroupWarps} * kMatrixRows)), line_);
      const Code coordinate = scopes_.let(scopes_.depth(), graph_[product_.m].name, index_type_, at);
      in_condition(if_inside(product_.m, coordinate, schedule_.cluster_m()), [&] {
        coordinates_[product_.m] = coordinate;
        depths_[product_.m] = scopes_.depth();
        column_ = add(add(own_n_, times(rest_of(piece, pieces_across), kGatheredColumns)), column_of_line_);
        column_depth_ = scopes_.depth();
        in_condition(if_inside(product_.n, this->column(), schedule_.cluster_n()), body);
      });
    };
    const int rows = kMatrixRows / lines;
    places(row, rows, product_.m, [&] {
      if (columns == kGatheredColumns) return in_place(integer(0));
      places(column, kGatheredColumns / columns, product_.n, [&] { in_place(reference(column)); });
    });
  }

  void places(SymbolId place, int count, AxisId axis, const std::function<void()>& body) {
    scopes_.open();
    body();
    Block block = scopes_.close();
    scopes_.add({For{place, integer(0), integer(count), 1, graph_[axis].name, std::move(block),
                     product_.has_long_function ? 1 : std::min(count, kUnrolledPlaces)},
                 ""});
  }

  std::optional<Computed> held(TileValueId id) override {
    if (id != product_.sum) return std::nullopt;
    if (!schedule_.is_gathered()) return sum_at(sums_, schedule_.warp_n(), id);
    Code sums = call("gathered_sums", {gathered_, line_, column_of_line_});
    const bool is_vector = lanes_.vector > 1;
    if (!is_vector) sums = subscript(Code{Member{{std::move(sums)}, "r"}}, integer(0));
    const int depth = scopes_.depth();
    return Computed{scopes_.let(depth, name_of(id), type_of(id, is_vector), std::move(sums)), depth,
                    is_vector};
  }

  const GpuProduct& product_;
  const GpuProductSchedule& schedule_;
  Code first_m_, first_n_;  // of the block's tile
  Code last_;               // behind the last tile
  // Of gathered sums: where they are, the first one of the thread, and of those at hand, in the piece.
  Code gathered_, own_m_, own_n_, line_, column_of_line_;
  SymbolId sums_, first_map_, second_map_;
  std::vector<GpuTensorMap> tensor_maps_;
};

}  // namespace

GpuProgram lower_to_gpu_product(const TileGraph& graph, const GpuProduct& product,
                                const GpuProductSchedule& schedule) {
  return ProductLowering(graph, product, schedule).run();
}

}  // namespace tilefuse
