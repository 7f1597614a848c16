#include "fusion/prospects.h"

#include <Eigen/Dense>
#include <cmath>
#include <limits>

#include "fusion/short_list.h"

namespace tilefuse {
namespace {

constexpr double kScatter = 0.02;  // of two timings of one kernel, as a share

using Matrix = Eigen::Map<const Eigen::MatrixXd>;
using Vector = Eigen::Map<const Eigen::VectorXd>;

// Of what was timed, how much of each tells about every candidate: a row for each candidate.
Eigen::MatrixXd weights_of(const Matrix& covariance, const std::vector<size_t>& timed) {
  Eigen::MatrixXd among = covariance(timed, timed);
  among.diagonal().array() += kScatter * kScatter;
  return among.ldlt().solve(covariance(timed, Eigen::all)).transpose();
}

// What nobody knows of each candidate's error where these are known.
Eigen::VectorXd deviation(const Matrix& covariance, const std::vector<size_t>& timed) {
  Eigen::VectorXd variance = covariance.diagonal();
  if (!timed.empty())
    variance -= weights_of(covariance, timed).cwiseProduct(covariance(Eigen::all, timed)).rowwise().sum();
  return variance.cwiseMax(0).cwiseSqrt();
}

}  // namespace

Prospects::Prospects(const std::vector<Schedule>& candidates) {
  const auto variance = [](const Schedule& a, const Schedule& b) { return std::pow(price_doubt(a, b), 2); };
  std::vector<double> from_choice;
  from_choice.reserve(candidates.size());
  for (const Schedule& schedule : candidates) {
    price_.push_back(std::log(schedule.cost_us * code_share(schedule)));
    from_choice.push_back(variance(candidates[0], schedule));
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (size_t j = 0; j < candidates.size(); ++j)
      covariance_.push_back((from_choice[i] + from_choice[j] - variance(candidates[i], candidates[j])) / 2);
  }
}

std::vector<size_t> Prospects::next(size_t count) {
  const auto size = static_cast<Eigen::Index>(price_.size());
  const Matrix covariance(covariance_.data(), size, size);
  Eigen::VectorXd expected = Vector(price_.data(), size);
  if (!seen_.empty())
    expected += weights_of(covariance, seen_) * Vector(errors_.data(), Eigen::Index(errors_.size()));
  std::vector<size_t> found;
  while (found.size() < count && given_.size() < price_.size()) {
    Eigen::VectorXd hope = expected - deviation(covariance, given_);
    for (const size_t place : given_) hope(Eigen::Index(place)) = std::numeric_limits<double>::infinity();
    Eigen::Index best = 0;
    if (!given_.empty()) hope.minCoeff(&best);
    given_.push_back(size_t(best));
    found.push_back(size_t(best));
  }
  return found;
}

void Prospects::observe(size_t place, double share) {
  if (place == 0) return;
  seen_.push_back(place);
  errors_.push_back(std::log(share) - (price_[place] - price_[0]));
}

}  // namespace tilefuse
