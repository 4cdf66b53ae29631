// KvPages: the page pools of all KV groups, and the page tables of sequences. Indices only.
//
// Layers of one group keep the same positions and share a page table. All groups of a sequence
// cover the same positions, so their tables have the same length; a sliding group (window > 0)
// gives pages back as soon as no future query can reach them, and its table then holds kNoPage
// there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/page_pool.h"

namespace rose {

inline constexpr int32_t kNoPage = -1;

struct PageGroup {
  int64_t window = 0;  // keys a query reaches, itself included; 0 = all
  int64_t pages = 0;   // in the pool
};

// The page tables of one sequence. Filled and emptied by KvPages only.
struct SeqPages {
  std::vector<std::vector<int32_t>> tables;  // [group][position / page_size]
  std::vector<int64_t> held;                 // [group] pages it holds: the tail of the table
  int64_t covered = 0;                       // length of every table
};

class KvPages {
 public:
  KvPages(std::vector<PageGroup> groups, int64_t page_size);

  int64_t page_size() const { return page_size_; }
  std::span<const PageGroup> groups() const { return groups_; }
  int64_t free(int64_t group) const { return pools_[group].free(); }
  int64_t total_pages() const;
  int64_t used_pages() const;

  SeqPages NewSequence() const;
  // Makes positions [0, end) addressable: takes a page of every group for every page of positions
  // that is missing. There must be room.
  void Cover(SeqPages& seq, int64_t end);
  // Tells that the next query is at position `next` or later: sliding groups give back what it
  // cannot reach (a query at p reaches keys p - window + 1 .. p).
  void Slide(SeqPages& seq, int64_t next);
  // Gives everything back; the sequence is then as new.
  void Release(SeqPages& seq);

 private:
  std::vector<PageGroup> groups_;
  int64_t page_size_;
  std::vector<PagePool> pools_;  // [group]
};

// Most pages of a group that a sequence of `tokens` positions, computed in chunks of at most
// `chunk`, holds at any time.
int64_t PeakPages(const PageGroup& group, int64_t page_size, int64_t tokens, int64_t chunk);

}  // namespace rose
