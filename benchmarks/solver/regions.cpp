#include "benchmarks/solver/regions.h"

#include <map>

namespace tilefuse {
namespace {

// Replaces R, C, T and E by the case's rows, columns, product and element type.
std::string filled(std::string text, int64_t rows, int64_t cols, const std::string& dtype) {
  const std::map<std::string, std::string> words = {{"$R", std::to_string(rows)},
                                                    {"$C", std::to_string(cols)},
                                                    {"$N", std::to_string(rows * cols)},
                                                    {"$E", dtype}};
  for (const auto& [word, replacement] : words) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      text.replace(at, word.size(), replacement);
    }
  }
  return text;
}

constexpr const char* kRows = "  axes row: $R, col: $C\n";
constexpr const char* kInOut = "  buffers %x: $E[$R, $C] in, %y: $E[$R, $C] out\n";

const std::map<std::string, std::string>& families() {
  static const std::map<std::string, std::string> table = {
      {"softmax",
       std::string(kRows) + kInOut +
           "  %0 = load %x[row*$C + col] : $E[row, col]\n  %m = reduce.max(%0) over col : f32[row]\n"
           "  %1 = sub(%0, %m) : f32[row, col]\n  %e = exp(%1) : f32[row, col]\n"
           "  %s = reduce.sum(%e) over col : f32[row]\n  %2 = div(%e, %s) : $E[row, col]\n"
           "  store %2 -> %y[row*$C + col]\n"},
      {"norm", std::string(kRows) + kInOut +
                   "  %0 = load %x[row*$C + col] : $E[row, col]\n  %q = square(%0) : f32[row, col]\n"
                   "  %s = reduce.sum(%q) over col : f32[row]\n  %r = rsqrt(%s) : f32[row]\n"
                   "  %2 = mul(%0, %r) : $E[row, col]\n  store %2 -> %y[row*$C + col]\n"},
      {"row_sum",
       std::string(kRows) +
           "  buffers %x: $E[$R, $C] in, %y: f32[$R] out\n"
           "  %0 = load %x[row*$C + col] : $E[row, col]\n  %s = reduce.sum(%0) over col : f32[row]\n"
           "  store %s -> %y[row]\n"},
      {"column_sum",
       "  axes col: $C, row: $R\n  buffers %x: $E[$R, $C] in, %y: f32[$C] out\n"
       "  %0 = load %x[row*$C + col] : $E[col, row]\n  %s = reduce.sum(%0) over row : f32[col]\n"
       "  store %s -> %y[col]\n"},
      {"transpose",
       "  axes j: $C, i: $R\n  buffers %x: $E[$R, $C] in, %b: $E[$C, $R] in, %y: $E[$C, $R] out\n"
       "  %0 = load %x[i*$C + j] : $E[j, i]\n  %1 = load %b[j*$R + i] : $E[j, i]\n"
       "  %2 = add(%0, %1) : $E[j, i]\n  store %2 -> %y[j*$R + i]\n"},
      {"map",
       "  axes n: $N\n  buffers %x: $E[$N] in, %z: $E[$N] in, %y: $E[$N] out\n"
       "  %0 = load %x[n] : $E[n]\n  %1 = load %z[n] : $E[n]\n  %2 = tanh(%0) : f32[n]\n"
       "  %3 = mul(%2, %1) : $E[n]\n  store %3 -> %y[n]\n"},
      {"bias_relu", std::string(kRows) +
                        "  buffers %x: $E[$R, $C] in, %b: $E[$C] in, %y: $E[$R, $C] out\n"
                        "  %0 = load %x[row*$C + col] : $E[row, col]\n  %1 = load %b[col] : $E[col]\n"
                        "  %2 = add(%0, %1) : f32[row, col]\n  %z = constant 0.0 : f32[]\n"
                        "  %3 = max(%2, %z) : $E[row, col]\n  store %3 -> %y[row*$C + col]\n"},
  };
  return table;
}

struct Case {
  const char* family;
  int64_t rows, cols;
  const char* dtype;
};

constexpr Case kCases[] = {
    {"softmax", 4096, 64, "f32"},      {"softmax", 1024, 512, "f32"},     {"softmax", 2048, 1024, "f32"},
    {"softmax", 128, 8192, "f32"},     {"softmax", 16384, 512, "f32"},    {"softmax", 1024, 512, "bf16"},
    {"softmax", 16384, 512, "bf16"},   {"softmax", 333, 1000, "f32"},     {"norm", 4096, 64, "f32"},
    {"norm", 512, 1024, "f32"},        {"norm", 1024, 768, "bf16"},       {"norm", 16384, 1024, "f32"},
    {"norm", 65536, 256, "bf16"},      {"norm", 256, 16384, "f32"},       {"norm", 1000, 333, "f32"},
    {"row_sum", 8192, 64, "f32"},      {"row_sum", 65536, 16, "f32"},     {"row_sum", 512, 4096, "f32"},
    {"row_sum", 8192, 4096, "f32"},    {"row_sum", 1, 1048576, "f32"},    {"row_sum", 4, 262144, "bf16"},
    {"column_sum", 1024, 1024, "f32"}, {"column_sum", 8192, 1024, "f32"}, {"column_sum", 65536, 64, "f32"},
    {"column_sum", 256, 16384, "f32"}, {"column_sum", 4096, 768, "bf16"}, {"column_sum", 512, 50257, "f32"},
    {"transpose", 512, 512, "f32"},    {"transpose", 2048, 2048, "f32"},  {"transpose", 1000, 777, "f32"},
    {"transpose", 1024, 1024, "bf16"}, {"map", 64, 1024, "f32"},          {"map", 1024, 1024, "f32"},
    {"map", 8192, 1024, "f32"},        {"map", 1024, 1024, "bf16"},       {"map", 8192, 2048, "bf16"},
    {"bias_relu", 512, 768, "f32"},    {"bias_relu", 8192, 3072, "f32"},  {"bias_relu", 4096, 3072, "bf16"},
    {"bias_relu", 333, 50, "f32"},     {"bias_relu", 65536, 3, "f32"},    {"row_sum", 65536, 3, "f32"},
};

}  // namespace

std::vector<BenchmarkRegion> benchmark_regions() {
  std::vector<BenchmarkRegion> regions;
  for (const Case& region : kCases) {
    const std::string name = std::string(region.family) + "_" + std::to_string(region.rows) + "_" +
                             std::to_string(region.cols) + "_" + region.dtype;
    const std::string body = filled(families().at(region.family), region.rows, region.cols, region.dtype);
    std::string text = "tile_graph ";
    text.append(name).append(" {\n").append(body).append("}\n");
    regions.push_back({region.family, parse_tile_graph(text)});
  }
  return regions;
}

}  // namespace tilefuse
