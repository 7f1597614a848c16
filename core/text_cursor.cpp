#include "core/text_cursor.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/result.h"

namespace tilefuse {
namespace {

struct LocatedError : UserError {
  using UserError::UserError;
};

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

}  // namespace

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

size_t TextCursor::next_token() const {
  size_t position = position_;
  while (position < text_.size()) {
    if (is_space(text_[position])) {
      ++position;
    } else if (text_.substr(position, 2) == "//") {
      position = std::min(text_.find('\n', position), text_.size());
    } else {
      break;
    }
  }
  return position;
}

void TextCursor::fail_at(size_t position, const std::string& message) const {
  size_t line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < position && i < text_.size(); ++i) {
    if (text_[i] != '\n') continue;
    ++line;
    line_start = i + 1;
  }
  throw LocatedError("line " + std::to_string(line) + ", column " +
                     std::to_string(position - line_start + 1) + ": " + message);
}

void TextCursor::fail(const std::string& message) const { fail_at(next_token(), message); }

void TextCursor::located(const std::function<void()>& parse) {
  skip_space();
  const size_t position = position_;
  try {
    parse();
  } catch (const LocatedError&) {
    throw;
  } catch (const UserError& error) {
    fail_at(position, error.what());
  }
}

bool TextCursor::at_end() const { return next_token() >= text_.size(); }

char TextCursor::peek() const { return at_end() ? '\0' : text_[next_token()]; }

bool TextCursor::looking_at(std::string_view token) const {
  const size_t start = next_token();
  if (text_.substr(start, token.size()) != token) return false;
  const size_t end = start + token.size();
  const bool runs_on = is_word(token.back()) && end < text_.size() && is_word(text_[end]);
  return !runs_on;
}

bool TextCursor::accept(std::string_view token) {
  if (!looking_at(token)) return false;
  position_ = next_token() + token.size();
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (accept(token)) return;
  skip_space();
  size_t end = position_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  const std::string found(text_.substr(position_, std::max<size_t>(end - position_, 1)));
  fail("expected '" + std::string(token) + "', found " +
       (at_end() ? std::string("the end") : "'" + found + "'"));
}

std::string TextCursor::identifier() {
  skip_space();
  size_t end = position_;
  while (end < text_.size() && (is_word(text_[end]) || (text_[end] == '.' && end > position_ &&
                                                        end + 1 < text_.size() && is_word(text_[end + 1])))) {
    ++end;
  }
  if (end == position_) fail("expected a name");
  const std::string name(text_.substr(position_, end - position_));
  position_ = end;
  return name;
}

int64_t TextCursor::integer() {
  skip_space();
  int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc{}) fail("expected an integer");
  position_ += static_cast<size_t>(end - begin);
  return value;
}

double TextCursor::number() {
  skip_space();
  double value = 0;
  const char* begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc{}) fail("expected a number");
  position_ += static_cast<size_t>(end - begin);
  return value;
}

std::string TextCursor::comment() {
  const size_t end = std::min(text_.find('\n', position_), text_.size());
  const std::string_view rest = text_.substr(position_, end - position_);
  size_t start = rest.find_first_not_of(" \t");
  if (start == std::string_view::npos || rest.substr(start, 2) != "//") return "";
  start = rest.find_first_not_of(' ', start + 2);
  position_ = end;
  return start == std::string_view::npos ? "" : std::string(rest.substr(start));
}

std::string TextCursor::string_literal() {
  expect("\"");
  const size_t start = position_;
  std::string value;
  while (position_ < text_.size() && text_[position_] != '"') {
    char c = text_[position_++];
    if (c == '\\' && position_ < text_.size()) {
      c = text_[position_++];
      if (c == 'n') c = '\n';
    }
    value += c;
  }
  if (position_ >= text_.size()) fail_at(start, "this string has no end");
  ++position_;
  return value;
}

std::string TextCursor::until(std::string_view stops) {
  skip_space();
  const size_t start = position_;
  int depth = 0;
  for (; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (depth == 0 && stops.find(c) != std::string_view::npos) break;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (depth < 0) break;
  }
  size_t end = position_;
  while (end > start && is_space(text_[end - 1])) --end;
  if (end == start) fail_at(start, "expected an expression");
  return std::string(text_.substr(start, end - start));
}

void TextCursor::list(std::string_view open, std::string_view close, const std::function<void()>& item) {
  expect(open);
  if (accept(close)) return;
  do {
    item();
  } while (accept(","));
  expect(close);
}

}  // namespace tilefuse
