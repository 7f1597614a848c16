#include "tests/gpu/product_cases.h"

#include <bit>
#include <ostream>

namespace tilefuse {
namespace {

int number(int64_t i) { return static_cast<int>((i * 7 + i / 5 + i / 37) % 9) - 4; }

// Of a small number with few bits: those of eight bits are the first ones of f16, or one bit further.
uint64_t bits_of(const std::string& dtype, int number) {
  const uint64_t value = std::bit_cast<uint32_t>(static_cast<float>(number));
  if (dtype == "float") return value;
  if (dtype.ends_with("char")) return static_cast<uint64_t>(number) & 0xff;
  if (dtype == "bf16") return find_operation("cvt.rn.bf16.f32")->compute(&value);
  const uint64_t half = find_operation("cvt.rn.f16.f32")->compute(&value);
  if (dtype == "f16") return half;
  if (dtype == "f8e5m2") return half >> 8;
  constexpr uint64_t kBiasApart = 8;  // of exponents, 15 and 7
  return number == 0 ? 0 : (half >> 8 & 0x80) | ((half >> 7 & 0xff) - (kBiasApart << 3));
}

}  // namespace

int element_bytes(const std::string& dtype) {
  if (dtype == "float") return 4;
  return dtype == "bf16" || dtype == "f16" ? 2 : 1;
}

int Matrix::at(int row, int k) const { return number(place(row, k)) + plus; }

int64_t Matrix::place(int row, int k) const {
  return is_along_k ? int64_t{row} * pitch + k : int64_t{k} * pitch + row;
}

GpuBuffer Matrix::buffer(const std::string& dtype) const {
  GpuBuffer made;
  for (int64_t i = 0; i <= place(rows - 1, depth - 1); ++i) {
    const uint64_t bits = bits_of(dtype, number(i) + plus);
    for (int byte = 0; byte < element_bytes(dtype); ++byte)
      made.bytes.push_back(static_cast<unsigned char>(bits >> (8 * byte)));
  }
  return made;
}

std::vector<GpuBuffer> MatrixProduct::buffers() const {
  std::vector<GpuBuffer> made = {a().buffer(a_dtype), b().buffer(dtype), {}};
  made[2].bytes.resize(static_cast<size_t>(m * matrices()) * static_cast<size_t>(n) * 4);
  made[2].is_output = true;
  return made;
}

std::vector<TensorMapLayout> MatrixProduct::maps() const {
  if (!is_bulk) return {};
  const auto map = [&](size_t buffer, const Matrix& matrix, int rows, int block, bool has_batch) {
    const auto number = [](int64_t n) { return static_cast<uint64_t>(n); };
    const uint64_t along = number(matrix.is_along_k ? k : rows), lines = number(matrix.is_along_k ? rows : k);
    const uint64_t pitch = number(matrix.pitch) * 2;
    TensorMapLayout made{.buffer = buffer,
                         .extents = {along, lines},
                         .strides = {pitch},
                         .box = {64, number(matrix.is_along_k ? block : step)}};
    if (!has_batch) return made;
    made.extents.push_back(number(batch));
    made.strides.push_back(is_between_lines ? along * 2 : lines * pitch);
    made.box.push_back(1);
    return made;
  };
  return {map(0, a(), m, block_m, batch > 0), map(1, b(), n, block_n, batch > 0 && !shares_b)};
}

void PrintTo(const MatrixProduct& product, std::ostream* out) { *out << product.name; }

namespace {

// Of two lanes: a warp has one line of 64 columns at a time.
std::string gathered_results(const MatrixProduct& p, const std::string& memory, const std::string& sizes) {
  const std::string columns = std::to_string(p.block_n), across = std::to_string(p.block_n / 64);
  return "  float* mine = gathered_memory<" + sizes + ">(" + memory +
         ");\n  const int64_t row = first_m + row_of_gathered_sums<" +
         std::to_string(p.takes_turns ? 0 : p.group_rows) +
         ">(), column = first_n + column_of_gathered_sums();\n#pragma unroll\n  for (int piece = 0; piece "
         "< " +
         std::to_string(p.group_rows / 64 * p.block_n / 64) + "; ++piece) {\n    gather_sums<" + columns +
         ">(mine, sums, piece);\n    for (int line = 0; line < 16; ++line) {\n      const Vec<float> two = "
         "gathered_sums(mine, line, 0);\n      const int64_t own_row = row + piece / " +
         across + " * 64 + line, own = column + piece % " + across +
         " * 64;\n      if (own_row >= m) continue;\n      if (own < n) c[(matrix * m + own_row) * n + own] "
         "= "
         "two.r[0];\n      if (own + 1 < n) c[(matrix * m + own_row) * n + own + 1] = two.r[1];\n    }\n  "
         "}\n";
}

}  // namespace

std::string source_of(const MatrixProduct& p) {
  const auto numbers = [](const std::vector<int>& values) {
    std::string text;
    for (const int value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
    return text;
  };
  const auto operand = [&](const char* name, bool is_along_k, const std::string& first) {
    if (p.is_bulk) {
      const bool has_batch = p.batch > 0 && !(p.shares_b && std::string(name) == "b");
      return std::string(is_along_k ? "bulk_along_k(" : "bulk_along_rows(") + name + "_map, " + first +
             (has_batch ? ", matrix" : "") + "), ";
    }
    const std::string kind = p.is_wide ? "wide_along_" : "single_along_";
    return kind + (is_along_k ? "k(" : "rows(") + name + " + " + first +
           (is_along_k ? std::string(" * ") + name + "_pitch" : "") + ", " + name + "_pitch, " +
           (std::string(name) == "a" ? "m - first_m), " : "n - first_n), ");
  };
  const bool is_by_groups = p.group_rows > 0;
  const int warps_across = is_by_groups ? 1 : p.block_n / p.warp_n, columns = p.block_n / warps_across;
  const int rows = is_by_groups ? p.group_rows / 4 : p.warp_m;  // of a warp
  std::string how = is_by_groups ? "multiply_tiles_in_groups<" : "multiply_tiles<";
  const std::string maps =
      p.is_bulk ? ", const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map" : "";
  const std::vector<int> sizes = is_by_groups
                                     ? std::vector{p.block_m, p.block_n, p.step, p.group_rows, p.stages}
                                     : std::vector{p.block_m, p.block_n, p.step, rows, columns, p.stages};
  const std::string memory = p.given_bytes() > 0 ? "given_elements<" + p.dtype + ">()"
                                                 : "shared_elements<" + p.dtype + ", " +
                                                       std::to_string(p.shared_bytes() / 2) + ">()";
  const std::string place = "\n  const int64_t first_m = tile / across * " + numbers({p.block_m}) +
                            ", first_n = tile % across * " + numbers({p.block_n}) + ";\n";
  std::string begin = "  const int64_t number = block_number<int64_t>();\n";
  if (p.is_bulk) {
    const std::string groups = numbers({p.multiplying_groups()}),
                      blocks = numbers({static_cast<int>(p.grid().blocks)});
    const auto loop_from = [&](const std::string& first, const std::string& step) {
      return "  for (int64_t number = block_number<int64_t>()" + first + "; number < tiles * " +
             numbers({p.matrices()}) + "; number += " + step + ") {\n  const int round = (int)(number / " +
             blocks + ");\n";
    };
    const std::string loop = loop_from("", blocks),
                      own_loop =
                          p.takes_turns ? loop_from(" + group_number() * " + blocks, "2 * " + blocks) : loop;
    how = p.takes_turns ? "multiply_in_turn<" : "multiply_in_bulk<";
    begin = "  begin_stages<" + numbers(sizes) + (p.takes_turns ? ", true" : "") + ">(" + memory +
            ");\n  if (is_copying<" + groups + ">()) {\n  begin_copying<" + groups + ">();\n" + loop +
            "  const int64_t tile = number % tiles, matrix = number / tiles;" + place + "  copy_in_bulk<" +
            numbers(sizes) + ">(" + memory + ", " + operand("a", p.a_along_k, "first_m") +
            operand("b", p.b_along_k, "first_n") +
            "k, round);\n  }\n  end_thread();\n  }\n  begin_multiplying<" + groups + ">();\n" + own_loop;
  }
  const std::string own_row = is_by_groups
                                  ? "row_of_group_sums<" + numbers({p.takes_turns ? 0 : p.group_rows})
                                  : "row_of_sums<" + numbers({rows, warps_across});
  const std::string held =
      "  const int64_t row = first_m + " + own_row + ">(), column = first_n + column_of_sums<" +
      numbers({columns, warps_across}) + ">();\n  constexpr int kI = " + numbers({rows / 16}) +
      ", kJ = " + numbers({columns / 8}) + ", kApart = " + numbers({is_by_groups ? 64 : 16}) + R"(;
#pragma unroll
  for (int at = 0; at < kI * kJ * 4; ++at) {
    const int64_t own_row = row + at / 4 / kJ * kApart + at / 2 % 2 * 8, own = column + at / 4 % kJ * 8 + at % 2;
    if (own_row < m && own < n) c[(matrix * m + own_row) * n + own] = sums[at];
  }
)";
  return R"(#define TILEFUSE_LANES 2
#include "tilefuse_cuda.h"
namespace tile {
extern "C" __global__ void __launch_bounds__()" +
         std::to_string(p.threads()) + ", 1) product(const " + p.a_dtype + "* __restrict__ a, const " +
         p.dtype +
         "* __restrict__ b, float* __restrict__ c, int64_t m, int64_t n, int64_t k, int64_t a_pitch,\n"
         "    int64_t b_pitch" +
         maps + ") {\n  const int64_t across = (n + " + numbers({p.block_n - 1}) + ") / " +
         numbers({p.block_n}) + ", tiles = across * ((m + " + numbers({p.block_m - 1}) + ") / " +
         numbers({p.block_m}) + ");\n" + begin +
         "  const int64_t tile = number % tiles, matrix = number / tiles;" + place + "  float sums[" +
         numbers({rows * columns / 32}) + "];\n  " + how + p.dtype + ", " + numbers(sizes) + ">(sums, " +
         memory + ", " + operand("a", p.a_along_k, "first_m") + operand("b", p.b_along_k, "first_n") +
         (p.is_bulk ? "k, round" : "k") + ");\n" +
         (p.is_gathered ? gathered_results(p, memory, numbers(sizes)) : held) + (p.is_bulk ? "  }\n" : "") +
         "}\n}  // namespace tile\n";
}

std::vector<MatrixProduct> product_cases() {
  return {MatrixProduct{.name = "whole_tiles", .m = 64, .n = 128, .k = 64},
          MatrixProduct{.name = "halves", .dtype = "f16", .m = 64, .n = 64, .k = 96, .stages = 3},
          MatrixProduct{.name = "ragged", .m = 72, .n = 40, .k = 56},
          MatrixProduct{.name = "first_along_rows", .m = 72, .n = 40, .k = 56, .a_along_k = false},
          MatrixProduct{.name = "second_along_rows",
                        .m = 72,
                        .n = 40,
                        .k = 50,
                        .a_along_k = true,
                        .b_along_k = false,
                        .gap = 6},
          MatrixProduct{
              .name = "both_along_rows", .m = 72, .n = 40, .k = 37, .a_along_k = false, .b_along_k = false},
          MatrixProduct{.name = "not_aligned", .m = 37, .n = 29, .k = 19, .is_wide = false},
          MatrixProduct{.name = "not_aligned_along_rows",
                        .m = 37,
                        .n = 29,
                        .k = 19,
                        .a_along_k = false,
                        .b_along_k = false,
                        .is_wide = false},
          MatrixProduct{
              .name = "narrowed_on_the_way", .m = 64, .n = 64, .k = 48, .is_wide = false, .a_dtype = "float"},
          MatrixProduct{.name = "small_tiles",
                        .m = 48,
                        .n = 48,
                        .k = 48,
                        .block_m = 32,
                        .block_n = 32,
                        .step = 16,
                        .warp_m = 16,
                        .warp_n = 16,
                        .stages = 4},
          MatrixProduct{.name = "large_tiles",
                        .m = 128,
                        .n = 136,
                        .k = 64,
                        .a_along_k = true,
                        .b_along_k = false,
                        .block_m = 128,
                        .block_n = 128,
                        .step = 32,
                        .warp_m = 64,
                        .warp_n = 32,
                        .stages = 3},
          MatrixProduct{.name = "given_memory",
                        .m = 128,
                        .n = 136,
                        .k = 160,
                        .block_m = 128,
                        .block_n = 128,
                        .step = 32,
                        .warp_m = 64,
                        .warp_n = 32,
                        .stages = 4},
          MatrixProduct{.name = "long_steps",
                        .m = 64,
                        .n = 64,
                        .k = 200,
                        .a_along_k = false,
                        .b_along_k = true,
                        .step = 64}};
}

namespace {

// A ragged product by warpgroups.
MatrixProduct by_groups(const std::string& name, int group_rows, int stages) {
  MatrixProduct made{.name = name, .m = 136, .n = 72, .k = 264, .block_m = 128, .block_n = 64, .step = 64};
  made.group_rows = group_rows;
  made.stages = stages;
  return made;
}

}  // namespace

std::vector<MatrixProduct> group_product_cases() {
  const auto of = [](const char* name, int group_rows, int stages) {
    return by_groups(std::string("groups_") + name, group_rows, stages);
  };
  MatrixProduct whole = of("whole_tiles", 64, 3), halves = of("halves", 64, 4),
                first = of("first_along_rows", 64, 4);
  whole.m = 128, whole.n = 64, whole.k = 128;
  halves.dtype = halves.a_dtype = "f16";
  first.a_along_k = false;
  MatrixProduct second = of("second_along_rows", 64, 3), both = of("both_along_rows", 128, 5);
  second.b_along_k = both.a_along_k = both.b_along_k = false;
  both.block_n = 128;
  MatrixProduct narrow = of("narrow", 64, 3), narrower = of("narrow_along_rows", 64, 3);
  narrow.block_m = narrower.block_m = 64;
  narrow.block_n = narrower.block_n = 16;
  narrower.b_along_k = false;
  MatrixProduct wide = of("wide", 64, 3), tall = of("tall", 128, 3),
                loaded = of("narrowed_on_the_way", 128, 3);
  wide.block_n = 256;
  wide.b_along_k = false;
  tall.block_m = 256;
  tall.block_n = 128;
  loaded.is_wide = false;
  loaded.a_dtype = "float";
  MatrixProduct shorter = of("short", 64, 6);
  shorter.k = 24;
  return {
      of("ragged", 64, 4), whole, halves, first, second, both, narrow, narrower, wide, tall, loaded, shorter};
}

std::vector<MatrixProduct> bulk_product_cases() {
  const auto of = [](const char* name, int group_rows, int stages) {
    MatrixProduct made = by_groups(std::string("bulk_") + name, group_rows, stages);
    made.is_bulk = true;
    return made;
  };
  MatrixProduct whole = of("whole_tiles", 64, 3), halves = of("halves", 128, 4),
                first = of("first_along_rows", 64, 4);
  whole.m = 128, whole.n = 64, whole.k = 512;
  halves.dtype = halves.a_dtype = "f16";
  first.a_along_k = false;
  MatrixProduct second = of("second_along_rows", 128, 3), both = of("both_along_rows", 128, 5);
  second.b_along_k = both.a_along_k = both.b_along_k = false;
  both.block_n = 128;
  MatrixProduct wide = of("wide", 64, 3), tall = of("tall", 128, 3), apart = of("lines_apart", 64, 4);
  wide.block_n = 256;
  wide.b_along_k = false;
  tall.block_m = 256;
  tall.block_n = 128;
  apart.gap = 24;
  MatrixProduct shorter = of("short", 64, 6), batch = of("batch", 64, 3),
                shared = of("batch_of_one_second", 64, 4);
  shorter.k = 24;
  batch.batch = shared.batch = 3;
  batch.m = shared.m = 72;
  shared.shares_b = true;
  shared.b_along_k = false;
  MatrixProduct further = of("further_tiles", 64, 3), further_of_batch = batch;
  further.n = 200;
  further_of_batch.name = "bulk_further_tiles_of_a_batch";
  further.resident = further_of_batch.resident = 2;
  MatrixProduct between = shared;
  between.name = "bulk_batch_between_lines";
  between.is_between_lines = true;
  MatrixProduct gathered = of("gathered", 64, 4), turns = of("in_turns", 64, 3),
                gathered_turns = of("gathered_in_turns", 128, 4);
  gathered.block_n = gathered_turns.block_n = 128;
  turns.block_m = 64;
  gathered.n = turns.n = gathered_turns.n = 200;
  gathered.is_gathered = gathered_turns.is_gathered = true;
  turns.takes_turns = gathered_turns.takes_turns = true;
  gathered.resident = turns.resident = 2;
  gathered_turns.resident = 1;
  return {of("ragged", 64, 4),
          whole,
          halves,
          first,
          second,
          both,
          wide,
          tall,
          apart,
          shorter,
          batch,
          shared,
          further,
          further_of_batch,
          between,
          gathered,
          turns,
          gathered_turns};
}

}  // namespace tilefuse
