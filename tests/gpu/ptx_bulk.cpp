#include "tests/gpu/ptx_bulk.h"

#include <algorithm>
#include <regex>

#include "tests/gpu/ptx_text.h"

namespace tilefuse {

bool PtxBulk::decode_bulk(const std::string& opcode, const Texts& operands, PtxInstruction& instruction) {
  const auto is = [&](const char* begin) { return opcode.starts_with(begin); };
  const bool is_of_memory = is("st.") || is("red.") || is("atom.");
  if (is_of_memory && opcode.find("shared::cluster") != std::string::npos) {
    fail("memory of another block is written, which is not modelled: " + instruction.text);
  } else if (is("cp.async.bulk.")) {
    decode_box(opcode, operands, instruction);
  } else if (is("cp.async.")) {
    decode_copy(opcode, operands, instruction);
  } else if (is("mbarrier.") || opcode == "fence.mbarrier_init.release.cluster") {
    decode_barrier(opcode, operands, instruction);
  } else if (is("barrier.cluster.") || is("mapa.")) {
    decode_cluster(opcode, operands, instruction);
  } else if (is("setmaxnreg.")) {
    decode_registers(opcode, operands, instruction);
  } else if (opcode == "fence.proxy.async" || opcode == "fence.proxy.async.shared::cta") {
    instruction.kind = PtxKind::FenceAsyncProxy;
  } else {
    return false;
  }
  return true;
}

void PtxBulk::take_cluster(const std::string& statement) {
  static const std::regex kForm(R"(\.reqnctapercluster (\d+)(, 1)*)");
  demand_sm_90(statement);
  std::smatch found;
  if (!std::regex_match(statement, found, kForm)) fail("not understood: " + statement);
  program_.cluster_blocks = std::stoll(found[1]);
}

void PtxBulk::check_meetings() {
  const std::vector<PtxInstruction>& all = program_.instructions;
  const auto is = [&](size_t i, PtxKind kind) { return i < all.size() && all[i].kind == kind; };
  for (size_t i = 0; i <= all.size(); ++i) {
    const bool arrives = i > 0 && is(i - 1, PtxKind::ArriveAtCluster);
    if (arrives == is(i, PtxKind::MeetCluster)) continue;
    line_ = all[arrives ? i - 1 : i].line;
    fail("barrier.cluster.arrive and .wait that are not directly one behind the other are not modelled");
  }
  for (const PtxInstruction& from : all) {
    line_ = from.line;
    if (from.kind == PtxKind::Branch && is(from.target, PtxKind::MeetCluster))
      fail("a branch between barrier.cluster.arrive and .wait is not modelled");
  }
}

// cp.async.cg.shared.global [%r1], [%rd1], 16, %r2: of the last one's bytes, the rest is filled with zeros.
void PtxBulk::decode_copy(const std::string& opcode, const Texts& operands, PtxInstruction& instruction) {
  if (opcode == "cp.async.commit_group" && operands.empty()) {
    instruction.kind = PtxKind::CommitCopies;
    return;
  }
  if (opcode == "cp.async.wait_group" && operands.size() == 1) {
    instruction.kind = PtxKind::WaitForCopies;
    instruction.groups_left = std::stoul(operands[0]);
    return;
  }
  const bool is_known = opcode == "cp.async.cg.shared.global" || opcode == "cp.async.ca.shared.global";
  if (!is_known || operands.size() < 3 || operands.size() > 4 || operands[2] != "16")
    fail("a copy that is not understood: " + instruction.text);
  instruction.kind = PtxKind::BeginCopy;
  instruction.element_bytes = 16;
  int64_t to_offset = 0;
  const int to = address(operands[0], to_offset);
  if (to_offset != 0) fail("a copy that is not understood: " + instruction.text);
  instruction.operands = {to, value(operands.size() == 4 ? operands[3] : "16"),
                          address(operands[1], instruction.offset)};
}

// cp.async.bulk.tensor.2d...bytes [%r1], [%rd1, {%r2, %r3}], [%r4]: the place, the map and coordinates, the
// barrier; behind it, of a copy to several blocks, which.
void PtxBulk::decode_box(const std::string& opcode, const Texts& operands, PtxInstruction& instruction) {
  static const std::regex kForm(
      R"(cp\.async\.bulk\.tensor\.([1-5])d\.shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes(\.multicast::cluster)?)");
  demand_sm_90(opcode);
  std::smatch found;
  if (!std::regex_match(opcode, found, kForm) || operands.size() != (found[2].matched ? 4 : 3))
    fail("a copy that is not understood: " + instruction.text);
  instruction.kind = PtxKind::CopyBox;
  const std::vector<std::string> source = split_operands(operands[1].substr(1, operands[1].size() - 2));
  const std::vector<int> coordinates = values(source.at(1));
  if (source.size() != 2 || coordinates.size() != size_t(std::stoi(found[1])))
    fail("operands of " + instruction.text);
  instruction.operands = {plain_address(operands[0]), value(source[0]), plain_address(operands[2])};
  instruction.operands.insert(instruction.operands.end(), coordinates.begin(), coordinates.end());
  instruction.is_multicast = found[2].matched;
  if (instruction.is_multicast) instruction.operands.push_back(value(operands[3]));
}

void PtxBulk::decode_barrier(const std::string& opcode, const Texts& operands, PtxInstruction& instruction) {
  demand_sm_90(opcode);
  const size_t count = operands.size();
  const bool is_discarded = count > 0 && operands[0] == "_";
  if (opcode == "mbarrier.init.shared::cta.b64" && count == 2) {
    instruction.kind = PtxKind::BeginBarrier;
    instruction.operands = {plain_address(operands[0]), value(operands[1])};
  } else if (opcode.starts_with("fence.") && count == 0) {
    instruction.kind = PtxKind::ShowBarriers;
  } else if (opcode == "mbarrier.arrive.shared::cta.b64" && count == 2 && is_discarded) {
    instruction.kind = PtxKind::Arrive;
    instruction.operands = {plain_address(operands[1])};
  } else if (opcode == "mbarrier.arrive.expect_tx.shared::cta.b64" && count == 3 && is_discarded) {
    instruction.kind = PtxKind::Arrive;
    instruction.operands = {plain_address(operands[1]), value(operands[2])};
  } else if (opcode == "mbarrier.arrive.release.cluster.shared::cluster.b64" && count == 2 && is_discarded) {
    instruction.kind = PtxKind::Arrive;
    instruction.is_of_cluster = true;
    instruction.operands = {plain_address(operands[1])};
  } else if ((opcode == "mbarrier.try_wait.parity.shared::cta.b64" ||
              opcode == "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64") &&
             count == 3) {
    instruction.kind = PtxKind::TestPhase;
    instruction.is_of_cluster = opcode.find(".cluster.") != std::string::npos;
    instruction.results = {value(operands[0])};
    instruction.operands = {plain_address(operands[1]), value(operands[2])};
  } else {
    fail("an unknown instruction: " + instruction.text);
  }
}

// A meeting is the wait; the arrival directly in front of it only has to be there.
void PtxBulk::decode_cluster(const std::string& opcode, const Texts& operands, PtxInstruction& instruction) {
  demand_sm_90(opcode);
  if (opcode == "barrier.cluster.arrive.release.aligned" && operands.empty()) {
    instruction.kind = PtxKind::ArriveAtCluster;
  } else if (opcode == "barrier.cluster.wait.acquire.aligned" && operands.empty()) {
    instruction.kind = PtxKind::MeetCluster;
  } else if (opcode == "mapa.shared::cluster.u32" && operands.size() == 3) {
    instruction.kind = PtxKind::MapAddress;
    instruction.results = {value(operands[0])};
    instruction.operands = {value(operands[1]), value(operands[2])};
  } else {
    fail("an unknown instruction: " + instruction.text);
  }
}

void PtxBulk::decode_registers(const std::string& opcode, const Texts& operands,
                               PtxInstruction& instruction) {
  if (program_.target != "sm_90a") fail(opcode + " is of sm_90a, not of " + program_.target);
  instruction.kind = PtxKind::SetRegisters;
  instruction.takes_registers = opcode == "setmaxnreg.inc.sync.aligned.u32";
  if (!instruction.takes_registers && opcode != "setmaxnreg.dec.sync.aligned.u32")
    fail("an unknown instruction: " + opcode);
  instruction.registers = std::stoll(operands.at(0));
  if (instruction.registers < 24 || instruction.registers > 256 || instruction.registers % 8 != 0)
    fail("operands of " + instruction.text);
}

void PtxBulk::demand_sm_90(const std::string& opcode) const {
  if (!program_.target.starts_with("sm_9") && !program_.target.starts_with("sm_1"))
    fail(opcode + " is of sm_90 and newer, not of " + program_.target);
}

}  // namespace tilefuse
