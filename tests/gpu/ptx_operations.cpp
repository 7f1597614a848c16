#include "tests/gpu/ptx_operations.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "tests/gpu/ptx_doubles.h"

namespace tilefuse {
namespace {

using Operands = const uint64_t*;
using Parts = std::vector<std::string>;
using Compute = std::function<uint64_t(Operands)>;

// ---------------------------------------------------------------- types
struct Type {
  char kind = 'b';  // s, u, b, f; p: a predicate
  int bits = 32;
};

std::optional<Type> parse_type(const std::string& text) {
  if (text == "pred") return Type{'p', 1};
  if (text == "bf16") return Type{'h', 16};  // of its own: half as many bits of a float
  static const std::map<std::string, int> kBits = {{"8", 8}, {"16", 16}, {"32", 32}, {"64", 64}};
  if (text.size() < 2 || std::string("subf").find(text[0]) == std::string::npos) return std::nullopt;
  const auto found = kBits.find(text.substr(1));
  if (found == kBits.end()) return std::nullopt;
  return Type{text[0], found->second};
}

uint64_t low_bits(uint64_t value, int bits) {
  return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
}
int64_t signed_bits(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}
// As the type has it, extended to 64 bits.
uint64_t extended(uint64_t value, Type type) {
  return type.kind == 's' ? static_cast<uint64_t>(signed_bits(value, type.bits)) : low_bits(value, type.bits);
}
bool is_less(uint64_t a, uint64_t b, Type type) {
  a = extended(a, type), b = extended(b, type);
  return type.kind == 's' ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
}

float to_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
uint64_t of_float(float value) { return std::bit_cast<uint32_t>(value); }
float flushed(float value) {  // .ftz: numbers too small for a normal one are zero
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

float half_to_float(uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
  const double value = exponent == 0    ? std::ldexp(fraction, -24)
                       : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                        : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}
// To nearest, of two as near the even one.
uint64_t float_to_half(float value) {
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7fff;
  const double size = std::fabs(static_cast<double>(value));
  if (size >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  const int unit = std::max(exponent - 11, -24);
  const double steps = std::nearbyint(std::ldexp(size, -unit));
  const double rounded = std::ldexp(steps, unit);
  if (rounded < std::ldexp(1, -14)) return sign | static_cast<uint64_t>(std::ldexp(rounded, 24));
  std::frexp(rounded, &exponent);
  const auto fraction = static_cast<uint64_t>(std::ldexp(rounded, 11 - exponent)) - 1024;
  return sign | static_cast<uint64_t>(exponent + 14) << 10 | fraction;
}
uint64_t float_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// ---------------------------------------------------------------- opcodes
// What stands between the name and the type; every modifier has to be taken.
class Modifiers {
 public:
  explicit Modifiers(Parts parts) : parts_(std::move(parts)) {}
  bool take(const std::string& modifier) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i] != modifier) continue;
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }
  std::string take_any(const Parts& modifiers) {
    for (const std::string& modifier : modifiers) {
      if (take(modifier)) return modifier;
    }
    return "";
  }
  bool is_empty() const { return parts_.empty(); }

 private:
  Parts parts_;
};

std::optional<PtxOperation> operation(int operands, Compute compute, const Modifiers& modifiers) {
  if (!modifiers.is_empty() || !compute) return std::nullopt;
  return PtxOperation{operands, std::move(compute)};
}

template <class F>
Compute on_floats_1(F function, bool flushes) {
  return [=](Operands o) {
    const float a = flushes ? flushed(to_float(o[0])) : to_float(o[0]);
    const float result = function(a);
    return of_float(flushes ? flushed(result) : result);
  };
}
template <class F>
Compute on_floats_2(F function, bool flushes) {
  return [=](Operands o) {
    float a = to_float(o[0]), b = to_float(o[1]);
    if (flushes) a = flushed(a), b = flushed(b);
    const float result = function(a, b);
    return of_float(flushes ? flushed(result) : result);
  };
}
template <class F>
Compute on_integers_2(Type type, F function) {
  return
      [=](Operands o) { return low_bits(function(extended(o[0], type), extended(o[1], type)), type.bits); };
}

// ---------------------------------------------------------------- families
float fma_rounded(float a, float b, float c, int rounding) {
  const int before = std::fegetround();
  std::fesetround(rounding);
  const volatile float result = std::fma(a, b, c);
  std::fesetround(before);
  return result;
}

Compute float_binary(const std::string& name, Modifiers& modifiers) {
  const bool flushes = modifiers.take("ftz");
  if (name == "add" || name == "sub" || name == "mul" || name == "div") {
    const std::string rounding = modifiers.take_any({"rn", "full", "approx"});
    if (name == "add" && modifiers.take("rz"))
      return on_floats_2([](float a, float b) { return fma_rounded(a, 1, b, FE_TOWARDZERO); }, flushes);
    if (name == "div" && rounding.empty()) return {};
    if (name == "add") return on_floats_2([](float a, float b) { return a + b; }, flushes);
    if (name == "sub") return on_floats_2([](float a, float b) { return a - b; }, flushes);
    if (name == "mul") return on_floats_2([](float a, float b) { return a * b; }, flushes);
    return on_floats_2([](float a, float b) { return a / b; }, flushes);
  }
  const bool keeps_nan = modifiers.take("NaN");
  const bool is_max = name == "max";
  return on_floats_2(
      [=](float a, float b) {
        if (keeps_nan && (std::isnan(a) || std::isnan(b))) return std::numeric_limits<float>::quiet_NaN();
        return is_max ? std::fmax(a, b) : std::fmin(a, b);
      },
      flushes);
}

uint64_t high_product(uint64_t a, uint64_t b, Type type) {
  if (type.kind == 's') {
    return static_cast<uint64_t>(static_cast<__int128>(static_cast<int64_t>(a)) * static_cast<int64_t>(b) >>
                                 type.bits);
  }
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> type.bits);
}

