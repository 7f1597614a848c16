// Which of a program's weights its library needs, and where they lie in it: every entry of the file that is
// read, once, as a whole; what the program writes into also has a place in the state of the caller's.
#pragma once
#include <string>
#include <vector>

#include "codegen/bundle_plan.h"
#include "offline/program_file.h"

namespace tilefuse {

struct WeightEntry {
  std::string entry;
  uint64_t offset = 0, bytes = 0;
};

// Fills in the inputs and what the request says of weights and state. UserError: a size is an input.
std::vector<WeightEntry> place_state(const ProgramFile& file, const Executable& executable,
                                     BundleRequest& request);

// The entries, each at its offset, with zeros between; `mark` first.
void write_weights(const ProgramFile& file, const std::vector<WeightEntry>& entries, const std::string& mark,
                   const std::string& path);

// What tells these weights from any others, as long as a file of them asks for.
std::string weights_mark(const ProgramFile& file, const std::vector<WeightEntry>& entries);

}  // namespace tilefuse
