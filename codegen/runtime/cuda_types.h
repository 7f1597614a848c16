// Vectors of kLanes elements in the registers of a thread, the narrow floats, loads and stores.
#pragma once

#define TILE_INLINE __device__ __forceinline__

using int64_t = long long;
using uint64_t = unsigned long long;

namespace tile {

enum : int { kLanes = TILEFUSE_LANES };  // no variable: those would be there in the device's memory, too
static_assert(kLanes == 1 || kLanes == 2 || kLanes == 4 || kLanes == 8);

#define kInfinity __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)  // as other compilers have it
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)

// Storage of the narrow floats; arithmetic happens in float.
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};
struct f8e4m3fn {
  unsigned char bits;
};
struct f8e5m2 {
  unsigned char bits;
};

template <class T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<bf16> : ComputeOf<float> {};
template <>
struct ComputeOf<f16> : ComputeOf<float> {};
template <>
struct ComputeOf<f8e4m3fn> : ComputeOf<float> {};
template <>
struct ComputeOf<f8e5m2> : ComputeOf<float> {};
template <class T>
using Compute = typename ComputeOf<T>::Type;

template <class T, class U>
struct Same {
  enum : bool { kValue = false };
};
template <class T>
struct Same<T, T> {
  enum : bool { kValue = true };
};

template <class T>
TILE_INLINE constexpr bool is_a_float() {
  return Same<T, float>::kValue || Same<T, double>::kValue;
}

template <class T>
struct Vec {
  T r[kLanes];
};
using Mask = Vec<bool>;

// The function of every lane.
template <class T, class F>
TILE_INLINE auto by_lanes(Vec<T> a, F function) {
  Vec<decltype(function(a.r[0]))> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = function(a.r[i]);
  return result;
}
template <class T, class U, class F>
TILE_INLINE auto by_lanes(Vec<T> a, Vec<U> b, F function) {
  Vec<decltype(function(a.r[0], b.r[0]))> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = function(a.r[i], b.r[i]);
  return result;
}

template <class T>
TILE_INLINE Vec<T> splat(T x) {
  Vec<T> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = x;
  return result;
}

// ------------------------------------------------------------------ narrow floats
TILE_INLINE float widened(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
TILE_INLINE float widened(f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
TILE_INLINE float widened(f8e4m3fn x) {
  const unsigned magnitude = x.bits & 0x7fu;
  const float number = __uint_as_float(magnitude << 20) * 0x1p120f;  // subnormals, too
  const float value = magnitude == 0x7fu ? __uint_as_float(0x7fc00000u) : number;
  return __uint_as_float(__float_as_uint(value) | (x.bits & 0x80u) << 24);
}
TILE_INLINE float widened(f8e5m2 x) {  // the upper half of an f16
  return widened(f16{(unsigned short)(x.bits << 8)});
}
template <class T>
TILE_INLINE T widened(T x) {
  return x;
}
TILE_INLINE void narrow(float x, bf16& to) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
TILE_INLINE void narrow(float x, f16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
// As narrow_to_f8 in cpu_convert.h.
template <int kDropped, int kBias, unsigned kLimit, unsigned kBeyond>
TILE_INLINE unsigned char narrow_to_f8(float x) {
  constexpr unsigned kAnchor = (unsigned)(128 - kBias + kDropped) << 23;
  const unsigned bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
  const unsigned odd = magnitude >> kDropped & 1u;
  const unsigned normal =
      (magnitude + odd - ((unsigned)(127 - kBias) << 23) + ((1u << (kDropped - 1)) - 1u)) >> kDropped;
  const unsigned subnormal = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(kAnchor)) - kAnchor;
  unsigned result = magnitude < (unsigned)(128 - kBias) << 23 ? subnormal : normal;
  if (magnitude >= kLimit) result = magnitude > 0x7f800000u ? 0x7fu : kBeyond;
  return (unsigned char)(result | (bits >> 24 & 0x80u));
}
TILE_INLINE void narrow(float x, f8e4m3fn& to) { to.bits = narrow_to_f8<20, 7, 0x43e80000u, 0x7eu>(x); }
TILE_INLINE void narrow(float x, f8e5m2& to) { to.bits = narrow_to_f8<21, 15, 0x47800000u, 0x7cu>(x); }
template <class T, class U>
TILE_INLINE void narrow(U x, T& to) {
  to = T(x);
}

// ------------------------------------------------------------------ memory
// So many bytes at once, of those that start at a multiple of their number.
template <int kBytes>
struct Words;
template <>
struct Words<1> {
  using Type = unsigned char;
};
template <>
struct Words<2> {
  using Type = unsigned short;
};
template <>
struct Words<4> {
  using Type = unsigned;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};

// kLanes elements, in accesses of at most 16 bytes.
template <class T>
struct Elements {
  enum : int {
    kBytes = kLanes * (int)sizeof(T),
    kAccess = kBytes < 16 ? kBytes : 16,
    kCount = kBytes / kAccess,
  };
  using Word = typename Words<kAccess>::Type;
  union {
    Word words[kCount];
    T elements[kLanes];
  };
  TILE_INLINE Elements() {}
};

template <class T>
TILE_INLINE Vec<Compute<T>> load(const T* from) {
  Elements<T> raw;
#pragma unroll
  for (int i = 0; i < Elements<T>::kCount; ++i) raw.words[i] = ((const typename Elements<T>::Word*)from)[i];
  Vec<Compute<T>> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = widened(raw.elements[i]);
  return result;
}
template <class T>
TILE_INLINE Compute<T> load_one(const T* from) {
  return widened(*from);
}
template <class T>
TILE_INLINE void store(T* to, Vec<Compute<T>> values) {
  Elements<T> raw;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) narrow(values.r[i], raw.elements[i]);
#pragma unroll
  for (int i = 0; i < Elements<T>::kCount; ++i) ((typename Elements<T>::Word*)to)[i] = raw.words[i];
}
// 16 bytes of elements, each to a place of its own in a tile in shared memory.
template <class T>
TILE_INLINE void spread(T* to, const T* from) {
  union {
    uint4 words;
    T elements[16 / sizeof(T)];
  };
  words = *(const uint4*)from;
#pragma unroll
  for (int i = 0; i < int(16 / sizeof(T)); ++i) to[i] = elements[i];
}
// Elements that are so far apart.
template <class T>
TILE_INLINE Vec<Compute<T>> load_apart(const T* from, int distance) {
  Vec<Compute<T>> result;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) result.r[i] = widened(from[i * distance]);
  return result;
}
template <class T>
TILE_INLINE void store_one(T* to, Compute<T> value) {
  narrow(value, *to);
}

}  // namespace tile
