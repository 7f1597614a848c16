#include "fusion/instruction_sets.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/result.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tilefuse {
namespace {

enum class Register : uint8_t { Eax, Ebx, Ecx, Edx };

// What the system must save of a program besides general registers and SSE's, as xgetbv says it.
constexpr unsigned kNothing = 0, kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;

// "The Intel 64 manual, volume 2, CPUID": the bit of a leaf that says that a processor has the instructions.
struct Row {
  std::string_view name;
  std::string_view flag;
  unsigned leaf, sub_leaf;
  Register in;
  int bit;
  unsigned saved;
};

constexpr std::array kRows = {
    Row{"avx2", "-mavx2", 7, 0, Register::Ebx, 5, kYmm},
    Row{"fma", "-mfma", 1, 0, Register::Ecx, 12, kYmm},
    Row{"f16c", "-mf16c", 1, 0, Register::Ecx, 29, kYmm},
    Row{"bmi2", "-mbmi2", 7, 0, Register::Ebx, 8, kNothing},
    Row{"avx512f", "-mavx512f", 7, 0, Register::Ebx, 16, kZmm},
    Row{"avx512bw", "-mavx512bw", 7, 0, Register::Ebx, 30, kZmm},
    Row{"avx512dq", "-mavx512dq", 7, 0, Register::Ebx, 17, kZmm},
    Row{"avx512vl", "-mavx512vl", 7, 0, Register::Ebx, 31, kZmm},
    Row{"avx512cd", "-mavx512cd", 7, 0, Register::Ebx, 28, kZmm},
    Row{"avx512ifma", "-mavx512ifma", 7, 0, Register::Ebx, 21, kZmm},
    Row{"avx512vbmi", "-mavx512vbmi", 7, 0, Register::Ecx, 1, kZmm},
    Row{"avx512vbmi2", "-mavx512vbmi2", 7, 0, Register::Ecx, 6, kZmm},
    Row{"avx512vnni", "-mavx512vnni", 7, 0, Register::Ecx, 11, kZmm},
    Row{"avx512bf16", "-mavx512bf16", 7, 1, Register::Eax, 5, kZmm},
    Row{"avx512fp16", "-mavx512fp16", 7, 0, Register::Edx, 23, kZmm},
    Row{"amxtile", "-mamx-tile", 7, 0, Register::Edx, 24, kTiles},
    Row{"amxbf16", "-mamx-bf16", 7, 0, Register::Edx, 22, kTiles},
    Row{"amxint8", "-mamx-int8", 7, 0, Register::Edx, 25, kTiles},
};

const Row* row(std::string_view name) {
  const auto* found =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });
  return found == kRows.end() ? nullptr : found;
}

#if defined(__x86_64__)
// Without the system's help registers are lost between two programs, whatever the processor has.
unsigned saved_by_the_system() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return 0;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Linux saves matrix tiles only of processes that have asked ("Using XSTATE features in user space
// applications", ARCH_REQ_XCOMP_PERM); asking again is no harm.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  static const bool is_granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_granted;
#else
  return false;
#endif
}

bool is_here(const Row& row) {
  std::array<unsigned, 4> values{};
  if (__get_cpuid_count(row.leaf, row.sub_leaf, values.data(), &values[1], &values[2], &values[3]) == 0) {
    return false;
  }
  const bool has_it = ((values[static_cast<size_t>(row.in)] >> row.bit) & 1) != 0;
  const bool is_saved = (saved_by_the_system() & row.saved) == row.saved;
  return has_it && is_saved && (row.saved != kTiles || may_use_tiles());
}
#else
bool is_here(const Row&) { return false; }
#endif

}  // namespace

std::vector<std::string_view> instruction_set_names() {
  std::vector<std::string_view> names;
  names.reserve(kRows.size());
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

std::vector<std::string> compiler_flags(const std::vector<std::string>& sets) {
  std::vector<std::string> flags;
  flags.reserve(sets.size());
  for (const std::string& set : sets) {
    const Row* known = row(set);
    TILEFUSE_CHECK(known != nullptr, "compiler flags: " + set + " is no instruction set");
    flags.emplace_back(known->flag);
  }
  return flags;
}

std::vector<std::string> missing_instructions(const std::vector<std::string>& sets) {
  std::vector<std::string> missing;
  for (const std::string& set : sets) {
    const Row* known = row(set);
    if (known == nullptr || !is_here(*known)) missing.push_back(set);
  }
  return missing;
}

}  // namespace tilefuse
