#include "tests/fuzz/fuzz_targets.h"

#include <array>
#include <stdexcept>

namespace tilefuse::fuzz {
namespace {

constexpr std::array kTargets = {
    Target{"archive", run_archive},       Target{"executable", run_executable},
    Target{"graph", run_graph},           Target{"program", run_program},
    Target{"report", run_report},         Target{"size_expression", run_size_expression},
    Target{"tile_graph", run_tile_graph},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& find_target(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return target;
  }
  throw std::invalid_argument("there is no fuzz target " + std::string(name));
}

}  // namespace tilefuse::fuzz
