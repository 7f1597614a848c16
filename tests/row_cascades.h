// Reductions behind each other along rows, as texts with ROWS, COLS and DTYPE to be filled in
// (filled_text.h).
#pragma once

namespace tilefuse {

// The maximum is guarded as torch guards it: rows of -inf give -inf, and not NaN.
constexpr const char* kLogSumExp = R"(tile_graph logsumexp {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %y: f32[ROWS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %m = reduce.max(%x) over j   : f32[i]
  %a = abs(%m)                 : f32[i]
  %c = constant inf            : f32[]
  %b = eq(%a, %c)              : bool[i]
  %z = constant 0              : f32[]
  %g = where(%b, %z, %m)       : f32[i]
  %d = sub(%x, %g)             : f32[i, j]
  %e = exp(%d)                 : f32[i, j]
  %s = reduce.sum(%e) over j   : f32[i]
  %l = log(%s)                 : f32[i]
  %r = add(%l, %g)             : f32[i]
  store %r -> %y[i]
}
)";

// Two of them, a last walk, and a number of each row.
constexpr const char* kNorm = R"(tile_graph norm {
  axes i: ROWS, j: COLS
  buffers %x: DTYPE[ROWS, COLS] in, %w: f32[COLS] in, %y: f32[ROWS, COLS] out, %mean: f32[ROWS] out
  %x = load %x[i*COLS + j]     : DTYPE[i, j]
  %w = load %w[j]              : f32[j]
  %t = reduce.sum(%x) over j   : f32[i]
  %n = constant COLS           : f32[]
  %u = div(%t, %n)             : f32[i]
  %d = sub(%x, %u)             : f32[i, j]
  %q = square(%d)              : f32[i, j]
  %v = reduce.sum(%q) over j   : f32[i]
  %r = div(%v, %n)             : f32[i]
  %c = constant 1e-05          : f32[]
  %k = add(%r, %c)             : f32[i]
  %f = rsqrt(%k)               : f32[i]
  %z = mul(%d, %f)             : f32[i, j]
  %y = mul(%z, %w)             : f32[i, j]
  store %y -> %y[i*COLS + j]
  store %u -> %mean[i]
}
)";

}  // namespace tilefuse
