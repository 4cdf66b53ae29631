// PagePool: which pages of one KV group are in use, and by how many. Indices only; the memory
// belongs to an op set.
#pragma once

#include <cstdint>
#include <vector>

namespace rose {

inline constexpr int32_t kNoPage = -1;

class PagePool {
 public:
  explicit PagePool(int64_t pages);

  int64_t total() const { return static_cast<int64_t>(owners_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t used() const { return total() - free(); }
  int64_t owners(int32_t page) const { return owners_[page]; }

  // A free page, with one owner; there must be one. The page freed last is taken first: it may
  // still be in a processor's cache.
  int32_t Take();
  // One more owner of a taken page. From now on nobody may write to it.
  void Share(int32_t page);
  // One owner less. After the last the page is free and its contents become garbage.
  void Give(int32_t page);

 private:
  std::vector<int32_t> free_;    // a stack
  std::vector<int32_t> owners_;  // [pages]
};

}  // namespace rose
