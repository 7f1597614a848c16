// The framework's operator for each elementwise function, for regions that run without a kernel.
#pragma once
#include "core/map_function.h"

namespace tilefuse {

struct AtenMap {
  MapFn fn;
  const char* op;
  const char* overload;
  const char* rounding_mode = nullptr;
  bool addend_first = false;  // (a, b, c) for a * b + c is called as (c, a, b)
};

const AtenMap* aten_map(MapFn fn);  // null for Cast, which takes a dtype

}  // namespace tilefuse
