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
      tree_(groups_, page_size, pools_),
      absent_(groups_.size(), 0),
      published_(groups_.size()) {
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

void KvPages::Reserve(SeqPages& seq, int64_t tokens) const {
  const int64_t pages = tokens / page_size_ + 1;
  for (auto& table : seq.tables) table.reserve(pages);
  seq.nodes.reserve(pages);
}

int64_t KvPages::FirstReached(size_t group, int64_t query) const {
  const int64_t window = groups_[group].window;
  return window == 0 ? 0 : std::max<int64_t>(0, query - window + 1) / page_size_;
}

PrefixTree::Match KvPages::Find(std::string_view salt, std::span<const int32_t> tokens) const {
  PrefixTree::Match match;
  if (prefix_cache_) match = tree_.Find(salt, tokens);
  // The copy of a part needs its source and a page; where these are short, whole pages do.
  for (int64_t g = 0; g < std::ssize(groups_) && match.part != nullptr; ++g) {
    if (available(g) - ReuseCost(match, g) < 1) tree_.DropPart(match);
  }
  return match;
}

int64_t KvPages::ReuseCost(const PrefixTree::Match& match, int64_t group) const {
  // Whether its page is taken from those that can be had.
  const auto taken = [&](const PrefixTree::Node* node) {
    const int32_t page = PrefixTree::PageOf(node, group);
    return page == kNoPage || pools_[group].owners(page) == 1;
  };
  const auto whole = static_cast<int64_t>(match.path.size());
  // A part that is on the host is copied from there.
  int64_t cost = match.part != nullptr && PrefixTree::PageOf(match.part, group) != kNoPage &&
                 taken(match.part);
  for (int64_t i = whole - ReuseHeld(match, group); i < whole; ++i) cost += taken(match.path[i]);
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
  seq.next = match.tokens(page_size_);
  int64_t first_absent = seq.covered;
  for (size_t g = 0; g < groups_.size(); ++g) {
    seq.held[g] = ReuseHeld(match, g);
    seq.tables[g].assign(seq.covered, kNoPage);
    for (int64_t i = seq.covered - seq.held[g]; i < seq.covered; ++i) {
      if (PrefixTree::PageOf(match.path[i], g) != kNoPage) {
        seq.tables[g][i] = tree_.Use(match.path[i], g);
      } else {
        tree_.PinHost(match.path[i], g);
        ++absent_[g];
        ++seq.absent;
        first_absent = std::min(first_absent, i);
      }
    }
  }
  bool absent = first_absent < seq.covered;
  if (seq.part != nullptr) {
    seq.part_pages.assign(groups_.size(), kNoPage);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (PrefixTree::PageOf(seq.part, g) != kNoPage) {
        seq.part_pages[g] = tree_.Use(seq.part, g);
      } else {
        tree_.PinHost(seq.part, g);
        absent = true;
      }
    }
  }
  if (absent) seq.host_tokens = match.tokens(page_size_) - first_absent * page_size_;
  return match.tokens(page_size_);
}

// Takes pages for what a sequence reused and is on the host. All that others of the same step reuse
// is in use or pinned by now, so what is evicted for it is nobody's.
void KvPages::BringIn(SeqPages& seq) {
  for (size_t g = 0; seq.absent > 0 && g < groups_.size(); ++g) {
    for (int64_t i = seq.covered - seq.held[g]; i < seq.covered; ++i) {
      int32_t& page = seq.tables[g][i];
      if (page != kNoPage) continue;
      --absent_[g];
      --seq.absent;
      const int32_t host = PrefixTree::HostPageOf(seq.nodes[i], g);
      if (PrefixTree::PageOf(seq.nodes[i], g) != kNoPage) {  // another brought it in
        page = tree_.Use(seq.nodes[i], g);
        tree_.UnpinHost(g, host);
        continue;
      }
      page = Take(g);
      tree_.SetPage(seq.nodes[i], g, page);
      copies_.to_device.push_back({.group = static_cast<int64_t>(g), .from = host, .to = page});
      host_pins_.push_back({g, host});
    }
  }
}

