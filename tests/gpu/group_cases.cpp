#include "tests/gpu/group_cases.h"

#include <algorithm>
#include <ostream>

namespace tilefuse {
namespace {

constexpr int kDepth = GroupCase::kDepth, kChunk = 8;  // elements of 16 bytes

// `coordinate` in a shape, the first one the quickest, as CuTe's layouts have it: elements from the begin.
int at(int coordinate, const std::vector<int>& shape, const std::vector<int>& strides) {
  int place = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is_last = i + 1 == shape.size();
    place += (is_last ? coordinate : coordinate % shape[i]) * strides[i];
    coordinate /= shape[i];
  }
  return place;
}

}  // namespace

int SharedFactor::leading() const {
  if (line_bytes == 16) return rows / 8 * stride();
  return is_turned ? kDepth / 8 * stride() : 16;
}

int SharedFactor::bytes() const {
  if (line_bytes == 16) return kDepth / 8 * leading();
  if (is_turned) return std::max(1, rows / (line_bytes / 2)) * leading();
  return kDepth / (line_bytes / 2) * (rows / 8 * stride());
}

int SharedFactor::start(int step) const {
  if (line_bytes == 16) return step * 2 * leading();
  if (is_turned) return step * 2 * stride();
  const int steps = line_bytes / 32;  // in a line
  return step / steps * (rows / 8 * stride()) + step % steps * 32;
}

int SharedFactor::place(int row, int k) const {
  const int line = line_bytes / 2, next = stride() / 2, further = leading() / 2;
  if (line_bytes == 16 && is_turned)  // ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
    return 2 * (at(row, {kChunk, 1, rows}, {1, kChunk, next}) + at(k, {8, kDepth}, {kChunk, further}));
  if (line_bytes == 16)  // ((8,m),(T,2k)):((1T,SBO),(1,LBO))
    return 2 * (at(row, {8, rows}, {kChunk, next}) + at(k, {kChunk, kDepth}, {1, further}));
  int place = 0;
  if (is_turned) {  // ((T,c,m),(8,k)):((1,T,LBO),(cT,SBO)), c chunks in a line
    place =
        2 * (at(row, {kChunk, line / kChunk, rows}, {1, kChunk, further}) + at(k, {8, kDepth}, {line, next}));
  } else {  // ((8,m),(T,2k)):((cT,SBO),(1,T)), and behind a line the next piece
    place = 2 * (at(row, {8, rows}, {line, next}) + at(k % line, {kChunk, kDepth}, {1, kChunk})) +
            k / line * (rows / 8 * stride());
  }
  const int exchanged = line_bytes == 128  ? 7
                        : line_bytes == 64 ? 3
                                           : 1;  // Swizzle<3, 4, 3>, <2, 4, 3>, <1, 4, 3>
  return place ^ (place >> 7 & exchanged) << 4;
}

std::vector<GpuBuffer> GroupCase::buffers() const {
  std::vector<GpuBuffer> made = {{}, a().buffer(dtype), {}};
  made[0].bytes.resize(size_t(shared_bytes()));
  const std::vector<unsigned char> plain_a = made[1].bytes, plain_b = b().buffer(second_dtype).bytes;
  const auto lay_out = [&](const SharedFactor& factor, const std::vector<unsigned char>& plain, int begin) {
    for (int row = 0; row < factor.rows; ++row) {
      for (int k = 0; k < kDepth; ++k) {  // 16 bits at a time, whatever they are
        std::copy_n(plain.begin() + (row * kDepth + k) * 2, 2,
                    made[0].bytes.begin() + begin + factor.place(row, k));
      }
    }
  };
  lay_out(first, plain_a, 0);
  lay_out(second, plain_b, second_begin());
  made[2].bytes.resize(size_t(first.rows * second.rows) * 4);
  made[2].is_output = true;
  return made;
}

void PrintTo(const GroupCase& product, std::ostream* out) { *out << product.name; }

