// One fuzz target as a libFuzzer program. TILEFUSE_FUZZ_TARGET: its name.
//
// Programs are mutated as JSON, archives entry by entry and packed anew, with right checksums; a part of the
// mutations stays with plain bytes, and all of them for the other targets.
//
// With --mutate_only_first=N the corpus is what the first N executions ran: what is mutated then depends on
// the seeds alone, and not on what the code under test reaches, which every change of it changes.
#include <cstdint>
#include <cstring>
#include <random>

#include "core/import/document.h"
#include "core/result.h"
#include "offline/region_files.h"
#include "tests/fuzz/archive_bytes.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/json_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace tilefuse::fuzz {
namespace {

constexpr std::string_view kName = TILEFUSE_FUZZ_TARGET;
constexpr size_t kMostGrowth = 64;

std::string changed_bytes(std::string text) {
  const size_t size = text.size();
  text.resize(size + kMostGrowth);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
  return text;
}

// Text that is no JSON: its bytes.
std::string changed_json(const std::string& text, std::mt19937& random) {
  try {
    const auto replace = nlohmann::json::error_handler_t::replace;
    return mutated(parse_document(text, ""), random, changed_bytes).dump(-1, ' ', false, replace);
  } catch (const UserError&) {
    return changed_bytes(text);
  }
}

// Who makes up a graph gives its operator the name that goes with it, everywhere.
void rename_operator(Contents& contents, const std::string& graph_entry) {
  constexpr size_t kHashAndBar = 17;
  const std::string folder = graph_entry.substr(0, graph_entry.rfind('/'));
  const std::string before = folder.substr(folder.rfind('/') + 1);
  if (before.size() <= kHashAndBar) return;
  const std::string after =
      region_operator(before.substr(0, before.size() - kHashAndBar), contents.at(graph_entry), false);
  const auto renamed = [&](std::string text) {
    for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + after.size())) {
      text.replace(at, before.size(), after);
    }
    return text;
  };
  Contents result;
  for (const auto& [name, text] : contents) {
    const bool is_text = name.ends_with(".json") || name.starts_with("extra/");
    result[renamed(name)] = is_text ? renamed(text) : text;
  }
  contents = std::move(result);
}

std::string changed_archive(const std::string& bytes, std::mt19937& random) {
  auto contents = unpacked(bytes);
  if (!contents || contents->empty()) return changed_bytes(bytes);
  auto entry = contents->begin();
  do {
    entry = contents->begin();
    std::advance(entry, random() % contents->size());
  } while (!entry->first.ends_with(".json") && !entry->first.ends_with(".txt") && random() % 8 != 0);
  const std::string name = entry->first;
  switch (random() % 16) {
    case 0:
      contents->erase(name);
      break;
    case 1:
      (*contents)[changed_bytes(name).c_str()] = entry->second;
      break;
    case 2:
      std::swap(entry->second, contents->begin()->second);
      break;
    default:
      entry->second =
          name.ends_with(".json") ? changed_json(entry->second, random) : changed_bytes(entry->second);
      if (name.ends_with("/graph.txt") && random() % 8 != 0) rename_operator(*contents, name);
  }
  try {
    return packed(*contents);
  } catch (const UserError&) {  // a name that cannot be one
    return bytes;
  }
}

[[maybe_unused]] std::string changed(const std::string& bytes, std::mt19937& random) {
  if (random() % 8 == 0) return changed_bytes(bytes);
  return kName == "archive" ? changed_archive(bytes, random) : changed_json(bytes, random);
}

struct Corpus {
  size_t executions = 0, most = SIZE_MAX;
};

Corpus& corpus() {
  static Corpus instance;
  return instance;
}

// What libFuzzer counts beside edges: one for each seed, so that none counts as reaching nothing of its own,
// which would leave it out.
constexpr size_t kMostSeeds = 1024;
__attribute__((used, section("__libfuzzer_extra_counters"))) uint8_t seed_counters[kMostSeeds];

}  // namespace
}  // namespace tilefuse::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--mutate_only_first=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view given = (*argv)[i];
    if (given.starts_with(kFlag)) {
      tilefuse::fuzz::corpus().most = std::stoul(std::string(given.substr(kFlag.size())));
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kAccepted = 0, kNotForTheCorpus = -1;
  static const tilefuse::fuzz::Target& target = tilefuse::fuzz::find_target(tilefuse::fuzz::kName);
  target.run({reinterpret_cast<const char*>(data), size});
  tilefuse::fuzz::Corpus& corpus = tilefuse::fuzz::corpus();
  if (corpus.most == SIZE_MAX) return kAccepted;
  if (corpus.executions >= corpus.most) return kNotForTheCorpus;
  tilefuse::fuzz::seed_counters[corpus.executions++ % tilefuse::fuzz::kMostSeeds] = 1;
  return kAccepted;
}

#ifdef TILEFUSE_FUZZ_STRUCTURE
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string result = tilefuse::fuzz::changed(bytes, random);
  if (result.empty() || result.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, result.data(), result.size());
  return result.size();
}
#endif
