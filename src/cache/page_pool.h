// PagePool: which pages of one KV group are free. Indices only; the memory belongs to an op set.
#pragma once

#include <cstdint>
#include <vector>

namespace rose {

class PagePool {
 public:
  explicit PagePool(int64_t pages);

  int64_t total() const { return static_cast<int64_t>(taken_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t used() const { return total() - free(); }

  // A free page; there must be one. The page given back last is taken first: it may still be in a
  // processor's cache.
  int32_t Take();
  // Gives a taken page back. Its contents become garbage.
  void Give(int32_t page);

 private:
  std::vector<int32_t> free_;  // a stack
  std::vector<bool> taken_;    // [pages]
};

}  // namespace rose
