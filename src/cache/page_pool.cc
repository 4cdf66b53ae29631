#include "cache/page_pool.h"

#include <limits>

#include "base/check.h"

namespace rose {

PagePool::PagePool(int64_t pages) {
  ROSE_CHECK(pages >= 0 && pages <= std::numeric_limits<int32_t>::max(), "pages=", pages);
  owners_.assign(pages, 0);
  free_.reserve(pages);
  for (int64_t page = pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
}

int32_t PagePool::Take() {
  ROSE_CHECK(!free_.empty(), "all ", total(), " pages are taken");
  const int32_t page = free_.back();
  free_.pop_back();
  owners_[page] = 1;
  return page;
}

void PagePool::Share(int32_t page) {
  ROSE_CHECK(page >= 0 && page < total(), "page=", page, " of ", total());
  ROSE_CHECK(owners_[page] > 0, "page ", page, " is free");
  ++owners_[page];
}

void PagePool::Give(int32_t page) {
  ROSE_CHECK(page >= 0 && page < total(), "page=", page, " of ", total());
  ROSE_CHECK(owners_[page] > 0, "page ", page, " is given back twice");
  if (--owners_[page] == 0) free_.push_back(page);
}

}  // namespace rose
