// Runs a compiler, once more with fewer optimisations where it crashes. A failure is a refusal whose reason
// holds the first lines of its log.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace tilefuse {
std::optional<Unsupported> run_compiler(std::vector<std::string> command, std::chrono::milliseconds limit);
}