Compute integer_product(Type type, Modifiers& modifiers) {
  if (modifiers.take("wide")) {
    return [=](Operands o) { return low_bits(extended(o[0], type) * extended(o[1], type), 2 * type.bits); };
  }
  if (modifiers.take("hi")) {
    return on_integers_2(type, [=](uint64_t a, uint64_t b) { return high_product(a, b, type); });
  }
  if (!modifiers.take("lo")) return {};
  return on_integers_2(type, [](uint64_t a, uint64_t b) { return a * b; });
}

Compute integer_quotient(Type type, bool rest) {
  return on_integers_2(type, [=](uint64_t a, uint64_t b) -> uint64_t {
    if (b == 0) return ~uint64_t{0};  // as hardware leaves it: not to be used
    if (type.kind != 's') return rest ? a % b : a / b;
    const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
    if (y == -1) return rest ? 0 : uint64_t{0} - a;
    return static_cast<uint64_t>(rest ? x % y : x / y);
  });
}

Compute integer_binary(const std::string& name, Type type, Modifiers& modifiers) {
  if (name == "add") return on_integers_2(type, [](uint64_t a, uint64_t b) { return a + b; });
  if (name == "sub") return on_integers_2(type, [](uint64_t a, uint64_t b) { return a - b; });
  if (name == "mul") return integer_product(type, modifiers);
  if (name == "div" || name == "rem") return integer_quotient(type, name == "rem");
  const bool is_max = name == "max";
  return on_integers_2(type, [=](uint64_t a, uint64_t b) { return is_less(a, b, type) == is_max ? b : a; });
}

Compute bitwise(const std::string& name, Type type) {
  if (name == "and") return on_integers_2(type, [](uint64_t a, uint64_t b) { return a & b; });
  if (name == "or") return on_integers_2(type, [](uint64_t a, uint64_t b) { return a | b; });
  return on_integers_2(type, [](uint64_t a, uint64_t b) { return a ^ b; });
}

Compute shift(bool is_left, Type type) {
  return [=](Operands o) -> uint64_t {
    const uint64_t by = low_bits(o[1], 32), value = extended(o[0], type);
    const auto bits = static_cast<uint64_t>(type.bits);
    if (is_left) return by >= bits ? 0 : low_bits(value << by, type.bits);
    if (type.kind != 's') return by >= bits ? 0 : value >> by;
    return low_bits(static_cast<uint64_t>(static_cast<int64_t>(value) >> std::min(by, bits - 1)), type.bits);
  };
}

