// The stages of the compiler as functions from text to text: what golden tests and tilefuse-opt run.
//
//   run_stage("graph", {}, "graph g(%x: f32[4]) {\n  return %x\n}\n")     -> the same, checked and printed
//
// An option is a word and its value, `--target x86-avx2`; each stage lists the ones it takes.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tilefuse {

using StageOptions = std::map<std::string, std::string>;  // by name, without dashes

struct StageOption {
  std::string name, help;
};

struct Stage {
  std::string name, help;
  std::vector<StageOption> options;
  std::string (*run)(const StageOptions& options, const std::string& input);
};

const std::vector<Stage>& stages();  // in pipeline order

// Unknown stages and options are UserErrors that name the nearest one; errors of the stage itself pass
// through.
std::string run_stage(const std::string& name, const StageOptions& options, const std::string& input);

}  // namespace tilefuse
