#include "codegen/instruction_rates.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace tilefuse {

#if defined(__x86_64__)
namespace {

constexpr int64_t kTurns = 250000;
constexpr int kRounds = 20;  // the fastest counts: others run on the machine, too
constexpr int kInTurn = 12;  // instructions of a loop's turn, each with a result of its own: enough for two a
                             // cycle that take six cycles each

// A loop over twelve of an instruction, which writes register \r from what is in 0 and 1 or, a store, writes
// that to the line at %0. All are zero before: what is left in registers could be slow numbers.
#define TILEFUSE_LOOP(name, instruction)                                                                  \
  void name(void* line) {                                                                                 \
    asm volatile(                                                                                         \
        ".irp r,0,1,4,5,6,7,8,9,10,11,12,13,14,15\n vpxor %%xmm\\r, %%xmm\\r, %%xmm\\r\n.endr\n"          \
        "mov %1, %%rcx\n"                                                                                 \
        "1:\n.irp r,4,5,6,7,8,9,10,11,12,13,14,15\n" instruction                                          \
        "\n.endr\n"                                                                                       \
        "dec %%rcx\njnz 1b\nvzeroupper\n" ::"r"(line),                                                    \
        "i"(kTurns)                                                                                       \
        : "rcx", "cc", "memory", "xmm0", "xmm1", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
          "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                                                   \
  }

TILEFUSE_LOOP(fma_64, "vfmadd231ps %%zmm1, %%zmm0, %%zmm\\r")
TILEFUSE_LOOP(fma_32, "vfmadd231ps %%ymm1, %%ymm0, %%ymm\\r")
TILEFUSE_LOOP(permute_64, "vpermps %%zmm1, %%zmm0, %%zmm\\r")
TILEFUSE_LOOP(permute_32, "vpermps %%ymm1, %%ymm0, %%ymm\\r")
TILEFUSE_LOOP(store_64, "vmovups %%zmm\\r, (%0)")
TILEFUSE_LOOP(store_32, "vmovups %%ymm\\r, (%0)")
TILEFUSE_LOOP(narrow_64, "vcvtneps2bf16 %%zmm0, %%ymm\\r")
TILEFUSE_LOOP(narrow_32, "vcvtneps2bf16 %%ymm0, %%xmm\\r")
TILEFUSE_LOOP(bytes_64, "vpdpbusd %%zmm1, %%zmm0, %%zmm\\r")
TILEFUSE_LOOP(bytes_32, "vpdpbusd %%ymm1, %%ymm0, %%ymm\\r")
TILEFUSE_LOOP(dot_64, "vdpbf16ps %%zmm1, %%zmm0, %%zmm\\r")
TILEFUSE_LOOP(dot_32, "vdpbf16ps %%ymm1, %%ymm0, %%ymm\\r")

// What ldtilecfg reads: eight matrix tiles of 16 rows of 64 bytes.
struct TileShapes {
  uint8_t palette = 1, unused[15] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The same of four tiles of sums.
#define TILEFUSE_TILE_LOOP(name, instruction)             \
  void name(void*) {                                      \
    const TileShapes shapes;                              \
    asm volatile(                                         \
        "ldtilecfg %0\nmov %1, %%rcx\n"                   \
        "1:\n.rept 3\n.irp r,0,1,2,3\n" instruction       \
        " %%tmm5, %%tmm4, %%tmm\\r\n.endr\n.endr\n"       \
        "dec %%rcx\njnz 1b\ntilerelease\n" ::"m"(shapes), \
        "i"(kTurns)                                       \
        : "rcx", "cc");                                   \
  }
TILEFUSE_TILE_LOOP(tile_bf16, "tdpbf16ps")
TILEFUSE_TILE_LOOP(tile_i8, "tdpbusd")

struct Row {
  const char* name;
  int vector_bytes;
  std::vector<std::string> needs;
  void (*loop)(void*);
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"fma", 64, {"avx512f"}, fma_64},
      {"fma", 32, {"avx2", "fma"}, fma_32},
      {"permute", 64, {"avx512f"}, permute_64},
      {"permute", 32, {"avx2"}, permute_32},
      {"store", 64, {"avx512f"}, store_64},
      {"store", 32, {"avx2"}, store_32},
      {"narrow_bf16", 64, {"avx512bf16", "avx512vl"}, narrow_64},
      {"narrow_bf16", 32, {"avx512bf16", "avx512vl"}, narrow_32},
      {"dot_bf16", 64, {"avx512bf16", "avx512f"}, dot_64},
      {"dot_bf16", 32, {"avx512bf16", "avx512vl"}, dot_32},
      {"dot_i8", 64, {"avx512vnni", "avx512f"}, bytes_64},
      {"dot_i8", 32, {"avx512vnni", "avx512vl"}, bytes_32},
      {"tile_bf16", 64, {"amxtile", "amxbf16"}, tile_bf16},
      {"tile_i8", 64, {"amxtile", "amxint8"}, tile_i8},
  };
  return table;
}

// Of two registers: newer processors do additions of a constant several at a time, while they rename
// registers.
void additions(void*) {
  asm volatile(
      "mov %0, %%rcx\nmov $1, %%rdx\n1:\n"
      ".rept 12\nadd %%rdx, %%rax\n.endr\n"
      "dec %%rcx\njnz 1b\n" ::"i"(kTurns)
      : "rax", "rcx", "rdx", "cc");
}

double per_ns(void (*loop)(void*)) {
  alignas(64) char line[64] = {};
  double best_ns = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    loop(line);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, time.count());
  }
  return double(kTurns) * kInTurn / best_ns;
}

bool has_all(const Processor& processor, const std::vector<std::string>& sets) {
  return std::ranges::all_of(sets, [&](const std::string& set) {
    return std::ranges::find(processor.instructions, set) != processor.instructions.end();
  });
}

}  // namespace

double additions_per_ns() { return per_ns(additions); }

std::map<std::string, double> instruction_rates(const Processor& processor, int vector_bytes) {
  std::map<std::string, double> rates;
  for (const Row& row : rows()) {
    if (row.vector_bytes != vector_bytes || !has_all(processor, row.needs)) continue;
    const double instructions = per_ns(row.loop);
    rates[row.name] = instructions / additions_per_ns();
  }
  return rates;
}

#else

double additions_per_ns() { return 0; }
std::map<std::string, double> instruction_rates(const Processor&, int) { return {}; }

#endif

}  // namespace tilefuse
