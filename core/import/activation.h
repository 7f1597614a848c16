// What activations and their gradients share.
#pragma once
#include <numbers>

#include "core/import/tensor.h"

namespace tilefuse::aten {

// gelu's tanh form: 0.5 x (1 + tanh(beta (x + kappa x^3)))
constexpr double kGeluBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kGeluKappa = 0.044715;

// log(1 + exp(beta x)) / beta; x itself where beta x exceeds the threshold
Tensor softplus(const Tensor& x, double beta, double threshold);

// tanh(log(1 + exp(x))), of one exponential e: w / (w + 2), w = e (e + 2). That is 1 long before x is 20.
Tensor tanh_of_softplus(const Tensor& x);

// (1 + tanh(factor x)) / 2, which is a sigmoid: in one exponential, and exact where the tanh is near -1
Tensor half_tanh_plus_half(double factor, const Tensor& x);

}  // namespace tilefuse::aten
