#include "tests/gpu/ptx_operands.h"

#include <charconv>

#include "tests/gpu/ptx_text.h"

namespace tilefuse {

void PtxOperands::fail(const std::string& what) const {
  throw PtxError("PTX line " + std::to_string(line_) + ": " + what);
}

int64_t PtxOperands::given_begin() {
  if (!program_.given_at)
    program_.given_at = (program_.shared_bytes + given_alignment_ - 1) / given_alignment_ * given_alignment_;
  return *program_.given_at;
}

int PtxOperands::fresh_register() {
  const int reg = static_cast<int>(registers_.size());
  registers_.emplace("#" + std::to_string(reg), reg);
  return reg;
}

int PtxOperands::constant(uint64_t value) {
  const auto found = constants_.find(value);
  if (found != constants_.end()) return found->second;
  const int reg = fresh_register();
  program_.constants.push_back({reg, value});
  return constants_[value] = reg;
}

int PtxOperands::named_register(const std::string& name) {
  static const std::map<std::string, PtxSpecial::What> kSpecials = {
      {"%tid.x", PtxSpecial::What::ThreadX},
      {"%ctaid.x", PtxSpecial::What::BlockX},
      {"%ntid.x", PtxSpecial::What::BlockThreadsX},
      {"%nctaid.x", PtxSpecial::What::BlocksX},
      {"%cluster_ctarank", PtxSpecial::What::BlockOfCluster}};
  const auto known = registers_.find(name);
  if (known != registers_.end()) return known->second;
  const bool is_special = name.find('.') != std::string::npos || name.starts_with("%cluster");
  if (is_special && !kSpecials.contains(name)) fail("an unknown register " + name);
  const int reg = static_cast<int>(registers_.size());
  registers_[name] = reg;
  if (const auto special = kSpecials.find(name); special != kSpecials.end()) {
    program_.specials.push_back({reg, special->second});
  }
  return reg;
}

int PtxOperands::value(const std::string& text) {
  if (text.starts_with('%')) return named_register(text);
  if (const auto found = shared_.find(text); found != shared_.end()) {
    return constant(static_cast<uint64_t>(found->second));
  }
  if (const auto found = parameters_.find(text); found != parameters_.end())
    return constant(kParameterSpace | static_cast<uint64_t>(found->second));
  if (!given_.empty() && text == given_) return constant(static_cast<uint64_t>(given_begin()));
  if (text.starts_with("0f") || text.starts_with("0F") || text.starts_with("0d") || text.starts_with("0D") ||
      text.starts_with("0x")) {
    return constant(std::stoull(text.substr(2), nullptr, 16));
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size())
    fail("an operand that is not understood: " + text);
  return constant(static_cast<uint64_t>(number));
}

std::vector<int> PtxOperands::values(const std::string& text) {
  std::vector<int> result;
  const bool is_list = text.starts_with('{');
  for (const std::string& part : split_operands(is_list ? text.substr(1, text.size() - 2) : text)) {
    result.push_back(value(part));
  }
  return result;
}

int PtxOperands::address(const std::string& text, int64_t& offset) {
  const std::string inside = text.substr(1, text.size() - 2);
  const size_t plus = inside.find('+');
  if (plus != std::string::npos) offset = std::stoll(inside.substr(plus + 1));
  return value(inside.substr(0, plus));
}

int PtxOperands::plain_address(const std::string& text) {
  int64_t offset = 0;
  const int reg = address(text, offset);
  if (offset != 0) fail("an address that is not understood: " + text);
  return reg;
}

}  // namespace tilefuse