void KvPages::CopyPart(SeqPages& seq) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    PageCopy copy = {.group = static_cast<int64_t>(g),
                     .from = seq.part_pages[g],
                     .to = seq.tables[g][seq.nodes.size()]};
    if (copy.from != kNoPage) {
      copies_.within.push_back(copy);
      sources_.emplace_back(seq.part, g);
    } else {
      copy.from = PrefixTree::HostPageOf(seq.part, g);
      copies_.to_device.push_back(copy);
      host_pins_.push_back({g, copy.from});
    }
  }
  seq.part = nullptr;
}

void KvPages::TakeCopies(PageCopies& copies) {
  swapped_out_ += std::ssize(copies_.to_host);
  swapped_in_ += std::ssize(copies_.to_device);
  copies.clear();
  std::swap(copies, copies_);
  for (const auto& [node, group] : sources_) tree_.Unuse(node, group, /*warm=*/true);
  for (const Pin& pin : host_pins_) tree_.UnpinHost(pin.group, pin.page);
  sources_.clear();
  host_pins_.clear();
}

int32_t KvPages::Take(size_t group) {
  if (pools_[group].free() == 0) {
    if (const auto copy = tree_.Evict(group)) {
      copies_.to_host.push_back(*copy);
      host_pins_.push_back({group, copy->to});
    }
  }
  return pools_[group].Take();
}

void KvPages::Cover(SeqPages& seq, int64_t end) {
  BringIn(seq);
  const int64_t wanted = CeilDiv(end, page_size_);
  if (wanted > seq.covered) GiveUnreached(seq, seq.next);
  for (; seq.covered < wanted; ++seq.covered) {
    for (size_t g = 0; g < pools_.size(); ++g) {
      seq.tables[g].push_back(Take(g));
      ++seq.held[g];
    }
  }
  if (seq.part != nullptr) CopyPart(seq);
}

void KvPages::Publish(SeqPages& seq, std::string_view salt, std::span<const int32_t> tokens) {
  const int64_t whole = std::ssize(tokens) / page_size_;
  auto i = std::ssize(seq.nodes);
  if (!prefix_cache_ || i >= whole) return;
  for (; i < whole; ++i) {
    for (size_t g = 0; g < groups_.size(); ++g) published_[g] = seq.tables[g][i];
    const auto block = tokens.subspan(i * page_size_, page_size_);
    seq.nodes.push_back(i == 0 ? tree_.PublishFirst(salt, block, published_)
                               : tree_.Publish(seq.nodes.back(), block, published_));
    for (size_t g = 0; g < groups_.size(); ++g) seq.tables[g][i] = published_[g];
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
  seq.next = next;
  GiveUnreached(seq, prefix_cache_ ? std::ssize(seq.nodes) * page_size_ : next);
}

// Gives back what a query at `query` and all behind it do not reach.
void KvPages::GiveUnreached(SeqPages& seq, int64_t query) {
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (groups_[g].window == 0) continue;
    const int64_t keep_from = std::min(FirstReached(g, query), seq.covered);
    for (int64_t i = seq.covered - seq.held[g]; i < keep_from; ++i) {
      Give(seq, g, i, IsWarm(seq, g, i));
      seq.tables[g][i] = kNoPage;
      --seq.held[g];
    }
  }
}

void KvPages::Release(SeqPages& seq) {
  for (size_t g = 0; seq.part != nullptr && g < pools_.size(); ++g) {
    if (seq.part_pages[g] != kNoPage) {
      tree_.Unuse(seq.part, g, /*warm=*/true);
    } else {
      tree_.UnpinHost(g, PrefixTree::HostPageOf(seq.part, g));
    }
  }
  seq.part = nullptr;
  for (size_t g = 0; g < pools_.size(); ++g) {
    // From the end, so that a page is never older than those that follow from it.
    for (int64_t i = seq.covered - 1; i >= seq.covered - seq.held[g]; --i) {
      if (seq.tables[g][i] != kNoPage) {
        Give(seq, g, i, /*warm=*/true);
      } else {
        tree_.UnpinHost(g, PrefixTree::HostPageOf(seq.nodes[i], g));
        --absent_[g];
      }
    }
    seq.tables[g].clear();
    seq.held[g] = 0;
  }
  seq.covered = seq.absent = seq.host_tokens = seq.next = 0;
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
