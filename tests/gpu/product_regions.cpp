#include "tests/gpu/product_regions.h"

#include <array>
#include <ostream>

#include "tests/random_source.h"

namespace tilefuse {
namespace {

std::string replaced(std::string text, const std::string& name, const std::string& value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
    text.replace(at, name.size(), value);
  return text;
}

// An operand of so many lines, `line` elements long and `gap` apart.
struct Lines {
  std::string shape, strides, offset;
};
Lines lines_of(const ProductRegion& r, const std::string& rows, const std::string& row_axis, bool is_along_k,
               int gap, bool has_batch) {
  const std::string& count = is_along_k ? rows : r.k;
  const std::string& length = is_along_k ? r.k : rows;
  const std::string pitch = gap == 0 ? length : std::to_string(std::stoi(length) + gap);
  const std::string line = is_along_k ? row_axis : "k", along = is_along_k ? "k" : row_axis;
  Lines lines;
  lines.shape = "[" + (has_batch ? std::to_string(r.batch) + ", " : "") + count + ", " + length + "]";
  if (gap > 0) {
    lines.strides = " strides [" + (has_batch ? count + "*" + pitch + ", " : "") + pitch + ", 1]";
  }
  lines.offset = (has_batch ? "b*" + count + "*" + pitch + " + " : "") + line + "*" + pitch + " + " + along;
  return lines;
}

// What may be computed of %FROM, as %TO, with the buffer that it reads.
struct EpilogueStep {
  const char* buffer;
  const char* lines;
};
constexpr std::array<EpilogueStep, 8> kSteps = {{
    {"%TO_bias: bf16[COLS] in, ",
     "  %TO_bias = load %TO_bias[j] : bf16[j]\n  %TO = add(%FROM, %TO_bias) : f32[RESULT]\n"},
    {"%TO_scale: f32[ROWS] in, ",
     "  %TO_scale = load %TO_scale[i] : f32[i]\n  %TO = mul(%FROM, %TO_scale) : f32[RESULT]\n"},
    {"%TO_rest: f16[ROWS, COLS] in, ",
     "  %TO_rest = load %TO_rest[i*COLS + j] : f16[i, j]\n  %TO = sub(%FROM, %TO_rest) : f32[RESULT]\n"},
    {"%TO_turned: f32[COLS, ROWS] in, ",
     "  %TO_turned = load %TO_turned[j*ROWS + i] : f32[i, j]\n  %TO = max(%FROM, %TO_turned) : "
     "f32[RESULT]\n"},
    {"", "  %TO = sigmoid(%FROM) : f32[RESULT]\n"},
    {"",
     "  %TO_at = index j*2 - i : i64[i, j]\n  %TO_f = cast(%TO_at) : f32[i, j]\n  %TO = min(%FROM, %TO_f) : "
     "f32[RESULT]\n"},
    {"%TO_ids: i32[ROWS] in, %TO_table: f32[4, COLS] in, ",
     "  %TO_ids = load %TO_ids[i] : i32[i]\n  %TO_table = load %TO_table[j] + at(%TO_ids, extent 4, stride "
     "COLS) : f32[i, j]\n  %TO = add(%FROM, %TO_table) : f32[RESULT]\n"},
    {"%TO_shifted: f32[COLS] in, ",
     "  %TO_shifted = load %TO_shifted[j - 1] if [j - 1] else 0.5 : f32[j]\n  %TO = add(%FROM, %TO_shifted) "
     ": f32[RESULT]\n"},
}};

}  // namespace

ProductRegion random_product_region(uint64_t seed) {
  RandomSource random(seed);
  ProductRegion r;
  r.name = "random";
  r.dtype = random.once_in(2) ? "bf16" : "f16";
  const auto size = [&] {
    return std::to_string(random.once_in(2) ? 8 * random.between(1, 10) : random.between(1, 80));
  };
  r.m = size();
  r.n = size();
  r.k = size();
  r.first_along_k = random.once_in(2);
  r.second_along_k = random.once_in(2);
  if (random.once_in(3)) r.gap = int(random.between(1, 8));
  if (random.once_in(3)) r.batch = int(random.between(2, 3));
  r.shares_second = random.once_in(2);
  r.is_turned = random.once_in(4);
  const auto stored = [&]() -> std::string {
    return random.once_in(4) ? random.pick<std::string>({"f32", "i8"}) : r.dtype;
  };
  r.first_dtype = stored();
  r.second_dtype = stored();
  r.result_dtype = random.once_in(2) ? "f32" : r.dtype;
  std::string from = "s";
  r.epilogue.clear();
  for (int64_t step = 0, steps = random.between(0, 3); step < steps; ++step) {
    const EpilogueStep& drawn = kSteps.at(size_t(random.below(kSteps.size())));
    const std::string to = "e" + std::to_string(step);
    r.buffers += replaced(drawn.buffer, "TO", to);
    r.epilogue += replaced(replaced(drawn.lines, "TO", to), "FROM", from);
    from = to;
  }
  r.epilogue += "  %y = cast(%" + from + ") : DTYPE[RESULT]\n";
  return r;
}

void PrintTo(const ProductRegion& region, std::ostream* out) { *out << region.name; }

std::string text_of(const ProductRegion& r) {
  const bool has_batch = r.batch > 0, second_has_batch = has_batch && !r.shares_second;
  const Lines first = lines_of(r, r.m, "i", r.first_along_k, r.gap, has_batch);
  const Lines second = lines_of(r, r.n, "j", r.second_along_k, 0, second_has_batch);
  const std::string b = has_batch ? "b, " : "", count = has_batch ? std::to_string(r.batch) + ", " : "";
  const std::string result = r.is_turned ? count + r.n + ", " + r.m : count + r.m + ", " + r.n;
  const std::string lead = has_batch ? "b*" + r.m + "*" + r.n + " + " : "";
  const std::string store = lead + (r.is_turned ? "j*" + r.m + " + i" : "i*" + r.n + " + j");
  const std::string text =
      "tile_graph product {\n  axes " + (has_batch ? "b: " + std::to_string(r.batch) + ", " : std::string()) +
      "i: " + r.m + ", j: " + r.n + ", k: " + r.k + "\n  buffers %x: " + r.first_dtype + first.shape +
      first.strides + " in, %w: " + r.second_dtype + second.shape + " in, " + r.buffers +
      "%y: " + r.result_dtype + "[" + result + "] out\n  %x = load %x[" + first.offset +
      "] : " + r.first_dtype + "[" + b + "i, k]\n  %w = load %w[" + second.offset + "] : " + r.second_dtype +
      "[" + (second_has_batch ? b : "") + "j, k]\n  %cx = cast(%x) : " + r.dtype + "[" + b +
      "i, k]\n  %cw = cast(%w) : " + r.dtype + "[" + (second_has_batch ? b : "") +
      "j, k]\n  %p = mul(%cx, %cw) : " + r.declared + "[" + b +
      "i, j, k]\n  %s = reduce.sum(%p) over k : " + r.declared + "[" + b + "i, j]\n" + r.epilogue +
      "  store %y -> %y[" + store + "]\n}\n";
  return replaced(
      replaced(replaced(replaced(text, "RESULT", b + "i, j"), "DTYPE", r.result_dtype), "ROWS", r.m), "COLS",
      r.n);
}

}  // namespace tilefuse
