#include "torch_ext/mersenne_words.h"

#include <algorithm>

namespace tilefuse {
namespace {

constexpr int kWords = at::MERSENNE_STATE_N, kApart = at::MERSENNE_STATE_M;

uint32_t twisted(uint32_t high, uint32_t low) {
  const uint32_t mixed = (high & 0x80000000U) | (low & 0x7FFFFFFFU);
  return (mixed >> 1) ^ ((low & 1U) * 0x9908B0DFU);
}

TILEFUSE_FOR_EACH_PROCESSOR
void renew(uint32_t* state) {
  for (int i = 0; i < kWords - kApart; ++i) state[i] = state[i + kApart] ^ twisted(state[i], state[i + 1]);
  for (int i = kWords - kApart; i < kWords - 1; ++i) {
    state[i] = state[i + kApart - kWords] ^ twisted(state[i], state[i + 1]);
  }
  state[kWords - 1] = state[kApart - 1] ^ twisted(state[kWords - 1], state[0]);
}

TILEFUSE_FOR_EACH_PROCESSOR
void scramble(const uint32_t* __restrict state, uint32_t* __restrict words, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = state[i];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9D2C5680U;
    word ^= (word << 15) & 0xEFC60000U;
    words[i] = word ^ (word >> 18);
  }
}

}  // namespace

// The engine counts down what is left, and renews the state when a word is asked for at 1.
void MersenneWords::take(uint32_t* words, int64_t count) {
  while (count > 0) {
    if (state_.left_ == 1) {
      renew(state_.state_.data());
      state_.left_ = kWords + 1;
      state_.next_ = 0;
    }
    const int64_t now = std::min<int64_t>(count, state_.left_ - 1);
    scramble(state_.state_.data() + state_.next_, words, now);
    state_.left_ -= static_cast<int>(now);
    state_.next_ += static_cast<uint32_t>(now);
    words += now;
    count -= now;
  }
}

at::mt19937 MersenneWords::engine() const {
  at::mt19937 engine;
  engine.set_data(state_);
  return engine;
}

}  // namespace tilefuse
