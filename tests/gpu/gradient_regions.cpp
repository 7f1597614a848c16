#include "tests/gpu/gradient_regions.h"

#include <ostream>

#include "tests/random_source.h"

namespace tilefuse {
namespace {

// A tensor of lines of rows: its shape, and where an element of it is.
struct Place {
  std::string shape, offset;
};
Place place_of(const GradientRegion& r, const std::string& lines, const std::string& line, int length,
               const std::string& along, bool is_shared) {
  const bool shares = is_shared && r.sharing > 1;
  const std::string heads = std::to_string(shares ? r.heads / r.sharing : r.heads);
  const std::string head = shares ? "(h // " + std::to_string(r.sharing) + ")" : "h";
  const std::string n = std::to_string(length);
  if (r.heads_inside) {
    return {"[" + lines + ", " + heads + ", " + n + "]",
            line + "*" + heads + "*" + n + " + " + head + "*" + n + " + " + along};
  }
  return {"[" + heads + ", " + lines + ", " + n + "]",
          head + "*" + lines + "*" + n + " + " + line + "*" + n + " + " + along};
}

std::string scores_of(const GradientRegion& r) {
  std::string text = "  %c = constant 0.05 : f32[]\n  %s = mul(%s0, %c) : f32[h, q, k]\n";
  if (r.is_causal) {
    text +=
        "  %i = inside [q - k] : bool[q, k]\n  %z = constant -inf : f32[]\n"
        "  %t = where(%i, %s, %z) : f32[h, q, k]\n";
  }
  const std::string from = r.is_causal ? "%t" : "%s";
  return text + "  %l = load %log[h*" + r.q + " + q] : f32[h, q]\n  %x = sub(" + from +
         ", %l) : f32[h, q, k]\n  %e = exp(%x) : f32[h, q, k]\n";
}

std::string mean_of(const GradientRegion& r, const Place& change, const std::string& width) {
  if (!r.makes_mean) return "  %n = load %mean[h*" + r.q + " + q] : f32[h, q]\n";
  return "  %xo = load %O[" + change.offset + "] : " + r.dtype + "[h, q, " + width +
         "]\n  %go = mul(%xg, %xo) : f32[h, q, " + width + "]\n  %n = reduce.sum(%go) over " + width +
         " : f32[h, q]\n";
}

std::string total_of(const GradientRegion& r, const std::string& name, const std::string& weights,
                     const std::string& factor, const std::string& width, const Place& place) {
  const std::string rows = r.is_of_keys ? "k" : "q", walked = r.is_of_keys ? "q" : "k";
  const std::string axes = "[h, " + rows + ", " + width + "]";
  return "  %" + name + "_p = mul(" + weights + ", " + factor + ") : f32[h, q, k, " + width + "]\n  %" +
         name + "_s = reduce.sum(%" + name + "_p) over " + walked + " : f32" + axes + "\n  %" + name +
         "_r = cast(%" + name + "_s) : " + r.result_dtype + axes + "\n  store %" + name + "_r -> %" + name +
         "[" + place.offset + "]\n";
}

// Axes of values are in the order of the graph's.
std::string in_order(std::string text, bool is_of_keys) {
  if (!is_of_keys) return text;
  for (size_t at = text.find("q, k"); at != std::string::npos; at = text.find("q, k", at + 4))
    text.replace(at, 4, "k, q");
  return text;
}

}  // namespace

void PrintTo(const GradientRegion& region, std::ostream* out) { *out << region.name; }

std::string text_of(const GradientRegion& r) {
  const std::string width = r.shares_axis ? "d" : "v";
  const int v = r.shares_axis ? r.d : r.v;
  const Place query = place_of(r, r.q, "q", r.d, "d", false), change = place_of(r, r.q, "q", v, width, false);
  const Place key = place_of(r, r.k, "k", r.d, "d", true), value = place_of(r, r.k, "k", v, width, true);
  const std::string axes = r.is_of_keys ? "k: " + r.k + ", q: " + r.q : "q: " + r.q + ", k: " + r.k;
  const std::string lines = "[" + std::to_string(r.heads) + ", " + r.q + "]";
  std::string text = "tile_graph gradients {\n  axes h: " + std::to_string(r.heads) + ", " + axes +
                     ", d: " + std::to_string(r.d) + (r.shares_axis ? "" : ", v: " + std::to_string(v)) +
                     "\n  buffers %Q: " + r.dtype + query.shape + " in, %K: " + r.dtype + key.shape +
                     " in, %V: " + r.dtype + value.shape + " in, %G: " + r.dtype + change.shape +
                     " in, %log: f32" + lines + " in, " +
                     (r.makes_mean ? "%O: " + r.dtype + change.shape : "%mean: f32" + lines) + " in, ";
  text += r.is_of_keys ? "%gv: " + r.result_dtype + value.shape + " out, %gk: " + r.result_dtype + key.shape
                       : "%gq: " + r.result_dtype + query.shape;
  text += " out\n  %xq = load %Q[" + query.offset + "] : " + r.dtype + "[h, q, d]\n  %xk = load %K[" +
          key.offset + "] : " + r.dtype + "[h, k, d]\n  %xv = load %V[" + value.offset + "] : " + r.dtype +
          "[h, k, " + width + "]\n  %xg = load %G[" + change.offset + "] : " + r.dtype + "[h, q, " + width +
          "]\n  %p0 = mul(%xq, %xk) : f32[h, q, k, d]\n  %s0 = reduce.sum(%p0) over d : f32[h, q, k]\n";
  text += scores_of(r);
  text += "  %p1 = mul(%xg, %xv) : f32[h, q, k, " + width + "]\n  %a = reduce.sum(%p1) over " + width +
          " : f32[h, q, k]\n" + mean_of(r, change, width) +
          "  %b = sub(%a, %n) : f32[h, q, k]\n  %eb = mul(%e, %b) : f32[h, q, k]\n"
          "  %ds = mul(%eb, %c) : f32[h, q, k]\n  %u = copy(%ds) : " +
          r.dtype + "[h, q, k]\n";
  if (r.is_of_keys) {
    text += "  %w = copy(%e) : " + r.dtype + "[h, q, k]\n" + total_of(r, "gv", "%w", "%xg", width, value) +
            total_of(r, "gk", "%u", "%xq", "d", key);
  } else {
    text += total_of(r, "gq", "%u", "%xk", "d", query);
  }
  return in_order(std::move(text), r.is_of_keys) + "}\n";
}

GradientRegion random_gradient_region(uint64_t seed) {
  RandomSource random(seed);
  GradientRegion r;
  r.name = "random";
  r.dtype = random.once_in(2) ? "bf16" : "f16";
  r.result_dtype = random.once_in(3) ? "f32" : r.dtype;
  r.is_of_keys = random.once_in(2);
  const auto size = [&] {
    return std::to_string(random.once_in(2) ? 8 * random.between(1, 12) : random.between(1, 90));
  };
  r.q = size();
  r.k = size();
  r.d = int(random.once_in(2) ? 16 * random.between(2, 6) : 8 * random.between(1, 12));
  r.v = int(random.once_in(2) ? r.d : 8 * random.between(1, 12));
  r.heads_inside = random.once_in(2);
  r.shares_axis = random.once_in(3);
  r.is_causal = random.once_in(3);
  if (!r.is_of_keys && random.once_in(3)) r.sharing = 2;
  return r;
}

}  // namespace tilefuse
