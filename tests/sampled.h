// How much of a law is asked, always the same part: TILEFUSE_TESTS is absent in `make test`, `quick` in `make
// test-quick`, which has some minutes, and `full` in `make test-gpu-full`, which asks all of the laws of GPU
// kernels.
#pragma once
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace tilefuse {

enum class Tier { Quick, Usual, Full };

inline Tier tier_of_tests() {
  const char* asked = std::getenv("TILEFUSE_TESTS");
  const std::string name = asked == nullptr ? "" : asked;
  if (name == "quick") return Tier::Quick;
  if (name == "full") return Tier::Full;
  if (!name.empty()) throw std::runtime_error("TILEFUSE_TESTS wants 'quick' or 'full', got '" + name + "'");
  return Tier::Usual;
}

// A number of seeds or draws, every how many-th case, or a bound of what these must find: in all runs but a
// full one, and in that.
inline int sampled(int usual, int full) { return tier_of_tests() == Tier::Full ? full : usual; }

// The same in a quick run and in all others.
inline int sampled_quickly(int quick, int usual) { return tier_of_tests() == Tier::Quick ? quick : usual; }

}  // namespace tilefuse
