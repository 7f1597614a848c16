// A kernel as PTX, read: what NVRTC emits for our kernels.
//
// Registers are numbered; a constant is a register that holds it. An instruction that is not known is an
// error when the program is read, not when it is reached: nothing runs that is not understood.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/ptx_matrix.h"
#include "tests/gpu/ptx_operations.h"

namespace tilefuse {

class PtxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class PtxKind : uint8_t {
  // clang-format off
  Compute, Load, Store, LoadParameter, Shuffle, Barrier, MeetWarp, Branch, Exit, Trap,
  LoadMatrix, MultiplyMatrices,          // of a warp together: ldmatrix, mma
  Prefetch,                                // of global memory, to a cache
  BeginCopy, CommitCopies, WaitForCopies,  // cp.async, of global to shared memory
  FenceAsyncProxy,
  FenceProducts, BeginProduct, CommitProducts, WaitForProducts,  // of a warpgroup: wgmma
  BeginBarrier, ShowBarriers, Arrive, TestPhase,  // mbarrier, in shared memory
  CopyBox,                                        // cp.async.bulk.tensor
  SetRegisters,                                   // setmaxnreg
  ArriveAtCluster, MeetCluster, MapAddress,       // barrier.cluster, mapa
  // clang-format on
};
enum class PtxSpace : uint8_t { Global, Shared, Cluster };  // Cluster: shared, of any block of it
// From which lane: the own one with bits flipped, one so many below, one for all.
enum class PtxShuffle : uint8_t { Flip, Up, Index };

// m64nNk16 with sums in f32. Results: the sums. Operands: the first factor, its descriptor or four registers,
// the descriptor of the second one, and whether the sums before count.
struct PtxGroupProduct {
  MatrixElement element = MatrixElement::Bf16, second_element = MatrixElement::Bf16;
  int columns = 0;
  bool is_first_in_registers = false;
  bool turns_first = false, turns_second = false;  // else along k
  bool negates_first = false, negates_second = false;
};

struct PtxInstruction {
  PtxKind kind = PtxKind::Compute;
  std::string text;    // for reports
  int line = 0;        // in the PTX
  int predicate = -1;  // a register, or none
  bool negated = false;
  PtxOperation operation;  // Compute
  std::vector<int> results, operands;
  PtxShuffle shuffle = PtxShuffle::Flip;
  PtxSpace space = PtxSpace::Global;
  int element_bytes = 0;  // of one of `results` or `operands` of a Load or Store
  bool extends_sign = false;
  bool is_read_only = false;   // .nc: promises that nothing writes there
  int64_t offset = 0;          // added to the address, which is the last operand; or within the parameters
  size_t target = 0;           // Branch
  bool is_transposed = false;  // LoadMatrix
  // MultiplyMatrices: of a, and of b; results d; operands a, b, c
  MatrixElement element = MatrixElement::Bf16, second_element = MatrixElement::Bf16;
  size_t groups_left = 0;         // WaitForCopies, WaitForProducts: groups that may be under way yet
  PtxGroupProduct group_product;  // BeginProduct
  // CopyBox: operands are where to, the address of the tensor map, the barrier, then coordinates, and the
  // mask of blocks. Arrive: the barrier, and bytes that it waits for.
  bool is_multicast = false;
  bool is_of_cluster = false;  // Arrive, at the barrier of any block; TestPhase, in the scope of the cluster
  int64_t registers = 0;       // SetRegisters: of a thread from now on
  bool takes_registers = false;  // more than before
};

struct PtxConstant {
  int reg = 0;
  uint64_t value = 0;
};

// Of the address of a parameter itself; the rest is its offset.
constexpr uint64_t kParameterSpace = uint64_t{1} << 60;

// Registers whose values the launch gives.
struct PtxSpecial {
  int reg = 0;
  enum class What : uint8_t { ThreadX, BlockX, BlockThreadsX, BlocksX, BlockOfCluster } what = What::ThreadX;
};

struct PtxProgram {
  std::string name;
  std::vector<PtxInstruction> instructions;
  int registers = 0;
  std::vector<PtxConstant> constants;
  std::vector<PtxSpecial> specials;
  int64_t parameter_bytes = 0;
  std::vector<int64_t> parameter_offsets;   // of those of 8 bytes or less
  std::vector<int64_t> tensor_map_offsets;  // of those of 128, which come last
  int64_t threads = 0;                      // of a block that it is compiled for, where it says so
  int64_t cluster_blocks = 1;               // that it is compiled for
  int64_t shared_bytes = 0;                 // declared
  // Where in shared memory the array of no length begins, which the launch gives its bytes; absent: there is
  // none.
  std::optional<int64_t> given_at;
  std::string target;               // "sm_80"
  bool has_group_products = false;  // of a warpgroup
};

PtxProgram parse_ptx(std::string_view text);  // of the only kernel in it; PtxError names the line

}  // namespace tilefuse
