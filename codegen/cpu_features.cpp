#include "codegen/cpu_features.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif
#include <sys/utsname.h>

#include <array>
#include <cstdio>

#include "fusion/instruction_sets.h"

namespace tilefuse {
namespace {

void append_hex(unsigned value, std::string* text) {
  std::array<char, 12> digits{};
  std::snprintf(digits.data(), digits.size(), " %x", value);
  text->append(digits.data());
}

#if defined(__x86_64__) || defined(__i386__)
// Registers of a leaf; bits that differ between the cores of one machine (APIC ids, topology) left out.
void append_leaf(unsigned leaf, unsigned sub_leaf, std::array<bool, 4> kept, std::string* text) {
  std::array<unsigned, 4> values{};
  if (__get_cpuid_count(leaf, sub_leaf, values.data(), &values[1], &values[2], &values[3]) == 0) return;
  for (size_t i = 0; i < values.size(); ++i) {
    if (kept[i]) append_hex(values[i], text);
  }
}
#endif

}  // namespace

std::string cpu_architecture() {
  utsname system{};
  uname(&system);
  return system.machine;
}

std::string cpu_features() {
  std::string text = cpu_architecture();
#if defined(__x86_64__) || defined(__i386__)
  append_leaf(1, 0, {true, false, true, true}, &text);  // model; features
  append_leaf(7, 0, {false, true, true, true}, &text);
  append_leaf(7, 1, {true, false, false, true}, &text);
  append_leaf(0x80000001, 0, {false, false, true, true}, &text);
  append_leaf(0xd, 1, {true, false, false, false}, &text);
  // Which registers the system saves: without it AVX cannot be used whatever the processor has.
  unsigned low = 0, high = 0, a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_OSXSAVE) != 0) {
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    append_hex(low, &text);
  }
#elif defined(__linux__)
  append_hex(static_cast<unsigned>(getauxval(AT_HWCAP)), &text);
  append_hex(static_cast<unsigned>(getauxval(AT_HWCAP2)), &text);
#endif
  return text;
}

bool cpu_has_avx512() {
  return missing_instructions({"avx512f", "avx512bw", "avx512dq", "avx512vl"}).empty();
}

}  // namespace tilefuse
