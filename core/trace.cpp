#include "core/trace.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/result.h"

namespace tilefuse {
namespace {

std::string file_stem(DumpStage stage) {
  const auto place = static_cast<size_t>(stage);
  std::array<char, 8> number{};
  std::snprintf(number.data(), number.size(), "%02zu-", place % 100);
  return number.data() + std::string(dump_stage_names()[place]);
}

}  // namespace

Trace::Trace(std::set<DumpStage> stages, std::string directory)
    : stages_(std::move(stages)), directory_(std::move(directory)), written_(std::make_shared<Written>()) {}

Trace Trace::within(const std::string& prefix) const {
  Trace inner = *this;
  inner.directory_ += "/" + prefix;
  return inner;
}

bool Trace::writes(DumpStage stage) const { return stages_.count(stage) != 0; }

void Trace::write(DumpStage stage, const std::function<std::string()>& text) const {
  if (!writes(stage)) return;
  const std::string content = text();
  const std::string stem = directory_ + "/" + file_stem(stage);
  const std::lock_guard lock(written_->mutex);
  Written::Last& last = written_->files[stem];
  const bool is_unchanged = last.count > 0 && last.text == content;
  ++last.count;
  last.text = content;
  const std::string suffix = stage == DumpStage::Capture ? ".json" : ".txt";
  const std::string path = stem + (last.count == 1 ? "" : "." + std::to_string(last.count)) + suffix;
  std::error_code ignored;  // a directory that is missing shows when the file is opened
  std::filesystem::create_directories(directory_, ignored);
  std::ofstream file(path, std::ios::binary);
  file << (is_unchanged ? "unchanged\n" : content);
  if (!file.flush()) throw UserError("cannot write the dump " + path);
}

}  // namespace tilefuse
