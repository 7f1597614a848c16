#include "core/import/field.h"

#include <limits>

#include "core/result.h"

namespace tilefuse::aten {

Field Field::inside(std::string place) const { return {*value_, std::move(place), ""}; }

Field Field::operator[](std::string_view key) const {
  if (!value_->is_object()) fail("must be an object, got " + shown());
  const auto found = value_->find(key);
  if (found == value_->end()) fail("has no field '" + std::string(key) + "'");
  return {*found, place_, path_.empty() ? std::string(key) : path_ + "." + std::string(key)};
}

std::optional<Field> Field::find(std::string_view key) const {
  if (!value_->is_object()) fail("must be an object, got " + shown());
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return (*this)[key];
}

Field Field::at(size_t index) const {
  const std::string path = path_ + "[" + std::to_string(index) + "]";
  if (index >= size()) fail("has no element " + std::to_string(index));
  return {(*value_)[index], place_, path};
}

size_t Field::size() const {
  if (!value_->is_array()) fail("must be a list, got " + shown());
  return value_->size();
}

const std::string& Field::text() const {
  if (!value_->is_string()) fail("must be a string, got " + shown());
  return value_->get_ref<const std::string&>();
}

int64_t Field::integer() const {
  if (!value_->is_number_integer()) fail("must be an integer, got " + shown());
  const bool fits = !value_->is_number_unsigned() ||
                    value_->get<uint64_t>() <= uint64_t(std::numeric_limits<int64_t>::max());
  if (!fits) fail("must be an integer of 64 bits, got " + shown());
  return value_->get<int64_t>();
}

double Field::number() const {
  if (value_->is_number()) return value_->get<double>();
  if (value_->is_string()) {
    const std::string& word = text();
    if (word == "Infinity") return std::numeric_limits<double>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  fail("must be a number, got " + shown());
}

bool Field::flag() const {
  if (!value_->is_boolean()) fail("must be true or false, got " + shown());
  return value_->get<bool>();
}

std::pair<std::string_view, Field> Field::tagged() const {
  if (!value_->is_object() || value_->size() != 1) fail("must be an object with one key, got " + shown());
  const auto entry = value_->begin();
  return {entry.key(), (*this)[entry.key()]};
}

void Field::fail(const std::string& what) const {
  std::string message = place_.empty() ? "captured graph" : place_;
  if (!path_.empty()) message += ": field " + path_;
  throw UserError(message + ": " + what);
}

std::string Field::shown() const {
  constexpr size_t kMaxShown = 60;
  const std::string text = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

}  // namespace tilefuse::aten
