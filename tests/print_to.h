// How failing assertions show our types: as their text form.
#pragma once
#include <ostream>

#include "core/graph.h"
#include "core/structural_hash.h"
#include "core/tensor.h"

namespace tilefuse {

inline void PrintTo(const Graph& graph, std::ostream* out) { *out << "\n" << to_text(graph); }
inline void PrintTo(const Tensor& tensor, std::ostream* out) { *out << to_text(tensor); }
inline void PrintTo(const Expr& e, std::ostream* out) { *out << to_text(e); }
inline void PrintTo(const Hash128& hash, std::ostream* out) { *out << to_text(hash); }

}  // namespace tilefuse
