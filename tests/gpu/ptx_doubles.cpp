#include "tests/gpu/ptx_doubles.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace tilefuse {
namespace {

using Operands = const uint64_t*;
using Table = std::map<std::string, PtxOperation>;

double number(uint64_t bits) { return std::bit_cast<double>(bits); }
uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }

// rcp.approx.ftz.f64 and its like: only the upper half of the result is computed, and numbers too small for
// a normal one are zero.
double upper_half(double value) {
  const double flushed = std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0, value) : value;
  return std::isnan(flushed) ? flushed : number(bits_of(flushed) >> 32 << 32);
}
double flushed(double value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0, value) : value;
}

using Unary = double (*)(double);
using Binary = double (*)(double, double);

void add_arithmetic(Table& table) {
  const std::pair<const char*, Unary> unary[] = {
      {"abs.f64", [](double a) { return std::fabs(a); }},
      {"neg.f64", [](double a) { return -a; }},
      {"sqrt.rn.f64", [](double a) { return std::sqrt(a); }},
      {"rcp.rn.f64", [](double a) { return 1 / a; }},
      {"rcp.approx.ftz.f64", [](double a) { return upper_half(1 / flushed(a)); }},
      {"rsqrt.approx.f64", [](double a) { return 1 / std::sqrt(a); }},
      {"rsqrt.approx.ftz.f64", [](double a) { return upper_half(1 / std::sqrt(flushed(a))); }},
      {"cvt.rni.f64.f64", [](double a) { return std::nearbyint(a); }},
      {"cvt.rzi.f64.f64", [](double a) { return std::trunc(a); }},
      {"cvt.rmi.f64.f64", [](double a) { return std::floor(a); }},
      {"cvt.rpi.f64.f64", [](double a) { return std::ceil(a); }},
  };
  for (const auto& [name, function] : unary) {
    table[name] = {1, [function](Operands o) { return bits_of(function(number(o[0]))); }};
  }
  const std::pair<const char*, Binary> binary[] = {
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"div", [](double a, double b) { return a / b; }},
      {"min", [](double a, double b) { return std::fmin(a, b); }},
      {"max", [](double a, double b) { return std::fmax(a, b); }},
      {"copysign", [](double sign, double size) { return std::copysign(size, sign); }},
  };
  for (const auto& [name, function] : binary) {
    const PtxOperation operation = {
        2, [function](Operands o) { return bits_of(function(number(o[0]), number(o[1]))); }};
    for (const char* rounding : {"", ".rn"}) table[std::string(name) + rounding + ".f64"] = operation;
  }
  table["fma.rn.f64"] = {
      3, [](Operands o) { return bits_of(std::fma(number(o[0]), number(o[1]), number(o[2]))); }};
}

void add_comparisons(Table& table) {
  const std::pair<const char*, bool (*)(double, double)> comparisons[] = {
      {"eq", [](double a, double b) { return a == b; }}, {"ne", [](double a, double b) { return a != b; }},
      {"lt", [](double a, double b) { return a < b; }},  {"le", [](double a, double b) { return a <= b; }},
      {"gt", [](double a, double b) { return a > b; }},  {"ge", [](double a, double b) { return a >= b; }},
      {"num", [](double, double) { return true; }},      {"nan", [](double, double) { return false; }},
  };
  for (const auto& [name, holds] : comparisons) {
    const auto with = [holds = holds](bool if_unordered) {
      return PtxOperation{2, [=](Operands o) -> uint64_t {
                            const double a = number(o[0]), b = number(o[1]);
                            return std::isnan(a) || std::isnan(b) ? if_unordered : holds(a, b);
                          }};
    };
    const std::string how = name;
    table["setp." + how + ".f64"] = with(how == "nan");
    if (how.size() == 2) table["setp." + how + "u.f64"] = with(true);
  }
}

// A float cuts off its fraction, and what is out of range becomes the number nearest to it.
template <class To>
uint64_t to_integer(double value) {
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (whole < double(std::numeric_limits<To>::min())) return uint64_t(std::numeric_limits<To>::min());
  if (whole >= std::ldexp(1, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
  return static_cast<uint64_t>(static_cast<To>(whole));
}
template <class T>
void add_conversions_of(const std::string& type, Table& table) {
  constexpr uint64_t kBits = sizeof(T) == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * sizeof(T) % 64)) - 1;
  table["cvt.rn.f64." + type] = {
      1, [](Operands o) { return bits_of(static_cast<double>(static_cast<T>(o[0]))); }};
  table["cvt.rzi." + type + ".f64"] = {1, [](Operands o) { return to_integer<T>(number(o[0])) & kBits; }};
}

void add_conversions(Table& table) {
  add_conversions_of<int8_t>("s8", table);
  add_conversions_of<int16_t>("s16", table);
  add_conversions_of<int32_t>("s32", table);
  add_conversions_of<int64_t>("s64", table);
  add_conversions_of<uint8_t>("u8", table);
  add_conversions_of<uint16_t>("u16", table);
  add_conversions_of<uint32_t>("u32", table);
  add_conversions_of<uint64_t>("u64", table);
  table["cvt.rni.s32.f64"] = {
      1, [](Operands o) { return to_integer<int32_t>(std::nearbyint(number(o[0]))) & 0xffffffff; }};
  table["cvt.f64.f32"] = {
      1, [](Operands o) { return bits_of(std::bit_cast<float>(static_cast<uint32_t>(o[0]))); }};
  table["cvt.rn.f32.f64"] = {
      1, [](Operands o) -> uint64_t { return std::bit_cast<uint32_t>(static_cast<float>(number(o[0]))); }};
}

}  // namespace

std::optional<PtxOperation> find_double_operation(const std::string& opcode) {
  static const Table table = [] {
    Table made;
    add_arithmetic(made);
    add_comparisons(made);
    add_conversions(made);
    return made;
  }();
  const auto found = table.find(opcode);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

}  // namespace tilefuse
