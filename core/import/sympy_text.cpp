#include "core/import/sympy_text.h"

#include <cctype>
#include <charconv>
#include <vector>

#include "core/expr_algebra.h"
#include "core/size_error.h"

namespace tilefuse::aten {
namespace {

struct Refusal {
  std::string reason;
};

constexpr int kDeepest = 64;

class Parser {
 public:
  Parser(std::string_view text, const SymbolRangeLookup& symbol_range)
      : text_(text), symbol_range_(symbol_range) {}

  Expr parse_all() {
    Expr result = parse();
    if (position_ != text_.size()) fail("unexpected text after the expression");
    return result;
  }

 private:
  Expr parse() {
    if (++depth_ > kDeepest) fail("too many parentheses");
    const Expr result = parse_call();
    --depth_;
    return result;
  }

  Expr parse_call() {
    const std::string name = word();
    expect('(');
    if (name == "Integer") return closed(integer());
    if (name == "Symbol") return symbol();
    std::vector<Expr> args{parse()};
    while (accept(',')) args.push_back(parse());
    expect(')');
    return apply(name, args);
  }

  Expr closed(int64_t value) {
    expect(')');
    return value;
  }

  Expr symbol() {
    const std::string name = quoted();
    if (!is_symbol_name(name)) fail("'" + name + "' is no name of a size");
    bool is_positive = false;
    while (accept(',')) {
      const std::string assumption = word();
      expect('=');
      const bool holds = word() == "True";
      if (assumption == "positive") is_positive = holds;
    }
    expect(')');
    if (name.size() > 1 && name[0] == 'u' && std::isdigit(static_cast<unsigned char>(name[1])) != 0) {
      throw Refusal{"cannot take a graph with the size " + name + ": its value depends on the data"};
    }
    return Expr::symbol(name, symbol_range_(name, SymbolRange{.low = is_positive ? 1 : 0}));
  }

  Expr apply(const std::string& name, const std::vector<Expr>& args) {
    if (name == "Add" || name == "Mul" || name == "Max" || name == "Min") return folded(name, args);
    if (name == "Identity" && args.size() == 1) return args[0];
    if (name == "Pow" && args.size() == 2) return power(args[0], args[1]);
    if ((name == "FloorDiv" || name == "CleanDiv") && args.size() == 2) return floordiv(args[0], args[1]);
    if ((name == "Mod" || name == "PythonMod") && args.size() == 2) return mod(args[0], args[1]);
    if (name == "ModularIndexing" && args.size() == 3) return mod(floordiv(args[0], args[1]), args[2]);
    throw Refusal{"cannot take a graph with a size that uses " + name +
                  ": sizes are integer expressions of " +
                  "sums, products, floor divisions, remainders, minima and maxima"};
  }

  static Expr folded(const std::string& name, const std::vector<Expr>& args) {
    if (name == "Add") return sum_of(args);
    Expr result = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
      if (name == "Mul") result = result * args[i];
      if (name == "Max") result = max(result, args[i]);
      if (name == "Min") result = min(result, args[i]);
    }
    return result;
  }

  static Expr power(const Expr& base, const Expr& exponent) {
    constexpr int64_t kLargestExponent = 16;
    const std::optional<int64_t> n = exponent.constant();
    if (!n || *n < 0 || *n > kLargestExponent) {
      throw Refusal{"cannot take a graph with a size raised to " + to_text(exponent) + ": limit 0 to 16"};
    }
    Expr result = 1;
    for (int64_t i = 0; i < *n; ++i) result = result * base;
    return result;
  }

  // ------------------------------------------------------------ tokens
  void skip_space() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool accept(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "' expected");
  }
  std::string word() {
    skip_space();
    const size_t start = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 || text_[position_] == '_')) {
      ++position_;
    }
    if (position_ == start) fail("a name expected");
    return std::string(text_.substr(start, position_ - start));
  }
  int64_t integer() {
    skip_space();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (error != std::errc{}) fail("a 64-bit integer expected");
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  std::string quoted() {
    expect('\'');
    const size_t end = text_.find('\'', position_);
    if (end == std::string_view::npos) fail("a closing quote expected");
    std::string name(text_.substr(position_, end - position_));
    position_ = end + 1;
    return name;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError("is no size expression: " + what + " at column " + std::to_string(position_ + 1) +
                    " of " + std::string(text_));
  }

  std::string_view text_;
  const SymbolRangeLookup& symbol_range_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Expr> parse_sympy(std::string_view text, const SymbolRangeLookup& symbol_range) {
  try {
    return Parser(text, symbol_range).parse_all();
  } catch (const Refusal& refusal) {
    return Unsupported{refusal.reason};
  }
}

}  // namespace tilefuse::aten
