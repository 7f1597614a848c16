// What activations and their gradients share.
#pragma once
#include <numbers>

#include "core/import/tensor.h"

namespace tilefuse::aten {

// gelu's tanh form: 0.5 x (1 + tanh(beta (x + kappa x^3)))
constexpr double kGeluBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kGeluKappa = 0.044715;
constexpr double kMishThreshold = 20.0;

// log(1 + exp(beta x)) / beta; x itself where beta x exceeds the threshold
Tensor softplus(const Tensor& x, double beta, double threshold);

}  // namespace tilefuse::aten
