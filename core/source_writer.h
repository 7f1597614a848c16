// Writes indented, C-shaped text: generated kernels and IR dumps alike.
//
//   SourceWriter out;
//   {
//     auto loop = out.block("for (int64_t $ = 0; $ < $; ++$)", {"i", "i", 128, "i"});
//     out.line("y[$] = $;", {"i", 0.5});
//   }                                     // closes the brace
//
// gives
//
//   for (int64_t i = 0; i < 128; ++i) {
//     y[i] = 0.5;
//   }
//
// Each `$` takes the next argument, `$$` is a dollar sign; a count that does not match is an InternalError.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tilefuse {

// What a `$` may stand for. Doubles print in their shortest round-trip form.
class SourceArgument {
 public:
  SourceArgument(const char* text) : text_(text) {}             // NOLINT(google-explicit-constructor)
  SourceArgument(std::string_view text) : text_(text) {}        // NOLINT(google-explicit-constructor)
  SourceArgument(std::string text) : text_(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  SourceArgument(double value);                                 // NOLINT(google-explicit-constructor)
  template <class Integer>
    requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool> && !std::is_same_v<Integer, char>)
  SourceArgument(Integer value) : text_(std::to_string(value)) {}  // NOLINT(google-explicit-constructor)

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class SourceWriter {
 public:
  using Arguments = std::initializer_list<SourceArgument>;

  // A scope: writes `closing` on a line of its own when it ends.
  class [[nodiscard]] Block {
   public:
    Block(Block&& other) noexcept;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    Block& operator=(Block&&) = delete;
    ~Block();

   private:
    friend class SourceWriter;
    Block(SourceWriter* writer, std::string closing) : writer_(writer), closing_(std::move(closing)) {}
    SourceWriter* writer_;
    std::string closing_;
  };

  void line(std::string_view format, Arguments arguments = {});
  Block block(std::string_view format, Arguments arguments = {}, std::string closing = "}");  // adds " {"
  void comment(std::string_view text);  // wrapped at 110 columns
  void blank();                         // at most one, and none after an opening brace

  const std::string& text() const { return text_; }

 private:
  void write_line(const std::string& line);

  std::string text_;
  int depth_ = 0;
};

std::string comma_separated(const std::vector<std::string>& parts);  // "a, b, c"

}  // namespace tilefuse
