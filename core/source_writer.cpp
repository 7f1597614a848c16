#include "core/source_writer.h"

#include <algorithm>
#include <utility>

#include "core/dtype.h"
#include "core/result.h"

namespace tilefuse {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kMaxColumn = 110;

std::string filled(std::string_view format, SourceWriter::Arguments arguments) {
  std::string text;
  auto next = arguments.begin();
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '$') {
      text += format[i];
    } else if (i + 1 < format.size() && format[i + 1] == '$') {
      text += format[++i];
    } else {
      TILEFUSE_CHECK(next != arguments.end(), "too few arguments for \"" + std::string(format) + "\"");
      text += (next++)->text();
    }
  }
  TILEFUSE_CHECK(next == arguments.end(), "too many arguments for \"" + std::string(format) + "\"");
  return text;
}

}  // namespace

SourceArgument::SourceArgument(double value) : text_(to_text(Scalar(value))) {}

SourceWriter::Block::Block(Block&& other) noexcept
    : writer_(std::exchange(other.writer_, nullptr)), closing_(std::move(other.closing_)) {}

SourceWriter::Block::~Block() {
  if (writer_ == nullptr) return;
  --writer_->depth_;
  writer_->write_line(closing_);
}

void SourceWriter::write_line(const std::string& line) {
  if (!line.empty()) text_.append(static_cast<size_t>(depth_) * kIndent, ' ');
  text_ += line;
  text_ += '\n';
}

void SourceWriter::line(std::string_view format, Arguments arguments) {
  write_line(filled(format, arguments));
}

SourceWriter::Block SourceWriter::block(std::string_view format, Arguments arguments, std::string closing) {
  const std::string head = filled(format, arguments);
  write_line(head.empty() ? "{" : head + " {");
  ++depth_;
  return {this, std::move(closing)};
}

// One line or several, whatever the text: it may come from a file, and what follows is code.
void SourceWriter::comment(std::string_view raw) {
  std::string plain(raw);
  std::replace_if(plain.begin(), plain.end(), [](unsigned char c) { return c < ' '; }, ' ');
  std::replace(plain.begin(), plain.end(), '\\', '/');
  std::string_view text = plain;
  const size_t width = kMaxColumn - static_cast<size_t>(depth_) * kIndent - 3;
  while (text.size() > width) {
    size_t cut = text.rfind(' ', width);
    if (cut == std::string_view::npos || cut == 0) cut = text.find(' ', width);
    if (cut == std::string_view::npos) break;
    write_line("// " + std::string(text.substr(0, cut)));
    text.remove_prefix(cut + 1);
  }
  write_line("// " + std::string(text));
}

void SourceWriter::blank() {
  if (text_.empty() || text_.ends_with("\n\n") || text_.ends_with("{\n")) return;
  text_ += '\n';
}

std::string comma_separated(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace tilefuse
