#include "cache/divide_memory.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "cache/kv_pages.h"

namespace rose {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The most pages that sequences within `demand` can hold at one time.
int64_t UsefulPages(const GroupCost& group, const CacheDemand& demand) {
  const int64_t whole = PeakPages({}, demand.page_size, demand.max_context, /*chunk=*/1);
  if (group.window == 0) return demand.max_running * whole;
  // A sequence with a chunk of c rows touches at most (window + c) / page_size + 2 pages, and the
  // chunks of all sequences together have max_step_tokens rows.
  const int64_t window_pages = std::min(whole, CeilDiv(group.window, demand.page_size) + 2);
  return (demand.max_running + demand.kept) * window_pages +
         CeilDiv(demand.max_step_tokens, demand.page_size);
}

}  // namespace

std::vector<int64_t> DividePages(std::span<const GroupCost> groups, const CacheDemand& demand,
                                 int64_t bytes) {
  ROSE_CHECK_GE(bytes, 0);
  std::vector<int64_t> pages(groups.size(), 0);
  // Gives groups of one kind their pages: all that is useful, or equal parts of `share`.
  const auto give = [&](bool sliding, int64_t share) {
    int64_t useful_bytes = 0;
    for (const GroupCost& group : groups) {
      if ((group.window > 0) == sliding) {
        useful_bytes += UsefulPages(group, demand) * group.page_bytes;
      }
    }
    int64_t used = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      if ((groups[g].window > 0) != sliding) continue;
      const int64_t useful = UsefulPages(groups[g], demand);
      // In double: the product may exceed 64 bits.
      pages[g] = useful_bytes <= share ? useful
                                       : static_cast<int64_t>(static_cast<double>(useful) *
                                                              static_cast<double>(share) /
                                                              static_cast<double>(useful_bytes));
      used += pages[g] * groups[g].page_bytes;
    }
    return used;
  };
  const bool has_full = std::any_of(groups.begin(), groups.end(),
                                    [](const GroupCost& group) { return group.window == 0; });
  const int64_t used = give(/*sliding=*/true, has_full ? bytes / 2 : bytes);
  give(/*sliding=*/false, bytes - used);
  return pages;
}

std::vector<int64_t> DivideHostPages(std::span<const GroupCost> groups, int64_t bytes) {
  ROSE_CHECK_GE(bytes, 0);
  // Bytes of a page of every group of a kind: full, sliding.
  std::array<int64_t, 2> page_bytes{};
  for (const GroupCost& group : groups) page_bytes[group.window > 0] += group.page_bytes;
  const int64_t sliding = page_bytes[1] == 0 ? 0 : page_bytes[0] == 0 ? bytes : bytes / 4;
  std::vector<int64_t> pages;
  for (const GroupCost& group : groups) {
    pages.push_back(group.window > 0 ? sliding / page_bytes[1] : (bytes - sliding) / page_bytes[0]);
  }
  return pages;
}

int64_t PeakBytes(std::span<const GroupCost> groups, int64_t page_size, int64_t tokens,
                  int64_t chunk) {
  int64_t bytes = 0;
  for (const GroupCost& group : groups) {
    bytes += group.page_bytes * PeakPages({.window = group.window}, page_size, tokens, chunk);
  }
  return bytes;
}

}  // namespace rose
