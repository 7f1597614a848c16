// The meaning of every MapFn on one element, spelled with the plainest code there is.
//
//   float_map(MapFn::Max, DType::F32, {1.0, NAN, 0.0})    -> nan
//   int_map(MapFn::Remainder, DType::I64, {-5, 3, 0})     -> 1
//
// Operands that the function does not take are ignored. Results are not yet rounded or wrapped to the dtype.
#pragma once
#include <array>
#include <cstdint>

#include "core/dtype.h"
#include "core/map_function.h"

namespace tilefuse {

// Functions whose result has the dtype of its float operands. `dtype` is the one arithmetic happens in:
// floor_div and trunc_div round their quotient to it before they drop the fraction, as eager arithmetic does.
double float_map(MapFn fn, DType dtype, const std::array<double, 3>& x);
// The same on bools and integers. Division by zero is a UserError, as the framework raises one.
int64_t int_map(MapFn fn, DType dtype, const std::array<int64_t, 3>& x);
// eq .. ge, isnan, isinf.
bool float_test(MapFn fn, double a, double b);
bool int_test(MapFn fn, int64_t a, int64_t b);

}  // namespace tilefuse
