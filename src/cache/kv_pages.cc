#include "cache/kv_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rose {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

std::vector<PagePool> PoolsOf(std::span<const PageGroup> groups) {
  std::vector<PagePool> pools;
  for (const PageGroup& group : groups) pools.emplace_back(group.pages);
  return pools;
}

}  // namespace

KvPages::KvPages(std::vector<PageGroup> groups, int64_t page_size, bool prefix_cache)
    : groups_(std::move(groups)),
      page_size_(page_size),
      prefix_cache_(prefix_cache),
      pools_(PoolsOf(groups_)),
      tree_(groups_, page_size, pools_) {
  ROSE_CHECK_GT(page_size_, 0);
  ROSE_CHECK(!groups_.empty(), "a model has at least one KV group");
}

int64_t KvPages::total_pages() const {
  int64_t sum = 0;
  for (const PagePool& pool : pools_) sum += pool.total();
  return sum;
}

int64_t KvPages::used_pages() const {
  int64_t sum = 0;
  for (const PagePool& pool : pools_) sum += pool.used();
  return sum - cached_pages();
}

int64_t KvPages::cached_pages() const {
  int64_t sum = 0;
  for (size_t g = 0; g < pools_.size(); ++g) sum += tree_.evictable(g);
  return sum;
}

SeqPages KvPages::NewSequence() const {
  SeqPages seq;
  seq.tables.resize(groups_.size());
  seq.held.resize(groups_.size());
  return seq;
}

int64_t KvPages::FirstReached(size_t group, int64_t query) const {
  const int64_t window = groups_[group].window;
  return window == 0 ? 0 : std::max<int64_t>(0, query - window + 1) / page_size_;
}

int64_t KvPages::ReuseCost(const PrefixTree::Match& match, int64_t group) const {
  const auto unused = [&](const PrefixTree::Node* node) {
    return pools_[group].owners(PrefixTree::PageOf(node, group)) == 1;
  };
  const auto whole = static_cast<int64_t>(match.path.size());
  int64_t cost = match.part != nullptr && unused(match.part);
  for (int64_t i = whole - ReuseHeld(match, group); i < whole; ++i) cost += unused(match.path[i]);
  return cost;
}

int64_t KvPages::ReuseHeld(const PrefixTree::Match& match, int64_t group) const {
  const auto whole = static_cast<int64_t>(match.path.size());
  return std::max<int64_t>(0, whole - FirstReached(group, match.tokens(page_size_)));
}

int64_t KvPages::Reuse(SeqPages& seq, const PrefixTree::Match& match) {
  ROSE_CHECK_EQ(seq.covered, 0);
  seq.marks[1] = match.seen;
  seq.nodes = match.path;
  seq.part = match.part;
  seq.covered = static_cast<int64_t>(match.path.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    seq.held[g] = ReuseHeld(match, g);
    seq.tables[g].assign(seq.covered, kNoPage);
    for (int64_t i = seq.covered - seq.held[g]; i < seq.covered; ++i)
      seq.tables[g][i] = tree_.Use(match.path[i], g);
    if (match.part != nullptr) tree_.Use(match.part, g);
  }
  return match.tokens(page_size_);
}

void KvPages::AddCopies(SeqPages& seq, std::vector<PageCopy>& copies) {
  if (seq.part == nullptr) return;
  for (size_t g = 0; g < groups_.size(); ++g)
    copies.push_back({.group = static_cast<int64_t>(g),
                      .from = PrefixTree::PageOf(seq.part, g),
                      .to = seq.tables[g][seq.nodes.size()]});
  sources_.push_back(std::exchange(seq.part, nullptr));
}

void KvPages::Copied() {
  for (PrefixTree::Node* source : sources_)
    for (size_t g = 0; g < groups_.size(); ++g) tree_.Unuse(source, g, /*warm=*/true);
  sources_.clear();
}

int32_t KvPages::Take(size_t group) {
  if (pools_[group].free() == 0) tree_.Evict(group);
  return pools_[group].Take();
}

void KvPages::Cover(SeqPages& seq, int64_t end) {
  for (const int64_t wanted = CeilDiv(end, page_size_); seq.covered < wanted; ++seq.covered) {
    for (size_t g = 0; g < pools_.size(); ++g) {
      seq.tables[g].push_back(Take(g));
      ++seq.held[g];
    }
  }
}

void KvPages::Publish(SeqPages& seq, std::string_view salt, std::span<const int32_t> tokens) {
  const int64_t whole = std::ssize(tokens) / page_size_;
  auto i = std::ssize(seq.nodes);
  if (!prefix_cache_ || i >= whole) return;  // as after most steps: nothing is allocated
  std::vector<int32_t> pages(groups_.size());
  for (; i < whole; ++i) {
    for (size_t g = 0; g < groups_.size(); ++g) pages[g] = seq.tables[g][i];
    const auto block = tokens.subspan(i * page_size_, page_size_);
    seq.nodes.push_back(i == 0 ? tree_.PublishFirst(salt, block, pages)
                               : tree_.Publish(seq.nodes.back(), block, pages));
    for (size_t g = 0; g < groups_.size(); ++g) seq.tables[g][i] = pages[g];
  }
}

// Gives up one page of the table; its entry is left as it is.
void KvPages::Give(SeqPages& seq, size_t group, int64_t index, bool warm) {
  if (index < static_cast<int64_t>(seq.nodes.size())) {
    tree_.Unuse(seq.nodes[index], group, warm);
  } else {
    pools_[group].Give(seq.tables[group][index]);
  }
}

// Whether a query at a mark or a checkpoint reaches this page.
bool KvPages::IsWarm(const SeqPages& seq, size_t group, int64_t index) const {
  const auto reached = [&](int64_t query) {
    return FirstReached(group, query) <= index && index * page_size_ < query;
  };
  const int64_t checkpoint = CeilDiv((index + 1) * page_size_, kCheckpoint) * kCheckpoint;
  return reached(checkpoint) || std::any_of(seq.marks.begin(), seq.marks.end(), reached);
}

void KvPages::Slide(SeqPages& seq, int64_t next) {
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (groups_[g].window == 0) continue;
    const int64_t keep_from = std::min(FirstReached(g, next), seq.covered);
    for (int64_t i = seq.covered - seq.held[g]; i < keep_from; ++i) {
      Give(seq, g, i, IsWarm(seq, g, i));
      seq.tables[g][i] = kNoPage;
      --seq.held[g];
    }
  }
}

void KvPages::Release(SeqPages& seq) {
  for (size_t g = 0; seq.part != nullptr && g < pools_.size(); ++g)
    tree_.Unuse(seq.part, g, /*warm=*/true);
  seq.part = nullptr;
  for (size_t g = 0; g < pools_.size(); ++g) {
    // From the end, so that a page is never older than those that follow from it.
    for (int64_t i = seq.covered - 1; i >= seq.covered - seq.held[g]; --i)
      Give(seq, g, i, /*warm=*/true);
    seq.tables[g].clear();
    seq.held[g] = 0;
  }
  seq.covered = 0;
  seq.nodes.clear();
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
