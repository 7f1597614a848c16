#include "tests/gpu/chain_regions.h"

#include <array>
#include <ostream>

#include "tests/filled_text.h"
#include "tests/random_source.h"

namespace tilefuse {
namespace {

std::string replaced(std::string text, const std::string& name, const std::string& value) {
  return filled(std::move(text), {{name, value}});
}

// A tensor of so many heads, with lines of so many elements: its shape, and where an element of it is.
struct Place {
  std::string shape, offset;
};
Place place_of(bool heads_inside, const std::string& heads, const std::string& head, const std::string& lines,
               const std::string& line, const std::string& length, const std::string& along) {
  if (heads_inside) {
    return {"[" + lines + ", " + heads + ", " + length + "]",
            line + "*" + heads + "*" + length + " + (" + head + ")*" + length + " + " + along};
  }
  return {"[" + heads + ", " + lines + ", " + length + "]",
          "(" + head + ")*" + lines + "*" + length + " + " + line + "*" + length + " + " + along};
}

// What may be computed of scores %FROM, as %TO.
struct ScoreStep {
  const char* buffer;
  const char* lines;
};
constexpr std::array<ScoreStep, 7> kSteps = {{
    {"%TO_bias: bf16[HEADS, ROWS, KEYS] in, ",
     "  %TO_bias = load %TO_bias[h*ROWS*KEYS + q*KEYS + k] : bf16[h, q, k]\n  %TO = add(%FROM, %TO_bias) : "
     "f32[SCORES]\n"},
    {"%TO_bias: f32[KEYS] in, ",
     "  %TO_bias = load %TO_bias[k] : f32[k]\n  %TO = add(%FROM, %TO_bias) : f32[SCORES]\n"},
    {"%TO_scale: f32[ROWS] in, ",
     "  %TO_scale = load %TO_scale[q] : f32[q]\n  %TO = mul(%FROM, %TO_scale) : f32[SCORES]\n"},
    {"",
     "  %TO_c = constant 2 : f32[]\n  %TO_a = div(%FROM, %TO_c) : f32[SCORES]\n  %TO_b = tanh(%TO_a) : "
     "f32[SCORES]\n  %TO = mul(%TO_b, %TO_c) : f32[SCORES]\n"},
    {"",
     "  %TO_i = inside [q - k] : bool[q, k]\n  %TO_c = constant -inf : f32[]\n  %TO = where(%TO_i, %FROM, "
     "%TO_c) : f32[SCORES]\n"},
    {"%TO_mask: bool[ROWS, KEYS] in, ",
     "  %TO_i = load %TO_mask[q*KEYS + k] : bool[q, k]\n  %TO_c = constant -3 : f32[]\n  %TO = where(%TO_i, "
     "%FROM, %TO_c) : f32[SCORES]\n"},
    {"",
     "  %TO_at = index k - q : i64[q, k]\n  %TO_f = cast(%TO_at) : f32[q, k]\n  %TO_c = constant 0.05 : "
     "f32[]\n  %TO_b = mul(%TO_f, %TO_c) : f32[q, k]\n  %TO = add(%FROM, %TO_b) : f32[SCORES]\n"},
}};

}  // namespace

void PrintTo(const ChainRegion& region, std::ostream* out) { *out << region.name; }

std::string text_of(const ChainRegion& r) {
  const std::string heads = std::to_string(r.heads), shared = std::to_string(r.heads / r.sharing);
  const std::string head = r.sharing == 1 ? "h" : "h // " + std::to_string(r.sharing);
  const std::string d = std::to_string(r.d), v = std::to_string(r.shares_axis ? r.d : r.v);
  const std::string width = r.shares_axis ? "d" : "v";
  const Place query = place_of(r.heads_inside, heads, "h", r.q, "q", d, "d");
  const Place key = r.is_turned ? place_of(false, shared, head, d, "d", r.k, "k")
                                : place_of(r.heads_inside, shared, head, r.k, "k", d, "d");
  const Place value = place_of(r.heads_inside, shared, head, r.k, "k", v, width);
  const Place result = place_of(r.heads_inside, heads, "h", r.q, "q", v, width);
  std::string text =
      "tile_graph chain {\n  axes h: HEADS, q: ROWS, k: KEYS, d: " + d + (r.shares_axis ? "" : ", v: " + v) +
      "\n  buffers %Q: DTYPE" + query.shape + " in, %K: DTYPE" + key.shape + " in, %V: DTYPE" + value.shape +
      " in, " + r.buffers + "%y: " + r.result_dtype + result.shape + " out" +
      (r.stores_spread ? ", %spread: f32[HEADS, ROWS] out" : "") + "\n  %xq = load %Q[" + query.offset +
      "] : DTYPE[h, q, d]\n  %xk = load %K[" + key.offset + "] : DTYPE[h, k, d]\n" +
      "  %xp = mul(%xq, %xk) : f32[h, q, k, d]\n  %s = reduce.sum(%xp) over d : f32[SCORES]\n" + r.scores +
      "  %m = reduce.max(%t) over k : f32[h, q]\n  %x = sub(%t, %m) : f32[SCORES]\n"
      "  %e = exp(%x) : f32[SCORES]\n  %l = reduce.sum(%e) over k : f32[h, q]\n" +
      (r.divides_weights ? "  %n = div(%e, %l) : f32[SCORES]\n  %w = copy(%n) : DTYPE[SCORES]\n"
                         : "  %w = copy(%e) : DTYPE[SCORES]\n") +
      "  %xv = load %V[" + value.offset + "] : DTYPE[h, k, v]\n  %wv = mul(%w, %xv) : f32[h, q, k, v]\n" +
      "  %o = reduce.sum(%wv) over k : f32[h, q, v]\n" +
      (r.divides_weights ? "  %r = copy(%o) : f32[h, q, v]\n" : "  %r = div(%o, %l) : f32[h, q, v]\n") +
      "  %y = cast(%r) : " + r.result_dtype + "[h, q, v]\n  store %y -> %y[" + result.offset + "]\n";
  if (r.stores_spread) {
    text +=
        "  %ll = log(%l) : f32[h, q]\n  %spread = add(%m, %ll) : f32[h, q]\n"
        "  store %spread -> %spread[h*ROWS + q]\n";
  }
  text += "}\n";
  text = replaced(replaced(text, "SCORES", "h, q, k"), "DTYPE", r.dtype);
  text = replaced(replaced(text, ", v]", ", " + width + "]"), "HEADS", heads);
  return replaced(replaced(text, "ROWS", r.q), "KEYS", r.k);
}

ChainRegion random_chain_region(uint64_t seed) {
  RandomSource random(seed);
  ChainRegion r;
  r.name = "random";
  r.dtype = random.once_in(2) ? "bf16" : "f16";
  r.result_dtype = random.once_in(3) ? "f32" : r.dtype;
  const auto size = [&] {
    return std::to_string(random.once_in(2) ? 8 * random.between(1, 12) : random.between(1, 90));
  };
  r.q = size();
  r.k = size();
  r.d = int(random.once_in(2) ? 16 * random.between(2, 8) : 8 * random.between(1, 16));
  r.v = int(random.once_in(2) ? r.d : 8 * random.between(1, 16));
  r.sharing = random.once_in(3) ? 2 : 1;
  r.heads_inside = random.once_in(2);
  r.shares_axis = random.once_in(3);
  if (r.shares_axis) r.v = r.d;
  r.is_turned = random.once_in(4);
  r.divides_weights = random.once_in(2);
  r.stores_spread = random.once_in(3);
  r.scores = "  %c = constant 0.3 : f32[]\n  %t0 = mul(%s, %c) : f32[SCORES]\n";
  const int64_t steps = random.between(0, 2);
  for (int64_t step = 0; step < steps; ++step) {
    const ScoreStep& drawn = kSteps.at(size_t(random.below(kSteps.size())));
    const std::string to = "t" + std::to_string(step + 1);
    r.buffers += replaced(drawn.buffer, "TO", to);
    r.scores += replaced(replaced(drawn.lines, "TO", to), "FROM", "t" + std::to_string(step));
  }
  r.scores += "  %t = copy(%t" + std::to_string(steps) + ") : f32[SCORES]\n";
  return r;
}

}  // namespace tilefuse
