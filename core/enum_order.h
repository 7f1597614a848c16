// Tables with one row per enumerator, in their order: the enumerator is the index of its row.
//
//   static_assert(is_in_enum_order(kDTypes, &DTypeInfo::dtype, DType::F8E8M0FNU), "one row per DType, ...");
#pragma once
#include <array>
#include <cstddef>

namespace tilefuse {

// `last`: the last enumerator, so that a row that is missing at the end is noticed.
template <class Row, size_t kRows, class Enum>
consteval bool is_in_enum_order(const std::array<Row, kRows>& table, Enum Row::* key, Enum last) {
  for (size_t i = 0; i < kRows; ++i) {
    if (static_cast<size_t>(table[i].*key) != i) return false;
  }
  return kRows == static_cast<size_t>(last) + 1;
}

}  // namespace tilefuse
