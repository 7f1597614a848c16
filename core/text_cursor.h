// A place in a text that is being parsed: what every parser of an IR's text form reads through.
//
// Spaces, newlines and `// comments` between tokens are skipped. An expression may itself hold `//` (floor
// division), so it is taken as one piece with `until`, which does not look for comments.
//
//   cursor.expect("("); std::string name = cursor.identifier(); cursor.expect(":");
//
// Every failure is a UserError "line 3, column 14: expected ':', found 'x'".
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tilefuse {

bool is_word(char c);  // a letter, a digit or _

class TextCursor {
 public:
  explicit TextCursor(std::string_view text, size_t start = 0) : text_(text), position_(start) {}

  bool at_end() const;
  char peek() const;  // the next character that is no space; '\0' at the end
  bool looking_at(std::string_view token) const;
  bool accept(std::string_view token);  // a whole word, when the token is one
  void expect(std::string_view token);
  std::string identifier();  // letters, digits, _ and, inside, dots: "reduce.max"
  int64_t integer();
  double number();               // also inf, -inf and nan
  std::string string_literal();  // "..." with \" \\ \n
  // The text up to the first of `stops` outside any bracket, without surrounding spaces.
  std::string until(std::string_view stops);
  // Zero or more items between brackets, with commas.
  void list(std::string_view open, std::string_view close, const std::function<void()>& item);

  std::string comment();  // that ends this line, without its //; empty if there is none

  [[noreturn]] void fail(const std::string& message) const;  // at the token that comes next
  // Runs `parse`; a UserError it throws that has no place yet is reported at this one.
  void located(const std::function<void()>& parse);

 private:
  size_t next_token() const;  // where it starts, behind spaces and comments
  void skip_space() { position_ = next_token(); }
  [[noreturn]] void fail_at(size_t position, const std::string& message) const;

  std::string_view text_;
  size_t position_;
};

}  // namespace tilefuse