// The low bits of the first, so many as the fourth says, into the second at the place that the third says.
Compute bits_inserted(Type type) {
  return [=](Operands o) {
    const uint64_t at = low_bits(o[2], 8), count = low_bits(o[3], 8);
    if (at >= 64) return low_bits(o[1], type.bits);
    const uint64_t mask = (count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << at;
    return low_bits((o[1] & ~mask) | ((o[0] << at) & mask), type.bits);
  };
}

Compute float_unary(const std::string& name, Modifiers& modifiers) {
  const bool flushes = modifiers.take("ftz");
  const std::string exactness = modifiers.take_any({"approx", "rn"});
  const bool is_plain = name == "abs" || name == "neg";
  if (is_plain != exactness.empty()) return {};
  static const std::map<std::string, float (*)(float)> kFunctions = {
      {"abs", [](float a) { return std::fabs(a); }},
      {"neg", [](float a) { return -a; }},
      {"ex2", [](float a) { return static_cast<float>(std::exp2(static_cast<double>(a))); }},
      {"lg2", [](float a) { return static_cast<float>(std::log2(static_cast<double>(a))); }},
      {"rcp", [](float a) { return 1 / a; }},
      {"sqrt", [](float a) { return std::sqrt(a); }},
      {"rsqrt", [](float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); }},
      {"tanh", [](float a) { return static_cast<float>(std::tanh(static_cast<double>(a))); }},
  };
  const auto found = kFunctions.find(name);
  return found == kFunctions.end() ? Compute{} : on_floats_1(found->second, flushes);
}

Compute multiply_add(const std::string& name, Type type, Modifiers& modifiers) {
  if (name == "fma") {
    const bool flushes = modifiers.take("ftz");
    const std::string rounding = modifiers.take_any({"rn", "rm", "rp", "rz"});
    static const std::map<std::string, int> kModes = {
        {"rn", FE_TONEAREST}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}, {"rz", FE_TOWARDZERO}};
    if (type.kind != 'f' || type.bits != 32 || rounding.empty()) return {};
    const int mode = kModes.at(rounding);
    return [=](Operands o) {
      float a = to_float(o[0]), b = to_float(o[1]), c = to_float(o[2]);
      if (flushes) a = flushed(a), b = flushed(b), c = flushed(c);
      const float result = fma_rounded(a, b, c, mode);
      return of_float(flushes ? flushed(result) : result);
    };
  }
  if (type.kind == 'f') return {};
  const bool is_wide = modifiers.take("wide");
  if (!is_wide && !modifiers.take("lo")) return {};
  const int bits = is_wide ? 2 * type.bits : type.bits;
  return [=](Operands o) { return low_bits(extended(o[0], type) * extended(o[1], type) + o[2], bits); };
}

Compute comparison(Type type, const std::string& how) {
  if (type.kind == 'f') {
    if (type.bits != 32) return {};
    const bool if_unordered = how == "nan" || (how.size() == 3 && how.back() == 'u');
    const std::string plain = how.size() == 3 && if_unordered ? how.substr(0, 2) : how;
    return [=](Operands o) -> uint64_t {
      const float a = to_float(o[0]), b = to_float(o[1]);
      if (std::isnan(a) || std::isnan(b)) return if_unordered;
      if (how == "nan") return 0;
      if (how == "num") return 1;
      return plain == "eq"   ? a == b
             : plain == "ne" ? a != b
             : plain == "lt" ? a < b
             : plain == "le" ? a <= b
             : plain == "gt" ? a > b
                             : a >= b;
    };
  }
  return [=](Operands o) -> uint64_t {
    const bool less = is_less(o[0], o[1], type), greater = is_less(o[1], o[0], type);
    if (how == "eq") return !less && !greater;
    if (how == "ne") return less || greater;
    if (how == "lt" || how == "lo") return less;
    if (how == "le" || how == "ls") return !greater;
    if (how == "gt" || how == "hi") return greater;
    return !less;
  };
}

std::optional<PtxOperation> find_comparison(Parts parts, Type type) {  // setp.lt.s32
  if (parts.size() != 1) return std::nullopt;
  static const Parts kInteger = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};
  static const Parts kFloat = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                               "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  Modifiers modifiers(parts);
  const std::string how = modifiers.take_any(type.kind == 'f' ? kFloat : kInteger);
  if (how.empty()) return std::nullopt;
  return operation(2, comparison(type, how), modifiers);
}

double rounded_to_integer(double value, const std::string& rounding) {
  if (rounding == "rzi") return std::trunc(value);
  if (rounding == "rmi") return std::floor(value);
  if (rounding == "rpi") return std::ceil(value);
  return std::nearbyint(value);
}

uint64_t float_to_integer(float value, Type to, const std::string& rounding) {
  if (std::isnan(value)) return 0;
  const double whole = rounded_to_integer(value, rounding);
  const double low = to.kind == 's' ? -std::ldexp(1, to.bits - 1) : 0;
  const double high = std::ldexp(1, to.kind == 's' ? to.bits - 1 : to.bits);
  if (whole < low) return low_bits(static_cast<uint64_t>(static_cast<int64_t>(low)), to.bits);
  if (whole >= high)
    return low_bits(to.kind == 's' ? (uint64_t{1} << (to.bits - 1)) - 1 : ~uint64_t{0}, to.bits);
  return low_bits(
      to.kind == 's' ? static_cast<uint64_t>(static_cast<int64_t>(whole)) : static_cast<uint64_t>(whole),
      to.bits);
}

