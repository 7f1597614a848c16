// The words of torch's generator, many at a time.
//
// A Mersenne Twister (M. Matsumoto and T. Nishimura, 1998, MT19937) makes its 624 words of state anew in one
// go and hands them out one by one, scrambled. Asked word by word it takes 2 ns for each; nothing about it is
// sequential, though, within the state.
#pragma once
#include <ATen/core/MT19937RNGEngine.h>

#include <cstdint>

// One copy of a loop for each kind of processor, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__gnu_linux__)
#define TILEFUSE_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TILEFUSE_FOR_EACH_PROCESSOR
#endif

namespace tilefuse {

class MersenneWords {
 public:
  explicit MersenneWords(const at::mt19937& engine) : state_(engine.data()) {}

  // The next `count` words, as `engine()` would return them one after the other.
  void take(uint32_t* words, int64_t count);
  // The engine behind the words taken.
  at::mt19937 engine() const;

 private:
  at::mt19937_data_pod state_;
};

}  // namespace tilefuse
