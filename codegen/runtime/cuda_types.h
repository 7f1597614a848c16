// Vectors of kLanes elements in the registers of a thread, the 16-bit floats, loads and stores.
#pragma once

#define TILE_INLINE __device__ __forceinline__

using int64_t = long long;

namespace tile {

enum : int { kLanes = TILEFUSE_LANES };  // no variable: those would be there in the device's memory, too
static_assert(kLanes == 1 || kLanes == 2 || kLanes == 4 || kLanes == 8);

#define kInfinity __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)  // as other compilers have it

// Storage of the 16-bit floats; arithmetic happens in float.
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

template <class T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<bf16> {
  using Type = float;
};
template <>
struct ComputeOf<f16> {
  using Type = float;
};
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

// ------------------------------------------------------------------ 16-bit floats
TILE_INLINE float widened(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
TILE_INLINE float widened(f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
template <class T>
TILE_INLINE T widened(T x) {
  return x;
}
TILE_INLINE void narrow(float x, bf16& to) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
TILE_INLINE void narrow(float x, f16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
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
template <class T>
TILE_INLINE void store_one(T* to, Compute<T> value) {
  narrow(value, *to);
}

}  // namespace tile
