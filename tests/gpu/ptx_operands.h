// Operands of PTX as they are read: names become registers, constants registers that hold them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/ptx_program.h"

namespace tilefuse {

class PtxOperands {
 protected:
  [[noreturn]] void fail(const std::string& what) const;
  int value(const std::string& text);
  std::vector<int> values(const std::string& text);       // one, or {a, b}
  int address(const std::string& text, int64_t& offset);  // [%rd1+16]: the register, and the offset
  int plain_address(const std::string& text);             // without an offset
  int named_register(const std::string& name);
  int64_t
  given_begin();  // of what the launch gives: behind all that is declared, in front of the instructions

  int line_ = 0;
  PtxProgram program_;
  std::map<std::string, int> registers_;
  std::map<std::string, int64_t> parameters_, shared_;
  std::string given_;  // the name of what the launch gives
  int64_t given_alignment_ = 1;

 private:
  int fresh_register();
  int constant(uint64_t value);
  std::map<uint64_t, int> constants_;
};

}  // namespace tilefuse
