#include "codegen/select_runtime.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "codegen/runtime_macros.h"
#include "core/text_cursor.h"

namespace tilefuse {
namespace {

std::vector<std::string_view> identifiers(std::string_view text) {
  std::vector<std::string_view> found;
  std::unordered_set<std::string_view> seen;
  for (size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    if (std::isdigit(static_cast<unsigned char>(word[0])) == 0 && seen.insert(word).second)
      found.push_back(word);
    at = end;
  }
  return found;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// The last character that counts: before a comment and the spaces in front of it.
char last_character(std::string_view line) {
  line = line.substr(0, line.find("//"));
  const size_t last = line.find_last_not_of(" \n");
  return last == std::string_view::npos ? ' ' : line[last];
}

std::string_view last_word(std::string_view text) {
  while (!text.empty() && !is_word(text.back())) text.remove_suffix(1);
  size_t start = text.size();
  while (start > 0 && is_word(text[start - 1])) --start;
  return text.substr(start);
}

// What a line declares that starts a declaration (after its `template <...>`); nothing for what is always
// needed.
//   "TILE_INLINE V exp(V x) {", "struct Facts<Mask> : ...", "constexpr float kInfinity = ..."
std::string_view declared_name(std::string_view line) {
  if (line.starts_with("enum : ")) return {};  // has several
  for (const std::string_view keyword : {"struct ", "enum class "}) {
    if (!line.starts_with(keyword)) continue;
    line.remove_prefix(keyword.size());
    if (line.starts_with("alignas(")) line.remove_prefix(std::min(line.find(") ") + 2, line.size()));
    return last_word(line.substr(
        0, static_cast<size_t>(std::find_if_not(line.begin(), line.end(), is_word) - line.begin())));
  }
  const std::string_view name = last_word(line.substr(0, line.find_first_of("(=")));
  const bool has_name =
      line.find_first_of("(=") != std::string_view::npos && name != "static_assert" && name != "operator";
  return has_name && !name.starts_with("TILE_") ? name : std::string_view();
}

// Names of the functions, or else of the structs, that a macro's text declares.
std::vector<std::string_view> names_in(std::string_view text) {
  std::vector<std::string_view> names;
  constexpr std::string_view kFunction = "TILE_INLINE ", kStruct = "struct ";
  for (size_t at = text.find(kFunction); at != std::string_view::npos; at = text.find(kFunction, at + 1))
    names.push_back(declared_name(text.substr(at)));
  if (!names.empty()) return names;
  for (size_t at = text.find(kStruct); at != std::string_view::npos; at = text.find(kStruct, at + 1))
    names.push_back(declared_name(text.substr(at)));
  return names;
}

// "TILE_FUNCTION(exp, float, ::expf(x))", in the first column
bool is_macro_call(std::string_view line) {
  const size_t end = static_cast<size_t>(std::find_if_not(line.begin(), line.end(), is_word) - line.begin());
  return line.starts_with("TILE_") && end < line.size() && line[end] == '(';
}

enum class LineKind { Blank, If, EndIf, Directive, Scope, MacroCall, Declaration };

// Of a line that is not inside a declaration.
LineKind kind_of(std::string_view line) {
  if (line[0] == '\n') return LineKind::Blank;
  if (line.starts_with("#if")) return LineKind::If;
  if (line.starts_with("#endif")) return LineKind::EndIf;
  if (line.starts_with("#el")) return LineKind::Blank;
  if (line[0] == '#') return LineKind::Directive;
  if (is_macro_call(line)) return LineKind::MacroCall;
  const bool is_scope =
      line[0] == '}' || line.starts_with("namespace") || line.starts_with("using namespace");
  return is_scope ? LineKind::Scope : LineKind::Declaration;
}

// Cuts text into pieces, line by line.
class PieceReader {
 public:
  void read(std::string_view line) {
    const LineKind kind = is_inside_ ? LineKind::Declaration : is_continued_ ? continued_ : kind_of(line);
    if (kind == LineKind::MacroCall) {  // up to the parenthesis that closes it
      line = line.substr(0, line.find("//"));
      open_ += std::count(line.begin(), line.end(), '(') - std::count(line.begin(), line.end(), ')');
      is_continued_ = open_ > 0;
      continued_ = kind;
      has_macro_call_ = true;
      return;
    }
    is_continued_ = (kind == LineKind::Directive || kind == LineKind::If || is_continued_) &&
                    last_character(line) == '\\';
    continued_ = kind == LineKind::Directive ? kind : LineKind::Blank;
    if (kind == LineKind::If) ++conditions_;
    if (kind == LineKind::EndIf) --conditions_;
    if (kind == LineKind::Directive || kind == LineKind::Scope) is_nameless_ = true;
    if (kind == LineKind::Declaration) read_declaration(line);
  }
  bool is_complete() const { return conditions_ == 0 && !is_inside_ && !is_continued_; }

  bool has_macro_call() const { return has_macro_call_; }
  // `expanded`: the piece as its macros write it.
  void add_names_of_macros(std::string_view expanded) {
    const std::vector<std::string_view> names = names_in(expanded);
    is_nameless_ = is_nameless_ || names.empty() || std::find(names.begin(), names.end(), "") != names.end();
    names_.insert(names_.end(), names.begin(), names.end());
  }

  // What the piece declares, nothing where it is always needed; and on to the next.
  std::vector<std::string_view> take_names() {
    std::vector<std::string_view> names = is_nameless_ ? std::vector<std::string_view>() : std::move(names_);
    names_.clear();
    is_nameless_ = has_macro_call_ = false;
    return names;
  }

 private:
  void read_declaration(std::string_view line) {
    const bool has_name = line[0] != ' ' && line[0] != '#' && line[0] != '}' && !line.starts_with("template");
    if (has_name && !in_body_) {
      const std::string_view name = declared_name(line);
      is_nameless_ = is_nameless_ || name.empty();
      names_.push_back(name);
    }
    const char last = last_character(line);
    if (in_body_) {
      in_body_ = is_inside_ = line[0] != '}';
    } else {
      in_body_ =
          last == '{' && line.find("= {") == std::string_view::npos;  // a table ends with its semicolon
      is_inside_ = last != ';' && last != '}';
    }
  }

  std::vector<std::string_view> names_;
  bool is_nameless_ = false, has_macro_call_ = false;
  std::ptrdiff_t open_ = 0;    // parentheses of a macro
  int conditions_ = 0;         // #if around declarations, not inside one
  bool is_continued_ = false;  // a directive or a condition, by a backslash
  LineKind continued_ = LineKind::Blank;
  bool is_inside_ = false;  // a declaration
  bool in_body_ = false;    // its braces
};

}  // namespace

RuntimeText::RuntimeText(std::string_view text) {
  RuntimeMacros macros;
  PieceReader reader;
  size_t start = 0;
  size_t at = 0;
  for (const std::string_view line : lines_of(text)) {
    at += line.size();
    reader.read(line);
    if (!reader.is_complete()) continue;
    const std::string_view piece = text.substr(start, at - start);
    const bool is_macro = macros.define(piece.substr(std::min(piece.find("#define"), piece.size())));
    std::vector<std::string_view> mentions = identifiers(piece);
    if (is_macro) {
      mentions.clear();  // wanted where it is used
    } else if (std::any_of(mentions.begin(), mentions.end(), [&](auto name) { return macros.has(name); })) {
      const std::string_view meaning = expanded_.emplace_back(macros.expand(piece));
      mentions = identifiers(meaning);
      if (reader.has_macro_call()) reader.add_names_of_macros(meaning);
    }
    pieces_.push_back({piece, reader.take_names(), std::move(mentions)});
    for (const std::string_view name : pieces_.back().declares)
      declared_in_[name].push_back(pieces_.size() - 1);
    start = at;
  }
}

std::string RuntimeText::select(std::string_view source) const {
  std::vector<bool> is_needed(pieces_.size(), false);
  std::vector<std::string_view> names = identifiers(source);
  const auto need = [&](size_t i) {
    if (is_needed[i]) return;
    is_needed[i] = true;
    names.insert(names.end(), pieces_[i].mentions.begin(), pieces_[i].mentions.end());
  };
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].declares.empty()) need(i);
  }
  std::unordered_set<std::string_view> seen;
  while (!names.empty()) {
    const std::string_view name = names.back();
    names.pop_back();
    if (!seen.insert(name).second) continue;
    const auto found = declared_in_.find(name);
    if (found == declared_in_.end()) continue;
    for (const size_t i : found->second) need(i);
  }
  std::string selected;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (is_needed[i]) selected += pieces_[i].text;
  }
  return selected;
}

}  // namespace tilefuse