Compute float_conversion(Type to, Type from, const std::string& rounding, bool saturates, bool flushes) {
  const bool from_half = from.kind == 'f' && from.bits == 16, to_half = to.kind == 'f' && to.bits == 16;
  const bool from_float = from.kind == 'f' && from.bits == 32, to_float32 = to.kind == 'f' && to.bits == 32;
  if (from_half && to_float32) return [](Operands o) { return of_float(half_to_float(o[0])); };
  if (from.kind == 'h' && to_float32) return [](Operands o) { return low_bits(o[0], 16) << 16; };
  if (from_float && to_half && rounding == "rn")
    return [](Operands o) { return float_to_half(to_float(o[0])); };
  if (from_float && to.kind == 'h' && rounding == "rn")
    return [](Operands o) { return float_to_bf16(to_float(o[0])); };
  if (from_float && to_float32) {
    return [=](Operands o) {
      float value = flushes ? flushed(to_float(o[0])) : to_float(o[0]);
      if (!rounding.empty()) value = static_cast<float>(rounded_to_integer(value, rounding));
      if (saturates) value = std::isnan(value) ? 0 : std::fmin(std::fmax(value, 0.0F), 1.0F);
      return of_float(value);
    };
  }
  if (from_float && (to.kind == 's' || to.kind == 'u') && rounding.ends_with('i')) {
    return [=](Operands o) { return float_to_integer(to_float(o[0]), to, rounding); };
  }
  if (to_float32 && rounding == "rn" && (from.kind == 's' || from.kind == 'u')) {
    return [=](Operands o) {
      const uint64_t value = extended(o[0], from);
      return of_float(from.kind == 's' ? static_cast<float>(static_cast<int64_t>(value))
                                       : static_cast<float>(value));
    };
  }
  return {};
}

// To the 19 highest bits, to nearest; what lies between two goes to the greater.
uint64_t float_to_tf32(float value) {
  if (std::isnan(value)) return 0x7fffe000;
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isinf(value)) return bits;
  return (bits + 0x1000) & 0xffffe000;
}

// cvt.rn.bf16x2.f32: two floats in one register, the second one in the lower half.
PtxOperation pair_conversion(Type half) {
  const Compute narrow = float_conversion(half, {'f', 32}, "rn", false, false);
  return {2, [narrow](Operands o) {
            const uint64_t high = o[0], low = o[1];
            return narrow(&high) << 16 | narrow(&low);
          }};
}

std::optional<PtxOperation> find_conversion(Parts parts) {  // cvt.rn.f32.s32
  if (parts.size() < 2) return std::nullopt;
  if (parts == Parts{"rn", "bf16x2", "f32"}) return pair_conversion(*parse_type("bf16"));
  if (parts == Parts{"rn", "f16x2", "f32"}) return pair_conversion(*parse_type("f16"));
  const auto from = parse_type(parts.back()), to = parse_type(parts[parts.size() - 2]);
  parts.resize(parts.size() - 2);
  if (!from || !to) return std::nullopt;
  Modifiers modifiers(parts);
  const std::string rounding = modifiers.take_any({"rn", "rni", "rzi", "rmi", "rpi"});
  const bool saturates = modifiers.take("sat"), flushes = modifiers.take("ftz");
  const auto is_integer = [](Type type) { return type.kind == 's' || type.kind == 'u'; };
  if (is_integer(*from) && is_integer(*to)) {
    if (!rounding.empty() || saturates || flushes) return std::nullopt;
    return operation(1, [=](Operands o) { return low_bits(extended(o[0], *from), to->bits); }, modifiers);
  }
  return operation(1, float_conversion(*to, *from, rounding, saturates, flushes), modifiers);
}