std::string source_of(const GroupCase& p) {
  const auto text = [](int number) { return std::to_string(number); };
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  const auto matrix = [&](const SharedFactor& factor, int begin, int step) {
    return "shared_matrix<" + text(factor.line_bytes) + ">(shared + " + text(begin + factor.start(step)) +
           ", " + text(factor.leading()) + ", " + text(factor.stride()) + ")";
  };
  std::string products, fragments;
  for (int step = 0; step < kDepth / 16; ++step) {
    const std::string second = matrix(p.second, p.second_begin(), step);
    if (p.is_of_numbers()) {
      products += "  multiply_group_of<" + text(p.second.rows) + ", " + flag(step > 0 || !p.forgets) +
                  ">(As<" + p.dtype + ">(), As<" + p.second_dtype + ">(), sums, " + matrix(p.first, 0, step) +
                  ", " + second + ");\n";
    } else if (p.is_first_in_registers) {
      fragments += "  const unsigned* at_" + text(step) + " = a + row * 32 + " + text(step * 8) +
                   " + thread_number() % 4;\n  unsigned first_" + text(step) + "[4] = {at_" + text(step) +
                   "[0], at_" + text(step) + "[8 * 32], at_" + text(step) + "[4], at_" + text(step) +
                   "[8 * 32 + 4]};\n  settle(first_" + text(step) + ");\n";
      products += "  multiply_group<" + p.dtype + ", " + text(p.second.rows) + ", " +
                  flag(p.second.is_turned) + ">(sums, first_" + text(step) + ", " + second + ");\n";
    } else {
      products += "  multiply_group<" + p.dtype + ", " + text(p.second.rows) + ", " +
                  flag(p.first.is_turned) + ", " + flag(p.second.is_turned) + ">(sums, " +
                  matrix(p.first, 0, step) + ", " + second + ");\n";
    }
  }
  return "#define SUM " + std::string(p.has_integers() ? "int" : "float") + R"(
#define TILEFUSE_LANES 2
#include "tilefuse_cuda.h"
namespace tile {
extern "C" __global__ void __launch_bounds__(128, 1) product(
    const unsigned* __restrict__ image, const unsigned* __restrict__ a, SUM* __restrict__ c) {
  constexpr int kWords = )" +
         text(p.shared_bytes() / 4) + ", kColumns = " + text(p.second.rows) + R"(;
  unsigned* words = shared_elements<unsigned, kWords>();
  const unsigned shared = shared_address(words);
  const int row = thread_number() / 32 * 16 + thread_number() % 32 / 4, column = thread_number() % 4 * 2;
  for (int i = thread_number(); i < kWords; i += 128) words[i] = image[i];
)" + fragments +
         R"(  SUM sums[kColumns / 2];
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) sums[i] = 1;
  settle(sums);
  show_to_products();
  meet_all();
  begin_products();
)" + products +
         R"(  commit_products();
  wait_for_products<0>();
  settle(sums);
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i)
    c[(row + i / 2 % 2 * 8) * kColumns + i / 4 * 8 + column + i % 2] = sums[i];
}
}  // namespace tile
)";
}

std::vector<GroupCase> group_cases() {
  std::vector<GroupCase> cases;
  for (const int line : {16, 32, 64, 128}) {
    for (const bool first_turned : {false, true}) {
      for (const bool second_turned : {false, true}) {
        cases.push_back({.name = (line == 16 ? "without_a_pattern" : "lines_of_" + std::to_string(line)) +
                                 (first_turned ? "_first_turned" : "") +
                                 (second_turned ? "_second_turned" : ""),
                         .first = {.line_bytes = line, .is_turned = first_turned},
                         .second = {.line_bytes = line, .is_turned = second_turned}});
      }
    }
  }
  cases.push_back({.name = "halves", .dtype = "f16"});
  cases.push_back({.name = "halves_in_registers", .dtype = "f16", .is_first_in_registers = true});
  cases.push_back({.name = "first_in_registers",
                   .second = {.rows = 128, .is_turned = true},
                   .is_first_in_registers = true});
  cases.push_back({.name = "patterns_apart", .first = {.gap = 1}, .second = {.line_bytes = 64, .gap = 1}});
  cases.push_back({.name = "columns_16", .second = {.rows = 16, .line_bytes = 32, .is_turned = true}});
  cases.push_back({.name = "columns_32", .second = {.rows = 32}});
  cases.push_back(
      {.name = "columns_128", .first = {.is_turned = true}, .second = {.rows = 128, .is_turned = true}});
  cases.push_back({.name = "columns_256", .second = {.rows = 256}});
  for (const auto& [first, second] :
       {std::pair{"float", "float"}, std::pair{"f8e4m3fn", "f8e4m3fn"}, std::pair{"f8e4m3fn", "f8e5m2"},
        std::pair{"f8e5m2", "f8e4m3fn"}, std::pair{"f8e5m2", "f8e5m2"},
        std::pair{"signed char", "signed char"}, std::pair{"signed char", "unsigned char"},
        std::pair{"unsigned char", "signed char"}, std::pair{"unsigned char", "unsigned char"}}) {
    std::string name = std::string("of_") + first + "_and_" + second;
    std::replace(name.begin(), name.end(), ' ', '_');
    cases.push_back({.name = name, .dtype = first, .second_dtype = second});
  }
  for (const char* dtype : {"float", "f8e4m3fn", "unsigned char"}) {
    const std::string name = std::string(dtype).substr(0, 5);
    for (const int columns : {16, 32, 128, 256}) {
      cases.push_back({.name = name + "_columns_" + std::to_string(columns),
                       .dtype = dtype,
                       .second = {.rows = columns}});
    }
    cases.push_back({.name = name + "_lines_of_64",
                     .dtype = dtype,
                     .first = {.line_bytes = 64},
                     .second = {.line_bytes = 64},
                     .forgets = true});
  }
  return cases;
}

}  // namespace tilefuse
