// What to time next, given what was timed: the candidate that may be fastest.
//
// What a schedule takes is its price times an error, and schedules that differ in little share most of it
// (price_doubt in short_list.h). So each time tells about others, too: the errors are a random field whose
// variogram is the square of the doubt, and what is known of it is kriged (Matheron, Principles of
// geostatistics, 1963). Next is the least of price times expected error, lowered by one standard deviation of
// what is not known.
//
//   Prospects prospects(candidates);
//   prospects.next(2)             ->  {0, 3}    the choice, and what differs from it most for its price
//   prospects.observe(3, 0.8)                   took 0.8 of the time of the choice
//   prospects.next(2)             ->  {11, 4}   much like the third, and cheaper than its likes
#pragma once
#include <vector>

#include "fusion/schedule.h"

namespace tilefuse {

class Prospects {
 public:
  // Priced, the first of them the choice, none twice.
  explicit Prospects(const std::vector<Schedule>& candidates);

  // Places of at most so many candidates, none that was given before; the choice comes first.
  std::vector<size_t> next(size_t count);
  // What one that was given took, over what the choice took in the same minutes.
  void observe(size_t place, double share);

 private:
  std::vector<double> price_;       // logarithms
  std::vector<double> covariance_;  // of errors, less that of the choice: a symmetric matrix
  std::vector<size_t> given_, seen_;
  std::vector<double> errors_;  // of those seen, less that of the choice; logarithms
};

}  // namespace tilefuse