bool is_one_of(const std::string& name, const Parts& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<PtxOperation> find_float_operation(const std::string& name, Type type, Modifiers modifiers) {
  if (type.bits != 32) return std::nullopt;
  if (is_one_of(name, {"add", "sub", "mul", "div", "min", "max"})) {
    Compute compute = float_binary(name, modifiers);
    return operation(2, std::move(compute), modifiers);
  }
  if (name == "copysign") {  // the sign of the first
    return operation(2, on_floats_2([](float a, float b) { return std::copysign(b, a); }, false), modifiers);
  }
  Compute compute = float_unary(name, modifiers);
  return operation(1, std::move(compute), modifiers);
}

// Four bytes, each picked from the eight of both operands by four bits of the selector; the highest of them
// asks for the sign of the byte instead.
uint64_t bytes_permuted(Operands o) {
  const uint64_t all = low_bits(o[0], 32) | low_bits(o[1], 32) << 32;
  uint64_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t pick = o[2] >> (4 * i) & 15;
    uint64_t byte = all >> (8 * (pick & 7)) & 255;
    if ((pick & 8) != 0) byte = byte >= 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// The upper half of the second and the first, shifted to the left.
uint64_t funnel_shifted(Operands o) {
  const uint64_t whole = low_bits(o[1], 32) << 32 | low_bits(o[0], 32);
  return low_bits(whole << (o[2] & 31) >> 32, 32);
}

// c and the products of four bytes, each signed as its type says.
template <class A, class B>
uint64_t dot_of_bytes(Operands o) {
  uint64_t sum = o[2];
  for (int i = 0; i < 32; i += 8) sum += uint64_t(int64_t(A(o[0] >> i)) * int64_t(B(o[1] >> i)));
  return low_bits(sum, 32);
}

std::optional<PtxOperation> find_bit_operation(const std::string& name, Type type, Modifiers modifiers) {
  if (is_one_of(name, {"and", "or", "xor"})) return operation(2, bitwise(name, type), modifiers);
  if (name == "not") return operation(1, [=](Operands o) { return low_bits(~o[0], type.bits); }, modifiers);
  if (name == "shl" || name == "shr") return operation(2, shift(name == "shl", type), modifiers);
  return std::nullopt;
}

std::optional<PtxOperation> find_integer_operation(const std::string& name, Type type, Modifiers modifiers) {
  if (is_one_of(name, {"add", "sub", "mul", "div", "rem", "min", "max"})) {
    Compute compute = integer_binary(name, type, modifiers);
    return operation(2, std::move(compute), modifiers);
  }
  if (name == "neg")
    return operation(1, [=](Operands o) { return low_bits(0 - o[0], type.bits); }, modifiers);
  if (name == "abs") {
    return operation(
        1,
        [=](Operands o) {
          const int64_t value = signed_bits(o[0], type.bits);
          return low_bits(static_cast<uint64_t>(value < 0 ? -value : value), type.bits);
        },
        modifiers);
  }
  return std::nullopt;
}

}  // namespace

std::optional<PtxOperation> find_operation(const std::string& opcode) {
  Parts parts;
  std::istringstream words(opcode);
  for (std::string part; std::getline(words, part, '.');) parts.push_back(part);
  const std::string name = parts.front();
  parts.erase(parts.begin());
  if (opcode == "cvta.to.global.u64" || opcode == "cvta.param.u64")
    return PtxOperation{1, [](Operands o) { return o[0]; }};
  if (opcode == "cvt.rna.tf32.f32")
    return PtxOperation{1, [](Operands o) { return float_to_tf32(to_float(o[0])); }};
  if (auto found = find_double_operation(opcode)) return found;
  if (name == "cvt") return find_conversion(parts);
  if (parts.empty()) return std::nullopt;
  const auto type = parse_type(parts.back());
  parts.pop_back();
  if (!type) return std::nullopt;
  if (name == "setp") return find_comparison(parts, *type);
  Modifiers modifiers(parts);
  if (opcode == "prmt.b32") return PtxOperation{3, bytes_permuted};
  if (opcode == "shf.l.wrap.b32") return PtxOperation{3, funnel_shifted};
  if (opcode == "dp4a.s32.s32") return PtxOperation{3, dot_of_bytes<int8_t, int8_t>};
  if (opcode == "dp4a.s32.u32") return PtxOperation{3, dot_of_bytes<int8_t, uint8_t>};
  if (opcode == "dp4a.u32.s32") return PtxOperation{3, dot_of_bytes<uint8_t, int8_t>};
  if (name == "bfi") return operation(4, bits_inserted(*type), modifiers);
  if (name == "mov") return operation(1, [](Operands o) { return o[0]; }, modifiers);
  if (name == "selp") return operation(3, [](Operands o) { return o[2] != 0 ? o[0] : o[1]; }, modifiers);
  if (name == "fma" || name == "mad") {
    Compute compute = multiply_add(name, *type, modifiers);
    return operation(3, std::move(compute), modifiers);
  }
  if (auto found = find_bit_operation(name, *type, modifiers)) return found;
  if (type->kind == 'f') return find_float_operation(name, *type, modifiers);
  return find_integer_operation(name, *type, modifiers);
}

}  // namespace tilefuse
