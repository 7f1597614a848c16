// Instructions as they are read that work beside threads or between them: copies to shared memory, barriers
// there, clusters of blocks, registers that warps leave to each other.
//
//   mbarrier.arrive.shared::cta.b64 _, [%r1]   -> Arrive of one operand
#pragma once
#include <string>
#include <vector>

#include "tests/gpu/ptx_operands.h"

namespace tilefuse {

class PtxBulk : protected PtxOperands {
 protected:
  using Texts = std::vector<std::string>;
  // false: it is none of these.
  bool decode_bulk(const std::string& opcode, const Texts& operands, PtxInstruction& instruction);
  void take_cluster(const std::string& statement);  // .reqnctapercluster 2, 1, 1
  // Of the whole program: a cluster meets by two instructions, one directly behind the other.
  void check_meetings();
  void demand_sm_90(const std::string& opcode) const;

 private:
  void decode_copy(const std::string& opcode, const Texts& operands, PtxInstruction& instruction);
  void decode_box(const std::string& opcode, const Texts& operands, PtxInstruction& instruction);
  void decode_barrier(const std::string& opcode, const Texts& operands, PtxInstruction& instruction);
  void decode_cluster(const std::string& opcode, const Texts& operands, PtxInstruction& instruction);
  void decode_registers(const std::string& opcode, const Texts& operands, PtxInstruction& instruction);
};

}  // namespace tilefuse
