// What storing a number as a dtype does to it.
//
//   round_to(DType::BF16, 1.01) -> 1.0078125        wrap_to(DType::U8, -1) -> 255
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace tilefuse {

// To nearest, ties to even, overflow to infinity or, where the dtype has none, to its largest number.
// Narrower ones are rounded to f32 first, as their arithmetic happens there.
double round_to(DType dtype, double value);
// Two's complement wrap-around; bool is != 0.
int64_t wrap_to(DType dtype, int64_t value);

// Casts, as torch does them on x86: towards zero, what does not fit (NaN too) is the lowest value of i64 or,
// for the narrower types, of i32 before it wraps; anything to bool is != 0.
int64_t float_to_int(DType to, double value);
double int_to_float(DType to, int64_t value);

}  // namespace tilefuse
