#include "cache/kv_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rose {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

KvPages::KvPages(std::vector<PageGroup> groups, int64_t page_size)
    : groups_(std::move(groups)), page_size_(page_size) {
  ROSE_CHECK_GT(page_size_, 0);
  ROSE_CHECK(!groups_.empty(), "a model has at least one KV group");
  for (const PageGroup& group : groups_) pools_.emplace_back(group.pages);
}

int64_t KvPages::total_pages() const {
  int64_t sum = 0;
  for (const PagePool& pool : pools_) sum += pool.total();
  return sum;
}

int64_t KvPages::used_pages() const {
  int64_t sum = 0;
  for (const PagePool& pool : pools_) sum += pool.used();
  return sum;
}

SeqPages KvPages::NewSequence() const {
  return {.tables = std::vector<std::vector<int32_t>>(groups_.size()),
          .held = std::vector<int64_t>(groups_.size(), 0)};
}

void KvPages::Cover(SeqPages& seq, int64_t end) {
  for (const int64_t wanted = CeilDiv(end, page_size_); seq.covered < wanted; ++seq.covered) {
    for (size_t g = 0; g < pools_.size(); ++g) {
      seq.tables[g].push_back(pools_[g].Take());
      ++seq.held[g];
    }
  }
}

void KvPages::Slide(SeqPages& seq, int64_t next) {
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (groups_[g].window == 0) continue;
    const int64_t first_key = std::max<int64_t>(0, next - groups_[g].window + 1);
    const int64_t keep_from = std::min(first_key / page_size_, seq.covered);
    for (int64_t i = seq.covered - seq.held[g]; i < keep_from; ++i) {
      pools_[g].Give(seq.tables[g][i]);
      seq.tables[g][i] = kNoPage;
      --seq.held[g];
    }
  }
}

void KvPages::Release(SeqPages& seq) {
  for (size_t g = 0; g < pools_.size(); ++g) {
    for (int64_t i = seq.covered - seq.held[g]; i < seq.covered; ++i) {
      pools_[g].Give(seq.tables[g][i]);
    }
    seq.tables[g].clear();
    seq.held[g] = 0;
  }
  seq.covered = 0;
}

int64_t PeakPages(const PageGroup& group, int64_t page_size, int64_t tokens, int64_t chunk) {
  const int64_t all = CeilDiv(tokens, page_size);
  if (group.window == 0) return all;
  // A chunk's first query reaches window - 1 keys back; such a span touches one page more than its
  // length asks for when it starts inside a page.
  const int64_t span = group.window - 1 + chunk;
  return std::min(all, CeilDiv(span - 1, page_size) + 1);
}

}  // namespace rose
