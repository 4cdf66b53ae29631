#include "cache/page_order.h"

#include "base/check.h"

namespace rose {

PageOrder::PageOrder(int64_t pages) : links_(pages + kClasses) {
  for (int32_t i = 0; i < static_cast<int32_t>(links_.size()); ++i) {
    links_[i].newer = links_[i].older = i;
  }
}

void PageOrder::Unlink(int32_t page) {
  ROSE_CHECK(page >= 0 && page < Head(0), "page=", page, " of ", Head(0));
  Link& link = links_[page];
  links_[link.newer].older = link.older;
  links_[link.older].newer = link.newer;
  --sizes_[link.in];
}

void PageOrder::Put(int32_t page, Class to) {
  Unlink(page);
  Link& head = links_[Head(to)];
  links_[page] = {.newer = Head(to), .older = head.older, .in = to};
  links_[head.older].newer = page;
  head.older = page;
  ++sizes_[to];
}

void PageOrder::Remove(int32_t page) {
  Unlink(page);
  links_[page] = {.newer = page, .older = page};
}

int32_t PageOrder::Next() const {
  for (const Class from : {kCold, kWarm}) {
    if (sizes_[from] > 0) return links_[Head(from)].newer;
  }
  return kNoPage;
}

}  // namespace rose
