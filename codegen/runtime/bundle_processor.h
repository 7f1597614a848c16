// Which instructions a library needs, and whether this processor has them. The needs are a constant of a
// source that is compiled as the kernels are; the question is asked by the driver, which is compiled for any
// processor.
#pragma once
#include <stdint.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

// Bits of cpuid: leaf 1 ecx, leaf 7 ebx, ecx, edx, leaf 7.1 eax, leaf 0x80000001 ecx; bits of xcr0.
constexpr int kFeatureWords = 7;
constexpr uint32_t kTileRegisters = 0x60000U;
struct ProcessorNeeds {
  uint32_t words[kFeatureWords];
};

constexpr ProcessorNeeds needs_of_this_source() {
  ProcessorNeeds needs = {};
#ifdef __SSE3__
  needs.words[0] |= 1U << 0;
#endif
#ifdef __SSSE3__
  needs.words[0] |= 1U << 9;
#endif
#ifdef __FMA__
  needs.words[0] |= 1U << 12;
#endif
#ifdef __SSE4_1__
  needs.words[0] |= 1U << 19;
#endif
#ifdef __SSE4_2__
  needs.words[0] |= 1U << 20;
#endif
#ifdef __MOVBE__
  needs.words[0] |= 1U << 22;
#endif
#ifdef __POPCNT__
  needs.words[0] |= 1U << 23;
#endif
#ifdef __AVX__
  needs.words[0] |= 1U << 28;
  needs.words[6] |= 0x6U;
#endif
#ifdef __F16C__
  needs.words[0] |= 1U << 29;
#endif
#ifdef __BMI__
  needs.words[1] |= 1U << 3;
#endif
#ifdef __AVX2__
  needs.words[1] |= 1U << 5;
#endif
#ifdef __BMI2__
  needs.words[1] |= 1U << 8;
#endif
#ifdef __AVX512F__
  needs.words[1] |= 1U << 16;
  needs.words[6] |= 0xe0U;
#endif
#ifdef __AVX512DQ__
  needs.words[1] |= 1U << 17;
#endif
#ifdef __AVX512IFMA__
  needs.words[1] |= 1U << 21;
#endif
#ifdef __AVX512CD__
  needs.words[1] |= 1U << 28;
#endif
#ifdef __AVX512BW__
  needs.words[1] |= 1U << 30;
#endif
#ifdef __AVX512VL__
  needs.words[1] |= 1U << 31;
#endif
#ifdef __AVX512VBMI__
  needs.words[2] |= 1U << 1;
#endif
#ifdef __AVX512VBMI2__
  needs.words[2] |= 1U << 6;
#endif
#ifdef __GFNI__
  needs.words[2] |= 1U << 8;
#endif
#ifdef __AVX512VNNI__
  needs.words[2] |= 1U << 11;
#endif
#ifdef __AVX512BITALG__
  needs.words[2] |= 1U << 12;
#endif
#ifdef __AVX512VPOPCNTDQ__
  needs.words[2] |= 1U << 14;
#endif
#ifdef __AVX512FP16__
  needs.words[3] |= 1U << 23;
#endif
#ifdef __AMX_BF16__
  needs.words[3] |= 1U << 22;
#endif
#ifdef __AMX_TILE__
  needs.words[3] |= 1U << 24;
  needs.words[6] |= kTileRegisters;
#endif
#ifdef __AMX_INT8__
  needs.words[3] |= 1U << 25;
#endif
#ifdef __AVXVNNI__
  needs.words[4] |= 1U << 4;
#endif
#ifdef __AVX512BF16__
  needs.words[4] |= 1U << 5;
#endif
#ifdef __LZCNT__
  needs.words[5] |= 1U << 5;
#endif
  return needs;
}

inline ProcessorNeeds features_of_this_processor() {
  ProcessorNeeds has = {};
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d) != 0) has.words[0] = c;
  const bool saves_registers = (has.words[0] & bit_OSXSAVE) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    has.words[1] = b;
    has.words[2] = c;
    has.words[3] = d;
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) has.words[4] = a;
  if (__get_cpuid_count(0x80000001U, 0, &a, &b, &c, &d) != 0) has.words[5] = c;
  if (saves_registers) __asm__("xgetbv" : "=a"(has.words[6]), "=d"(d) : "c"(0));
#endif
  return has;
}

// Linux saves matrix tiles only of processes that have asked.
inline bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Asked once: cpuid is slow where a hypervisor answers it.
inline bool processor_has(const uint32_t* needs) {
#if defined(__x86_64__)
  static int known = 0;  // 1: yes, 2: no
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == 0) {
    const ProcessorNeeds has = features_of_this_processor();
    answer = 1;
    for (int i = 0; i < kFeatureWords; ++i) {
      if ((needs[i] & ~has.words[i]) != 0) answer = 2;
    }
    if (answer == 1 && (needs[6] & kTileRegisters) != 0 && !may_use_tiles()) answer = 2;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == 1;
#else
  return needs != nullptr;
#endif
}

}  // namespace
