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
//
// With a host tier (PageGroup::host_pages), a page whose memory is wanted is copied there first. A
// preempted sequence is no special case: its pages are cached ones, and come back when it is
// admitted again, so that preemption is swapping as far as the host tier has room.
//
// Steps run in the order in which they are planned. So a page may be written to by a later step as
// soon as the copies that read it are part of an earlier plan (TakeCopies).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
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
  std::vector<int32_t> part_pages;   // [group] of it; kNoPage: only the host tier has it
  // Pages that it holds and that are only on the host until the first Cover; their entries in
  // `tables` are kNoPage till then.
  int64_t absent = 0;
  int64_t host_tokens = 0;  // of what it reused, those from the first page on that was absent
  int64_t next = 0;         // the position of its next query, as far as told
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
  // Pages that can be had: free ones, and cached ones that nobody uses, less those that will be
  // taken for what was reused and is on the host.
  int64_t available(int64_t group) const {
    return pools_[group].free() + tree_.evictable(group) - absent_[group];
  }
  int64_t owners(int64_t group, int32_t page) const { return pools_[group].owners(page); }
  int64_t total_pages() const;
  int64_t used_pages() const;    // by sequences
  int64_t cached_pages() const;  // by nobody, but kept
  int64_t host_pages() const { return tree_.host_pages(); }
  int64_t host_pages_used() const { return tree_.host_pages_used(); }
  // Pages copied to the host tier and back, since start.
  int64_t swapped_out() const { return swapped_out_; }
  int64_t swapped_in() const { return swapped_in_; }

  SeqPages NewSequence() const;
  // Makes room in its tables for `tokens` positions, so that they need not grow.
  void Reserve(SeqPages& seq, int64_t tokens) const;
  // What of `tokens` is cached. At least one token of a prompt must be left to compute.
  PrefixTree::Match Find(std::string_view salt, std::span<const int32_t> tokens) const;
  // Pages of a group that Reuse would make unavailable (of those on the host, one each), and those
  // that the sequence would hold.
  int64_t ReuseCost(const PrefixTree::Match& match, int64_t group) const;
  int64_t ReuseHeld(const PrefixTree::Match& match, int64_t group) const;
  // Lets a new sequence begin with what was found, before any Cover since. Returns the tokens that
  // need not be computed. Its first Cover makes them readable.
  int64_t Reuse(SeqPages& seq, const PrefixTree::Match& match);

  // Makes positions [0, end) addressable: takes a page of every group for every page of positions
  // that is missing. There must be room. The first Cover after Reuse brings in what is on the host.
  void Cover(SeqPages& seq, int64_t end);
  // The copies that must be made before the step is computed for which Cover was called since the
  // last time. What they read may from now on be written to by later steps.
  void TakeCopies(PageCopies& copies);
  // Tells that K and V of `tokens` are computed, the sequence's first ones.
  void Publish(SeqPages& seq, std::string_view salt, std::span<const int32_t> tokens);
  // Tells that the next query is at position `next` or later: sliding groups give back what it
  // cannot reach (a query at p reaches keys p - window + 1 .. p). With the prefix cache they hold
  // what a query behind the last published page reaches until a Cover takes the next page: that is
  // where a sequence goes on that is preempted.
  void Slide(SeqPages& seq, int64_t next);
  // Gives everything back; the sequence is then as new.
  void Release(SeqPages& seq);

 private:
  struct Pin {
    size_t group;
    int32_t page;
  };

  int32_t Take(size_t group);
  void BringIn(SeqPages& seq);
  void CopyPart(SeqPages& seq);
  void GiveUnreached(SeqPages& seq, int64_t query);
  void Give(SeqPages& seq, size_t group, int64_t index, bool warm);
  bool IsWarm(const SeqPages& seq, size_t group, int64_t index) const;
  int64_t FirstReached(size_t group, int64_t query) const;

  std::vector<PageGroup> groups_;
  int64_t page_size_;
  bool prefix_cache_;
  std::vector<PagePool> pools_;  // [group]
  PrefixTree tree_;
  std::vector<int64_t> absent_;     // [group] pages that sequences will take at their first Cover
  std::vector<int32_t> published_;  // [group] scratch of Publish
  // Of the step being planned: its copies, and what they read or write and nobody may take.
  PageCopies copies_;
  std::vector<Pin> host_pins_;
  std::vector<std::pair<PrefixTree::Node*, size_t>> sources_;  // of copies within the device
  int64_t swapped_out_ = 0, swapped_in_ = 0;
};

// Most pages of a group that a sequence of `tokens` positions, computed in chunks of at most
// `chunk`, holds at any time.
int64_t PeakPages(const PageGroup& group, int64_t page_size, int64_t tokens, int64_t chunk);

}  // namespace rose
