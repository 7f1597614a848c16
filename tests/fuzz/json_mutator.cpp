#include "tests/fuzz/json_mutator.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace tilefuse::fuzz {
namespace {

using Json = nlohmann::json;

const std::vector<Json>& odd_values() {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           -1,
                                           0,
                                           1,
                                           2,
                                           7,
                                           64,
                                           1 << 20,
                                           INT32_MAX,
                                           "",
                                           std::numeric_limits<int64_t>::max(),
                                           std::numeric_limits<int64_t>::min(),
                                           std::numeric_limits<uint64_t>::max(),
                                           1e300,
                                           0.5,
                                           "NaN",
                                           "x",
                                           Json::array(),
                                           Json::object()};
  return values;
}

class Mutator {
 public:
  Mutator(Json& document, std::mt19937& random, const MutateText& mutate_text)
      : document_(document), random_(random), mutate_text_(mutate_text) {}

  void edit() {
    Json& parent = pick(true);
    if (!parent.is_structured() || parent.empty()) {
      replace(parent);
      return;
    }
    auto child = parent.begin();
    std::advance(child, below(parent.size()));
    switch (below(8)) {
      case 0:
        parent.erase(child);
        break;
      case 1:
        repeat(parent, *child);
        break;
      case 2:
      case 3: {
        const Json other = pick(false);
        *child = other;
        break;
      }
      case 4: {
        auto other = parent.begin();
        std::advance(other, below(parent.size()));
        if (other != child) std::swap(*child, *other);
        break;
      }
      default:
        replace(*child);
    }
  }

 private:
  size_t below(size_t count) { return random_() % count; }

  // Some value below the document; with `is_parent` one that holds others, if the walk meets one.
  Json& pick(bool is_parent) {
    Json* at = &document_;
    while (at->is_structured() && !at->empty()) {
      auto child = at->begin();
      std::advance(child, below(at->size()));
      if (is_parent && !child->is_structured() && below(2) == 0) break;
      if (at != &document_ && below(10) == 0) break;
      if (is_parent && !child->is_structured()) break;
      at = &*child;
    }
    return *at;
  }

  void repeat(Json& parent, const Json& child) {
    const Json copy = child;
    if (parent.is_array()) {
      parent.insert(parent.begin() + std::ptrdiff_t(below(parent.size() + 1)), copy);
    } else {
      parent["extra" + std::to_string(below(4))] = copy;
    }
  }

  void replace(Json& value) {
    if (value.is_number_integer() && below(2) == 0) {
      constexpr int64_t kSteps[] = {1, -1, 2, 64};
      const size_t step = below(std::size(kSteps) + 1);
      int64_t changed = 0;
      if (step == std::size(kSteps)) {
        value = 0;
      } else if (!__builtin_add_overflow(value.get<int64_t>(), kSteps[step], &changed)) {
        value = changed;
      }
    } else if (value.is_string() && below(4) != 0) {
      value = mutate_text_(value.get<std::string>());
    } else {
      value = odd_values()[below(odd_values().size())];
    }
  }

  Json& document_;
  std::mt19937& random_;
  const MutateText& mutate_text_;
};

}  // namespace

Json mutated(Json document, std::mt19937& random, const MutateText& mutate_text) {
  for (size_t edits = 1 + random() % 4; edits > 0; --edits) Mutator(document, random, mutate_text).edit();
  return document;
}

}  // namespace tilefuse::fuzz
