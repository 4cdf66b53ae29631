// The middle of measurements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rose {

// The upper of two in the middle; 0 if there are none.
inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace rose
