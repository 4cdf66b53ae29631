// PageOrder: which page of a pool goes next when memory is wanted. Indices only. Allocates when it
// is made and never again.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cache/page_pool.h"

namespace rose {

class PageOrder {
 public:
  // Used pages stay; cold ones go before warm ones. A page that was never put is in no class.
  enum Class : int32_t { kUsed, kCold, kWarm };

  explicit PageOrder(int64_t pages);

  // From whatever class it was in, to this one, as its most recently used page.
  void Put(int32_t page, Class to);
  void Remove(int32_t page);
  // The least recently used cold page, or warm one; kNoPage if there is neither.
  int32_t Next() const;
  int64_t evictable() const { return sizes_[kCold] + sizes_[kWarm]; }
  bool IsWarm(int32_t page) const { return links_[page].in == kWarm; }

 private:
  static constexpr int32_t kClasses = 3;

  // A ring a class, newest first, through a head behind the pages.
  struct Link {
    int32_t newer = 0, older = 0, in = kClasses;
  };
  int32_t Head(int32_t of) const { return static_cast<int32_t>(links_.size()) - kClasses + of; }
  void Unlink(int32_t page);

  std::vector<Link> links_;  // [pages + kClasses]
  // Pages of every class; the last counts those that are in none, and is of no use.
  std::array<int64_t, kClasses + 1> sizes_{};
};

}  // namespace rose
