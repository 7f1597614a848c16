// The one place where our errors become the framework's: UserError a ValueError in Python, InternalError a
// RuntimeError.
#pragma once
#include <c10/util/Exception.h>

#include "core/result.h"

namespace tilefuse {

template <class Work>
auto translated(Work work) {
  try {
    return work();
  } catch (const UserError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const InternalError& error) {
    TORCH_CHECK(false, "tilefuse: internal error: ", error.what());
  }
}

}  // namespace tilefuse
