// clang-format off
// The preamble of every generated CPU kernel. It includes nothing but its own parts (embed.cmake joins them
// into one text, so that a kernel needs no file beside it): GNU vector extensions and compiler builtins only.
//
//   #define TILEFUSE_LANES 16      1, 4, 8, 16 or 32; before this text
//   #define TILEFUSE_EXACT_BF16    storing bf16 keeps subnormals everywhere (build does so for eager's numerics)
//
// Everything is in namespace tile, which the end of this file opens with `using namespace tile`.
// A local variable called `exp` hides the function; `tile::exp` always works.
//
// Every function below that takes a Vec also takes the scalar, with the same name and result (bool for Mask),
// except where a row says otherwise. V is a vector or a scalar of any arithmetic type; F of a float type.
//
// types      kLanes; bf16, f16 {unsigned short bits}; f8e4m3fn, f8e5m2 {unsigned char bits}; int64_t
//            Vec<T>: kLanes lanes; + - * / % & | ^ ~ << >>, also with a scalar of type T; v[i] reads a lane
//            Vec of a narrow float = Vec<float>; Vec<bool> = Mask (opaque: functions only)
//            Compute<T>: float for the narrow floats, else T
// constants  kInfinity; lowest<T>(), highest<T>(): the identities of max and min (-inf, inf; integers' ends)
// fill       splat<T>(x); iota<T>(): 0, 1, ...; iota<T>(first); mask_splat(bool);
//            lane_numbers<n0, n1, ...>(): a number for each lane, of i64
// masks      lt le gt ge eq ne (a, b); mask_and mask_or mask_xor (a, b); mask_not(m); select(m, yes, no) also of
//            masks; any(m), all(m), count(m); first_lanes(n): the first n, any n; test_lane(m, i)
//            (a Vec only: first_lanes, test_lane)
// load       load(const T* p), load(p, n): the first n lanes only, 0 <= n <= kLanes, the others 0 / false
//            load_one(const T* p): a scalar; load_strided(p, stride), load_strided(p, stride, n): in elements;
//            load_every<stride>(p), load_every<stride>(p, n): the same of a stride that is known
//            load_exchanged<i0, i1, ...>(p), (p, n): p[i0], p[i1], ..., all among the first kLanes or n elements
//            load_where(p, mask), load_strided_where(p, stride, mask): lanes outside are 0 and not read
//            gather(p, Vec<int64_t> offsets), gather(p, offsets, mask): lanes outside are 0 and not read
//            gather_near(p, offsets), gather_near(p, offsets, mask): the same, quicker where one load reaches all;
//            what lies between the places may be read; lane 0 must be inside the mask
// store      store(T* p, v), store(p, v, n); store_one(T* p, x); store_strided(p, stride, v), (.., n)
//            prefetch(p): asks L2 for the line of p, to be read
//            prefetch_write(p): asks for the line of p, to be written
//            stream(T* p, v): past the caches if p is aligned to the vector's bytes, else store; stream_fence()
//            scatter(p, offsets, v, mask): lanes in order, the last one wins
// pairs      load_pair(const T* p): {a, b}, the even and the odd ones of 2 * kLanes elements; splat_pair<T>(x): {x, x};
//            store_pair(p, a, b) and stream_pair(p, a, b) put them back
// dots       neighbours in a Vec<int>, two of bf16 or four bytes: load_neighbours(p), load_neighbours(p, n): the first
//            n elements; splat_neighbours(p): the same in every lane; (p, n): the first n elements of the dot;
//            join_neighbours(p, q), (p, q, n), and of four rows of bytes: lane i of each row;
//            add_neighbour<i>(before, p), (before, p, n): row i of a dot, beside those before it;
//            store_neighbours(p, a, b), (p, a, b, n): two of bf16, rounded, a in the low halves;
//            dot_pairs(sum, a, b): sum + both products of each lane;
//            dot_quads(sum, a, b): sum + the four products of each lane, a without signs, b with; wraps;
//            turn_signs(a): bytes with a sign, 128 added, as bytes without, and back
// tiles      open_tiles() before, close_tiles() behind all of: multiply_tiles<Row, Panel, rows, vectors, width>(sums, row,
//            row_bytes, row_count, panel, steps, adds): sums of 16 * rows by 16 * vectors lanes; turn_rows, copy_rows bring
//            rows into 64 bytes at a time (cpu_tiles.h)
// convert    convert<To>(v), torch's casts: to bool is != 0, float to integer truncates, integers wrap;
//            to a narrow float: rounded to nearest even, kept as float. round_to<bf16>(float) the same, named;
//            beyond its range f8e4m3fn gives its largest number, the others infinity
// arithmetic fma(a, b, c); max_nan, min_nan (a, b): NaN of either; max_num(acc, x), min_num(acc, x): NaN of x,
//            not of acc: one instruction; abs, neg, sign, square, sqrt, rsqrt, reciprocal, floor, ceil,
//            round (half even), trunc, copysign(x, sign), is_nan, is_inf
//            floor_div, trunc_div, remainder, fmod (a, b): integer division by 0 gives 0
//            shift_left(a, n), shift_right(a, n): n outside the width gives 0 (or the sign)
// functions  exp, exp2, expm1, log, log2, log10, log1p, pow(a, b), sigmoid, tanh, sinh, cosh, erf, erfc, sin, cos,
//            tan, asin, acos, atan, atan2(y, x). Integer pow(a, b) too.
//            exp_nonpositive(x), exp2_nonpositive(x): for x <= 0 or NaN; with (x, mask): 0 in lanes outside;
//            the first 0 where exp is subnormal, and as exp_nonpositive_bf16(x) right to 2^-13 only
// across     reduce_add, reduce_mul, reduce_max, reduce_min (NaN wins) (Vec<T>) -> T;
//            reduce_any, reduce_all (Mask) -> bool
//            reduce_add_4(a, b, c, d), reduce_max_4, reduce_min_4 -> Four<T> {r[4]}: four rows, one latency; or three
//            update_max_index(best, best_index, x, index), update_min_index: keeps the better lane (references);
//            reduce_max_index(values, indices), reduce_min_index -> Indexed<T> {value, index}: the first index
//            of the extreme; the first NaN beats all
//            inclusive_scan_add, _mul, _max, _min (Vec<T>); last_lane(v)
//            transpose_block(Vec<T>* rows): kLanes x kLanes, in place
// indices    wrap_index(i, extent, wrap, int64_t* error): i, or i + extent where wrap and i < 0; out of range:
//            *error = 1 and 0. Also for a Vec<int64_t> i, and with a mask of the lanes that count.
//
// Accuracy in f32, tested over all exponents (tests/runtime_math_test.cpp): exp, exp2, expm1, log, log2, log10,
// log1p, tanh, erf, sin, cos, pow <= 2 ulp, exp2_nonpositive 2.1, the others <= 4. f64 functions are the C
// library's, lane by lane, but for exp of vectors (2 ulp).
// clang-format on
#pragma once

#ifndef TILEFUSE_LANES
#define TILEFUSE_LANES 16
#endif

#include "cpu_near.h"  // includes the other parts, each after the one it needs, as the next one does
#include "cpu_tiles.h"
#include "cpu_trigonometry.h"

using namespace tile;
