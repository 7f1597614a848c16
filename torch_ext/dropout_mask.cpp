// The mask of a dropout, drawn as eager draws it.
//
//   dropout_mask(SymInt[] size, SymInt[] stride, float keep) -> Tensor
//     bool, on the CPU: true with probability `keep`. The strides leave no gaps. Takes from the CPU generator
//     what `bernoulli_(keep)` takes from it, and returns what that would return. Asks for no tensor, or the
//     mask could not be drawn before the tensor is there, nor join the kernel that makes it.
//
// Where torch draws element by element (two words of the generator each, compared with `keep` in 53 bits; 4
// ns an element), the words are made many at a time instead. Elsewhere, as on Intel with MKL, torch draws in
// a way of its own; a trial at the first call tells, and then torch draws.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include "torch_ext/mersenne_words.h"

namespace tilefuse {
namespace {

constexpr int64_t kAtATime = 2048;  // elements
constexpr int64_t kTrial = 2000;  // elements: more than one state of the generator, not a whole number of it
constexpr double kSteps = 9007199254740992.0;  // 2^53

// Whether the low 53 bits of each two words are below `bound`.
TILEFUSE_FOR_EACH_PROCESSOR
void compare(const uint32_t* __restrict words, uint64_t bound, bool* __restrict mask, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t high = words[2 * i] & 0x1FFFFFU;
    mask[i] = (high << 32 | words[2 * i + 1]) < bound;
  }
}

// An element is kept where 53 bits, as a share of 2^53, are below `keep`.
void draw(MersenneWords& generator, double keep, bool* mask, int64_t count) {
  const auto bound = static_cast<uint64_t>(std::ceil(keep * kSteps));
  std::array<uint32_t, 2 * kAtATime> words;
  for (int64_t first = 0; first < count; first += kAtATime) {
    const int64_t now = std::min(kAtATime, count - first);
    generator.take(words.data(), 2 * now);
    compare(words.data(), bound, mask + first, now);
  }
}

void draw_from(at::CPUGeneratorImpl& generator, double keep, at::Tensor& mask) {
  MersenneWords words(generator.engine());
  draw(words, keep, mask.data_ptr<bool>(), mask.numel());
  generator.set_engine(words.engine());
}

// Whether torch draws so here: both draw from equal generators, and leave them alike.
bool draws_as_torch_does() {
  constexpr uint64_t kSeed = 2718281828;
  constexpr double kKeep = 0.7;
  at::Generator theirs = at::detail::createCPUGenerator(kSeed), ours = at::detail::createCPUGenerator(kSeed);
  at::Tensor expected = at::empty({kTrial}, at::kBool), found = at::empty({kTrial}, at::kBool);
  expected.bernoulli_(kKeep, theirs);
  draw_from(*at::check_generator<at::CPUGeneratorImpl>(ours), kKeep, found);
  return at::equal(expected, found) && at::equal(theirs.get_state(), ours.get_state());
}

at::Tensor dropout_mask(at::IntArrayRef size, at::IntArrayRef stride, double keep) {
  TORCH_CHECK(0 <= keep && keep <= 1, "dropout_mask: keep is ", keep, ", not between 0 and 1");
  static const bool is_known = draws_as_torch_does();
  at::Tensor mask = at::empty_strided(size, stride, at::kBool);
  TORCH_CHECK(mask.is_non_overlapping_and_dense(), "dropout_mask: the strides ", stride, " leave gaps");
  if (!is_known) return mask.bernoulli_(keep);
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::lock_guard lock(generator->mutex_);
  draw_from(*generator, keep, mask);  // elements as they lie
  return mask;
}

TORCH_LIBRARY_FRAGMENT(tilefuse, library) {
  library.def("dropout_mask(SymInt[] size, SymInt[] stride, float keep) -> Tensor",
              {at::Tag::pt2_compliant_tag, at::Tag::nondeterministic_seeded});
  library.impl("dropout_mask",
               torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(dropout_mask)));
}

}  // namespace
}  // namespace tilefuse
