// Where a bug of ours is contained: it costs a region or a graph its kernels, not the user the program.
//
//   const Result<Schedule> s = unless_faulty([&] { return search(system); });
//   if (!s) report(s.unsupported());       // "internal error: ..."
#pragma once
#include <exception>
#include <string>
#include <type_traits>

#include "core/result.h"

namespace tilefuse {

// What `work` returns. Unsupported: it threw an InternalError or, as the standard library says of a bug,
// another exception. UserError: passed on, for that is not a bug.
template <class Work>
Result<std::invoke_result_t<Work>> unless_faulty(Work work) {
  try {
    return work();
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    return Unsupported{std::string("internal error: ") + error.what()};
  }
}

}  // namespace tilefuse
