// Loops over one multiply-add in registers, for peak.py: what a core does of it when it waits for nothing. As the loops of
// codegen/instruction_rates.cpp, with the number of turns as an argument.
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// A turn is twelve of an instruction, each into a register of its own: enough for two a cycle that take six cycles each. All
// registers are zero before: what is left in them could be slow numbers.
#define LOOP(name, instruction)                                                                                          \
  void name(long turns) {                                                                                                \
    __asm__ volatile(                                                                                                    \
        ".irp r,0,1,4,5,6,7,8,9,10,11,12,13,14,15\n vpxor %%xmm\\r, %%xmm\\r, %%xmm\\r\n.endr\n"                         \
        "1:\n.irp r,4,5,6,7,8,9,10,11,12,13,14,15\n" instruction "\n.endr\n"                                             \
        "dec %0\njnz 1b\nvzeroupper\n"                                                                                   \
        : "+r"(turns)::"cc", "xmm0", "xmm1", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
          "xmm13", "xmm14", "xmm15");                                                                                    \
  }

LOOP(fma_64, "vfmadd231ps %%zmm1, %%zmm0, %%zmm\\r")
LOOP(fma_32, "vfmadd231ps %%ymm1, %%ymm0, %%ymm\\r")
LOOP(dot_64, "vdpbf16ps %%zmm1, %%zmm0, %%zmm\\r")
LOOP(bytes_64, "vpdpbusd %%zmm1, %%zmm0, %%zmm\\r")

// What ldtilecfg reads: eight matrix tiles of 16 rows of 64 bytes. A turn is again twelve, of four tiles of sums.
struct shapes {
  uint8_t palette, unused[15];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
#define TILE_LOOP(name, instruction)                                                                        \
  void name(long turns) {                                                                                   \
    const struct shapes shapes = {                                                                          \
        1, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};                        \
    __asm__ volatile(                                                                                       \
        "ldtilecfg %1\n"                                                                                    \
        "1:\n.rept 3\n.irp r,0,1,2,3\n" instruction " %%tmm5, %%tmm4, %%tmm\\r\n.endr\n.endr\n"             \
        "dec %0\njnz 1b\ntilerelease\n"                                                                     \
        : "+r"(turns)                                                                                       \
        : "m"(shapes)                                                                                       \
        : "cc");                                                                                            \
  }
TILE_LOOP(tile_bf16, "tdpbf16ps")
TILE_LOOP(tile_i8, "tdpbusd")

// Linux gives the registers of tiles to processes that ask: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA).
int ask_for_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }
