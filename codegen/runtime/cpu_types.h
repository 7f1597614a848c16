// Vectors of kLanes lanes of any arithmetic type.
//
// A vector no wider than a register is a GNU vector. A wider one is a Wide: two halves, each again a GNU
// vector or a Wide. (GCC 12 keeps GNU vectors wider than a register in memory and compares them lane by lane;
// halves in a struct stay in registers.)
#pragma once

#pragma GCC diagnostic ignored "-Wpsabi"

#define TILE_INLINE static inline __attribute__((always_inline, unused))

using int64_t = __INT64_TYPE__;

namespace tile {

constexpr int kLanes = TILEFUSE_LANES;
static_assert(kLanes == 1 || kLanes == 4 || kLanes == 8 || kLanes == 16 || kLanes == 32);

#if defined(TILEFUSE_PORTABLE)
constexpr int kRegisterBytes = 16;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define TILE_AVX512 1
#define TILE_AVX2 1
constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define TILE_AVX2 1
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif
// Masks in mask registers. GCC only: clang finds them by itself behind vectors of 0 and -1.
#if defined(TILE_AVX512) && !defined(__clang__) && TILEFUSE_LANES == 16
#define TILE_MASK_BITS 1
#endif

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

constexpr float kInfinity = __builtin_inff();

template <class T, int N>
struct Wide;
template <class T, int N, bool kFits = (sizeof(T) * N <= kRegisterBytes)>
struct VecType {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T, int N>
struct VecType<T, N, false> {
  using type = Wide<T, N>;
};
template <class T, int N>
using VecN = typename VecType<T, N>::type;

// The facts of a vector or a scalar type.
template <class T, int N, bool kVector, bool kWide>
struct FactsOf {
  using Lane = T;
  static constexpr int kCount = N;
  static constexpr bool kIsVector = kVector;
  static constexpr bool kIsWide = kWide;
  static constexpr bool kIsFloat = __is_same(T, float) || __is_same(T, double);
  static constexpr bool kIsSigned = T(-1) < T(0);
};
template <class V>
struct Facts : FactsOf<__typeof__(V{}[0]), sizeof(V) / sizeof(V{}[0]), true, false> {};
template <class T, int N>
struct Facts<Wide<T, N>> : FactsOf<T, N, true, true> {};
#define TILE_SCALAR(T) \
  template <>          \
  struct Facts<T> : FactsOf<T, 1, false, false> {}
TILE_SCALAR(bool);
TILE_SCALAR(signed char);
TILE_SCALAR(unsigned char);
TILE_SCALAR(short);
TILE_SCALAR(unsigned short);
TILE_SCALAR(int);
TILE_SCALAR(unsigned);
TILE_SCALAR(int64_t);
TILE_SCALAR(__UINT64_TYPE__);
TILE_SCALAR(float);
TILE_SCALAR(double);
#undef TILE_SCALAR

template <class V>
using LaneOf = typename Facts<V>::Lane;
template <class V>
constexpr bool is_vector = Facts<V>::kIsVector;
template <class V>
constexpr bool is_wide = Facts<V>::kIsWide;
template <class V>
constexpr bool is_float = Facts<V>::kIsFloat;
template <class V, class T>
constexpr bool lanes_are = __is_same(typename Facts<V>::Lane, T);

// ------------------------------------------------------------------ splat, iota
template <class T, int N>
TILE_INLINE VecN<T, N> splat_n(T x) {
  if constexpr (is_wide<VecN<T, N>>) {
    const auto half = splat_n<T, N / 2>(x);
    return {half, half};
    // Full initialisers: `{} + x` would be an addition that cannot be removed (-0.0).
  } else if constexpr (N == 64) {
    return VecN<T, 64>{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x,
                       x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x,
                       x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
  } else if constexpr (N == 32) {
    return VecN<T, 32>{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x,
                       x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
  } else if constexpr (N == 16) {
    return VecN<T, 16>{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
  } else if constexpr (N == 8) {
    return VecN<T, 8>{x, x, x, x, x, x, x, x};
  } else if constexpr (N == 4) {
    return VecN<T, 4>{x, x, x, x};
  } else if constexpr (N == 2) {
    return VecN<T, 2>{x, x};
  } else {
    return VecN<T, 1>{x};
  }
}

// V's lanes all x; V may be a scalar. What the functions below call for their constants.
template <class V>
TILE_INLINE V fill(LaneOf<V> x) {
  if constexpr (is_vector<V>) {
    return splat_n<LaneOf<V>, Facts<V>::kCount>(x);
  } else {
    return x;
  }
}

// ------------------------------------------------------------------ two halves
#define TILE_WIDE_BINARY(op)                                                                        \
  friend TILE_WIDE_INLINE Wide operator op(Wide a, Wide b) { return {a.lo op b.lo, a.hi op b.hi}; } \
  friend TILE_WIDE_INLINE Wide operator op(Wide a, T b) { return a op fill<Wide>(b); }              \
  friend TILE_WIDE_INLINE Wide operator op(T a, Wide b) { return fill<Wide>(a) op b; }              \
  TILE_WIDE_INLINE Wide& operator op##=(Wide b) { return *this = *this op b; }                      \
  TILE_WIDE_INLINE Wide& operator op##=(T b) { return *this = *this op b; }
#define TILE_WIDE_INLINE inline __attribute__((always_inline))
template <class T, int N>
struct Wide {
  using Half = VecN<T, N / 2>;
  Half lo, hi;

  TILE_WIDE_INLINE T operator[](int i) const { return i < N / 2 ? T(lo[i]) : T(hi[i - N / 2]); }
  TILE_WIDE_BINARY(+)
  TILE_WIDE_BINARY(-)
  TILE_WIDE_BINARY(*)
  TILE_WIDE_BINARY(/)
  TILE_WIDE_BINARY(%)
  TILE_WIDE_BINARY(&)
  TILE_WIDE_BINARY(|)
  TILE_WIDE_BINARY(^)
  TILE_WIDE_BINARY(<<)
  TILE_WIDE_BINARY(>>)
  friend TILE_WIDE_INLINE Wide operator-(Wide a) { return {-a.lo, -a.hi}; }
  friend TILE_WIDE_INLINE Wide operator~(Wide a) { return {~a.lo, ~a.hi}; }
};
#undef TILE_WIDE_BINARY
#undef TILE_WIDE_INLINE

// A list of the integers 0 .. N-1, for shuffles.
template <int... I>
struct Lanes {};
#if defined(__clang__)
template <class T, T... I>
using LanesFrom = Lanes<I...>;
template <int N>
using FirstLanes = __make_integer_seq<LanesFrom, int, N>;
#else
template <int N>
using FirstLanes = Lanes<__integer_pack(N)...>;
#endif

template <int kFirst, class V, int... I>
TILE_INLINE auto slice(V v, Lanes<I...>) {
  return __builtin_shufflevector(v, v, (kFirst + I)...);
}
template <class V, int... I>
TILE_INLINE auto concatenate(V lo, V hi, Lanes<I...>) {
  return __builtin_shufflevector(lo, hi, I...);
}

// The halves of a vector of at least two lanes, and back.
template <class V>
TILE_INLINE auto low_half(V v) {
  if constexpr (is_wide<V>) {
    return v.lo;
  } else {
    return slice<0>(v, FirstLanes<Facts<V>::kCount / 2>());
  }
}
template <class V>
TILE_INLINE auto high_half(V v) {
  if constexpr (is_wide<V>) {
    return v.hi;
  } else {
    return slice<Facts<V>::kCount / 2>(v, FirstLanes<Facts<V>::kCount / 2>());
  }
}
template <class V>
TILE_INLINE auto join(V lo, V hi) {
  using Both = VecN<LaneOf<V>, 2 * Facts<V>::kCount>;
  if constexpr (is_wide<Both>) {
    return Both{lo, hi};
  } else {
    return concatenate(lo, hi, FirstLanes<2 * Facts<V>::kCount>());
  }
}

// ------------------------------------------------------------------ bits
template <int kBytes>
struct IntOfSize;
template <>
struct IntOfSize<1> {
  using Signed = signed char;
  using Unsigned = unsigned char;
};
template <>
struct IntOfSize<2> {
  using Signed = short;
  using Unsigned = unsigned short;
};
template <>
struct IntOfSize<4> {
  using Signed = int;
  using Unsigned = unsigned;
};
template <>
struct IntOfSize<8> {
  using Signed = int64_t;
  using Unsigned = __UINT64_TYPE__;
};
template <bool kFirst, class First, class Second>
struct Pick {
  using type = First;
};
template <class First, class Second>
struct Pick<false, First, Second> {
  using type = Second;
};
template <class V>
using SignedLane = typename IntOfSize<sizeof(LaneOf<V>)>::Signed;
template <class V>
using UnsignedLane = typename IntOfSize<sizeof(LaneOf<V>)>::Unsigned;

// The same bits as lanes of To, of the same size.
template <class To, class V>
TILE_INLINE auto bits_as(V v) {
  static_assert(sizeof(To) == sizeof(LaneOf<V>));
  if constexpr (!is_vector<V>) {
    return __builtin_bit_cast(To, v);
  } else if constexpr (is_wide<V>) {
    using Half = decltype(bits_as<To>(v.lo));
    return Wide<To, Facts<V>::kCount>{Half(bits_as<To>(v.lo)), Half(bits_as<To>(v.hi))};
  } else {
    return (VecN<To, Facts<V>::kCount>)v;
  }
}

#if defined(TILE_MASK_BITS)
// 16 small integers to int, in one instruction.
template <class V>
TILE_INLINE VecN<int, 16> widen_16(V v) {
  constexpr unsigned short kAll = (unsigned short)-1;
  if constexpr (lanes_are<V, signed char>) {
    return __builtin_ia32_pmovsxbd512_mask((VecN<char, 16>)v, VecN<int, 16>{}, kAll);
  } else if constexpr (lanes_are<V, unsigned char>) {
    return __builtin_ia32_pmovzxbd512_mask((VecN<char, 16>)v, VecN<int, 16>{}, kAll);
  } else if constexpr (lanes_are<V, short>) {
    return __builtin_ia32_pmovsxwd512_mask(v, VecN<int, 16>{}, kAll);
  } else {
    return __builtin_ia32_pmovzxwd512_mask((VecN<short, 16>)v, VecN<int, 16>{}, kAll);
  }
}
#endif

#if defined(TILE_AVX2) && !defined(__clang__)
// Of 8 integers of one or two bytes, which GCC 12 takes apart.
template <class V>
TILE_INLINE VecN<int, 8> widen_8(V v) {
  if constexpr (sizeof(LaneOf<V>) == 1) {
    using Quads = long long __attribute__((vector_size(16)));
    const auto bytes = (VecN<char, 16>)Quads{(long long)v, 0};
    return Facts<V>::kIsSigned ? __builtin_ia32_pmovsxbd256(bytes) : __builtin_ia32_pmovzxbd256(bytes);
  } else if constexpr (lanes_are<V, short>) {
    return __builtin_ia32_pmovsxwd256(v);
  } else {
    return __builtin_ia32_pmovzxwd256((VecN<short, 8>)v);
  }
}
// Of 4, in two halves by GCC 12.
template <class V>
TILE_INLINE VecN<int, 4> widen_4(V v) {
  if constexpr (sizeof(LaneOf<V>) == 1) {
    const auto bytes = (VecN<char, 16>)VecN<int, 4>{(int)v, 0, 0, 0};
    return Facts<V>::kIsSigned ? __builtin_ia32_pmovsxbd128(bytes) : __builtin_ia32_pmovzxbd128(bytes);
  } else {
    using Quads = long long __attribute__((vector_size(16)));
    const auto words = (VecN<short, 8>)Quads{(long long)v, 0};
    return Facts<V>::kIsSigned ? __builtin_ia32_pmovsxwd128(words) : __builtin_ia32_pmovzxwd128(words);
  }
}
// 8 integers that two bytes hold, and the low bytes of any; GCC 12 moves each of them through another
// register.
template <class V>
TILE_INLINE VecN<unsigned short, 8> words_of(V v) {
  const auto integers = (VecN<int, 8>)v;
  const auto high = __builtin_ia32_vextractf128_si256(integers, 1);
  return (VecN<unsigned short, 8>)__builtin_ia32_packusdw128(low_half(integers), high);
}
template <class V>
TILE_INLINE VecN<unsigned char, 8> low_bytes(V v) {
  const auto words = (VecN<short, 8>)words_of(v & fill<V>(0xff));
  const auto bytes = (VecN<unsigned char, 16>)__builtin_ia32_packuswb128(words, words);
  return slice<0>(bytes, FirstLanes<8>());
}
#endif
#if defined(TILE_AVX2) && !defined(TILE_AVX512) && !defined(__clang__)
// The low halves of 8 integers of eight bytes, in two exchanges.
template <class V>
TILE_INLINE VecN<int, 8> low_halves(V v) {
  using Quads = long long __attribute__((vector_size(32)));
  const auto in_turn = __builtin_ia32_shufps256((VecN<float, 8>)v.lo, (VecN<float, 8>)v.hi, 0x88);
  return (VecN<int, 8>)__builtin_ia32_permdi256((Quads)in_turn, 0xd8);
}
#endif

// The same number of lanes, of another type: C++'s conversion of each. In steps that GCC 12 knows as
// instructions: between registers of different widths by halves, integers by a factor of two at a time, and
// to floats from int.
template <class To, class V>
TILE_INLINE VecN<To, Facts<V>::kCount> convert_lanes(V v) {
  using Out = VecN<To, Facts<V>::kCount>;
  using From = LaneOf<V>;
  constexpr bool kFromSmallInt = !is_float<V> && sizeof(From) < 4;
  if constexpr (__is_same(Out, V)) {
    return v;
#if defined(TILE_MASK_BITS)
  } else if constexpr (kFromSmallInt && !is_float<Out> && sizeof(To) == 4 && Facts<V>::kCount == 16) {
    return (Out)widen_16(v);
#endif
#if defined(TILE_AVX2) && !defined(__clang__)
  } else if constexpr (kFromSmallInt && !is_float<Out> && sizeof(To) == 4 && Facts<V>::kCount == 8) {
    return (Out)widen_8(v);
  } else if constexpr (kFromSmallInt && !is_float<Out> && sizeof(To) == 4 && Facts<V>::kCount == 4) {
    return (Out)widen_4(v);
  } else if constexpr (!is_float<V> && sizeof(From) == 4 && sizeof(To) == 1 && sizeof(V) == 32) {
    return (Out)low_bytes(v);
#endif
#if defined(TILE_AVX2) && !defined(TILE_AVX512) && !defined(__clang__)
  } else if constexpr (!is_float<V> && sizeof(From) == 8 && !is_float<Out> && sizeof(To) == 4 &&
                       Facts<V>::kCount == 8) {
    return (Out)low_halves(v);
#endif
#if defined(TILE_MASK_BITS)
  } else if constexpr (!is_float<V> && sizeof(From) == 4 && sizeof(To) == 1 && Facts<V>::kCount == 16) {
    return (Out)__builtin_ia32_pmovdb512_mask((VecN<int, 16>)v, VecN<char, 16>{}, (unsigned short)-1);
#endif
  } else if constexpr (!is_float<Out> && sizeof(To) < 4 && sizeof(From) > 4) {
    return convert_lanes<To>(convert_lanes<int>(v));
  } else if constexpr (is_float<Out> && kFromSmallInt) {
    return convert_lanes<To>(convert_lanes<int>(v));
  } else if constexpr (kFromSmallInt && sizeof(To) > 2 * sizeof(From)) {
    using Doubled = IntOfSize<2 * sizeof(From)>;
    using Step =
        typename Pick<Facts<V>::kIsSigned, typename Doubled::Signed, typename Doubled::Unsigned>::type;
    return convert_lanes<To>(convert_lanes<Step>(v));
  } else if constexpr (is_wide<V> || is_wide<Out>) {
    return join(convert_lanes<To>(low_half(v)), convert_lanes<To>(high_half(v)));
#if defined(TILE_AVX512) && !defined(__clang__)
  } else if constexpr (__is_same(From, float) && __is_same(To, double) && Facts<V>::kCount == 8) {
    return __builtin_ia32_cvtps2pd512_mask(v, Out{}, (unsigned char)-1, 4);
#endif
#if defined(TILE_AVX2) && !defined(__clang__)
  } else if constexpr (__is_same(From, float) && __is_same(To, double) && Facts<V>::kCount == 4) {
    return __builtin_ia32_cvtps2pd256(v);  // GCC 12: through memory
#endif
  } else {
    return __builtin_convertvector(v, Out);
  }
}

}  // namespace tile
