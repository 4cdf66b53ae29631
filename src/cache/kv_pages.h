// KvPages: the page pools of all KV groups, the page tables of sequences, and what is kept of them
// for others. Indices only.
//
// Layers of one group keep the same positions and share a page table. All groups of a sequence
// cover the same positions, so their tables have the same length; a sliding group (window > 0)
// gives pages back as soon as no future query can reach them, and its table then holds kNoPage
// there.
//
// With the prefix cache, a page of tokens is published once it is computed: other sequences that
// begin with the same tokens use it too, and it stays when its sequence ends, until its memory is
// wanted. A page with several owners is never written to.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "tensor/kv_layout.h"

namespace rose {

// The page tables of one sequence. Filled and emptied by KvPages only.
struct SeqPages {
  std::vector<std::vector<int32_t>> tables;  // [group][position / page_size]
  std::vector<int64_t> held;                 // [group] pages it holds: the tail of the table
  int64_t covered = 0;                       // length of every table
  // Of its first pages, those that are published or were reused.
  std::vector<PrefixTree::Node*> nodes;
  PrefixTree::Node* part = nullptr;  // the page behind them begins with a copy of this one's
  // Positions at which others will likely part from it: there, pages of sliding groups are worth
  // keeping longest.
  std::array<int64_t, 2> marks{};
};

class KvPages {
 public:
  // Sliding groups also keep what a query at every multiple of this many tokens reaches.
  static constexpr int64_t kCheckpoint = 1024;

  KvPages(std::vector<PageGroup> groups, int64_t page_size, bool prefix_cache = false);

  int64_t page_size() const { return page_size_; }
  std::span<const PageGroup> groups() const { return groups_; }
  // Pages that can be had: free ones, and cached ones that nobody uses.
  int64_t available(int64_t group) const { return pools_[group].free() + tree_.evictable(group); }
  int64_t owners(int64_t group, int32_t page) const { return pools_[group].owners(page); }
  int64_t total_pages() const;
  int64_t used_pages() const;    // by sequences
  int64_t cached_pages() const;  // by nobody, but kept

  SeqPages NewSequence() const;
  // What of `tokens` is cached. At least one token of a prompt must be left to compute.
  PrefixTree::Match Find(std::string_view salt, std::span<const int32_t> tokens) const {
    return prefix_cache_ ? tree_.Find(salt, tokens) : PrefixTree::Match();
  }
  // Pages of a group that Reuse would make unavailable, and those that the sequence would hold.
  int64_t ReuseCost(const PrefixTree::Match& match, int64_t group) const;
  int64_t ReuseHeld(const PrefixTree::Match& match, int64_t group) const;
  // Lets a new sequence begin with what was found, before any Cover since. Returns the tokens that
  // need not be computed.
  int64_t Reuse(SeqPages& seq, const PrefixTree::Match& match);
  // After the sequence's first Cover: appends the copies that must be made before it computes.
  // Their sources stay as they are until Copied.
  void AddCopies(SeqPages& seq, std::vector<PageCopy>& copies);
  // All copies are made.
  void Copied();

  // Makes positions [0, end) addressable: takes a page of every group for every page of positions
  // that is missing. There must be room.
  void Cover(SeqPages& seq, int64_t end);
  // Tells that K and V of `tokens` are computed, the sequence's first ones.
  void Publish(SeqPages& seq, std::string_view salt, std::span<const int32_t> tokens);
  // Tells that the next query is at position `next` or later: sliding groups give back what it
  // cannot reach (a query at p reaches keys p - window + 1 .. p).
  void Slide(SeqPages& seq, int64_t next);
  // Gives everything back; the sequence is then as new.
  void Release(SeqPages& seq);

 private:
  int32_t Take(size_t group);
  void Give(SeqPages& seq, size_t group, int64_t index, bool warm);
  bool IsWarm(const SeqPages& seq, size_t group, int64_t index) const;
  int64_t FirstReached(size_t group, int64_t query) const;

  std::vector<PageGroup> groups_;
  int64_t page_size_;
  bool prefix_cache_;
  std::vector<PagePool> pools_;  // [group]
  PrefixTree tree_;
  std::vector<PrefixTree::Node*> sources_;  // of copies to be made
};

// Most pages of a group that a sequence of `tokens` positions, computed in chunks of at most
// `chunk`, holds at any time.
int64_t PeakPages(const PageGroup& group, int64_t page_size, int64_t tokens, int64_t chunk);

}  // namespace rose
