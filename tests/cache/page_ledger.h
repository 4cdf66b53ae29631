// PageLedger: KvPages driven as the engine drives it, against a ledger of what every page of both
// tiers holds: a slot's entry is a hash of all tokens up to its position, so a page that is wrong
// in any way is seen by who reads it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/kv_pages.h"

namespace rose {

using Tokens = std::vector<int32_t>;

class PageLedger {
 public:
  static constexpr int64_t kPage = 64;

  explicit PageLedger(std::vector<PageGroup> groups) : kv(groups, kPage, /*prefix_cache=*/true) {
    for (const PageGroup& group : groups) {
      slots_.emplace_back(group.pages * kPage);
      host_slots_.emplace_back(group.host_pages * kPage);
    }
  }

  struct Seq {
    Tokens tokens;
    SeqPages pages;
    std::string salt;
    int64_t computed = 0;
    std::vector<uint64_t> hashes = {};  // by position: of salt and all tokens up to it
  };
  struct Extension {
    Seq* seq;
    int64_t end;
  };

  // One step: computes what is to be extended, and lets as many of `fresh` begin as fit, in order;
  // returns how many. All are looked up before any begins, and all reuse before any takes a page.
  int64_t Step(const std::vector<Extension>& extended, const std::vector<Seq*>& fresh) {
    std::vector<int64_t> left;
    for (size_t g = 0; g < slots_.size(); ++g) {
      left.push_back(kv.available(g));
      for (const auto& [seq, end] : extended) left[g] -= PagesFor(*seq, end);
    }
    std::vector<PrefixTree::Match> matches;
    for (Seq* seq : fresh) {
      const auto match = kv.Find(seq->salt, std::span(seq->tokens).first(seq->tokens.size() - 1));
      bool fits = true;
      for (size_t g = 0; g < slots_.size(); ++g) fits &= kv.ReuseCost(match, g) + 1 <= left[g];
      if (!fits) break;
      for (size_t g = 0; g < slots_.size(); ++g) left[g] -= kv.ReuseCost(match, g) + 1;
      matches.push_back(match);
    }
    for (size_t i = 0; i < matches.size(); ++i) Begin(*fresh[i], matches[i]);
    for (const auto& [seq, end] : extended) kv.Cover(seq->pages, end);
    for (size_t i = 0; i < matches.size(); ++i) {
      kv.Cover(fresh[i]->pages, fresh[i]->computed + 1);
      for (const int64_t held : fresh[i]->pages.held) EXPECT_LE(held, fresh[i]->pages.covered);
    }
    kv.TakeCopies(copies);
    Copy();
    for (const auto& [seq, end] : extended) Write(*seq, end);
    for (const auto& [seq, end] : extended) {
      for (int64_t p = seq->computed; p < end; ++p) Read(*seq, p);
      seq->computed = end;
      kv.Publish(seq->pages, seq->salt, std::span(seq->tokens).first(end));
      kv.Slide(seq->pages, end);
    }
    return std::ssize(matches);
  }

  // False if there is no room.
  bool Start(Seq& seq) { return Step({}, {&seq}) == 1; }
  void Compute(Seq& seq, int64_t end) { Step({{&seq, end}}, {}); }

  static int64_t PagesFor(const Seq& seq, int64_t end) {
    return std::max<int64_t>(0, (end + kPage - 1) / kPage - seq.pages.covered);
  }
  bool CanExtend(const Seq& seq, int64_t end) const {
    for (size_t g = 0; g < slots_.size(); ++g)
      if (PagesFor(seq, end) > kv.available(g)) return false;
    return true;
  }

  // Counts owners by hand: the sequences whose tables have a page, and at most one node. A node's
  // page is a whole page of some tokens, and no two nodes have the same.
  void CheckCounts(const std::vector<Seq>& seqs) const {
    int64_t used = 0;
    for (size_t g = 0; g < slots_.size(); ++g) {
      std::map<int32_t, int64_t> users;
      for (const Seq& seq : seqs)
        for (const int32_t page : seq.pages.tables[g])
          if (page != kNoPage) ++users[page];
      int64_t cached = 0, free = 0;
      std::set<uint64_t> kept;
      for (int32_t page = 0; page < kv.groups()[g].pages; ++page) {
        const int64_t own = users.contains(page) ? users.at(page) : 0;
        const int64_t nodes = kv.owners(g, page) - own;
        ASSERT_TRUE(nodes == 0 || nodes == 1) << "page " << page << " of group " << g;
        ASSERT_TRUE(own < 2 || nodes == 1) << "page " << page << " is shared, but no node's";
        free += own + nodes == 0;
        cached += own == 0 && nodes == 1;
        if (nodes == 0) continue;
        ASSERT_TRUE(kept.insert(slots_[g][page * kPage + kPage - 1]).second) << "kept twice";
      }
      ASSERT_EQ(free + cached, kv.available(g));
      ASSERT_EQ(std::ssize(users) + free + cached, kv.groups()[g].pages);
      used += std::ssize(users);
    }
    ASSERT_EQ(kv.used_pages(), used);
    ASSERT_LE(kv.host_pages_used(), kv.host_pages());
  }

  // Looks tokens up and reads every page of what is found, on whatever tier it is.
  void CheckFound(const std::string& salt, const Tokens& tokens) const {
    const auto match = kv.Find(salt, tokens);
    Seq seq{.tokens = tokens, .salt = salt};
    std::vector<PrefixTree::Node*> path = match.path;
    if (match.part != nullptr) path.push_back(match.part);
    for (size_t g = 0; g < slots_.size(); ++g) {
      const int64_t window = kv.groups()[g].window, end = match.tokens(kPage);
      for (int64_t i = 0; i < std::ssize(path); ++i) {
        const int32_t page = PrefixTree::PageOf(path[i], g);
        const int32_t host = PrefixTree::HostPageOf(path[i], g);
        const int64_t last = std::min((i + 1) * kPage, end) - 1;
        if (page != kNoPage) {
          ASSERT_EQ(slots_[g][page * kPage + last % kPage], HashOf(seq, last));
        }
        if (host != kNoPage) {
          ASSERT_EQ(host_slots_[g][host * kPage + last % kPage], HashOf(seq, last));
        }
        const bool reached = window == 0 || (i + 1) * kPage > end - window + 1;
        ASSERT_TRUE(!reached || page != kNoPage || host != kNoPage) << "page " << i << " is gone";
      }
    }
  }

  KvPages kv;
  PageCopies copies;  // of the last step

 private:
  void Begin(Seq& seq, const PrefixTree::Match& match) {
    std::vector<int64_t> before;
    for (size_t g = 0; g < slots_.size(); ++g)
      before.push_back(kv.available(g) - kv.ReuseCost(match, g));
    seq.pages = kv.NewSequence();
    seq.pages.marks[0] = static_cast<int64_t>(seq.tokens.size());
    seq.computed = kv.Reuse(seq.pages, match);
    // What several begin with is counted for each that comes before it is in use.
    for (size_t g = 0; g < slots_.size(); ++g) EXPECT_GE(kv.available(g), before[g]);
  }

  // Makes the copies, of one kind in any order: none may write what another reads or writes.
  void Copy() {
    using Pages = std::set<std::pair<int64_t, int32_t>>;
    Pages host, device;
    const auto add = [](Pages& to, int64_t group, int32_t page) {
      EXPECT_TRUE(to.insert({group, page}).second) << "page " << page << " is written to twice";
    };
    for (const PageCopy& copy : copies.to_host) add(host, copy.group, copy.to);
    for (const PageCopy& copy : copies.to_device) add(device, copy.group, copy.to);
    for (const PageCopy& copy : copies.within) add(device, copy.group, copy.to);
    for (const PageCopy& copy : copies.to_device)
      EXPECT_FALSE(host.contains({copy.group, copy.from})) << "read while it is rewritten";
    CopyAll(copies.to_host, slots_, host_slots_);
    CopyAll(copies.to_device, host_slots_, slots_);
    CopyAll(copies.within, slots_, slots_);
  }

  using Memory = std::vector<std::vector<uint64_t>>;  // [group][page * kPage + slot]

  static void CopyAll(const std::vector<PageCopy>& all, const Memory& from, Memory& to) {
    for (const PageCopy& copy : all)
      std::copy_n(&from[copy.group][copy.from * kPage], kPage, &to[copy.group][copy.to * kPage]);
  }

  static uint64_t HashOf(Seq& seq, int64_t position) {
    while (std::ssize(seq.hashes) <= position) {
      const uint64_t before =
          seq.hashes.empty() ? std::hash<std::string>()(seq.salt) : seq.hashes.back();
      seq.hashes.push_back((before ^ seq.tokens[seq.hashes.size()]) * 0x9e3779b97f4a7c15u + 1);
    }
    return seq.hashes[position];
  }

  void Write(Seq& seq, int64_t end) {
    for (int64_t p = seq.computed; p < end; ++p) {
      for (size_t g = 0; g < slots_.size(); ++g) {
        const int32_t page = seq.pages.tables[g][p / kPage];
        ASSERT_EQ(kv.owners(g, page), 1) << "a page with several owners is written to";
        slots_[g][page * kPage + p % kPage] = HashOf(seq, p);
      }
    }
  }

  // What the query at `query` reaches.
  void Read(Seq& seq, int64_t query) const {
    for (size_t g = 0; g < slots_.size(); ++g) {
      const int64_t window = kv.groups()[g].window;
      // All keys is slow; the ends and a few between find the same.
      const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, query - window + 1);
      for (int64_t key = query; key >= first; key -= (key % 29 == 0 ? 1 : 7)) {
        const int32_t page = seq.pages.tables[g][key / kPage];
        ASSERT_NE(page, kNoPage) << "query " << query << " key " << key;
        ASSERT_EQ(slots_[g][page * kPage + key % kPage], HashOf(seq, key))
            << "query " << query << " key " << key << " group " << g;
      }
    }
  }

  Memory slots_, host_slots_;
};

inline Tokens RandomTokens(std::mt19937_64& random, int64_t count) {
  Tokens out(count);
  for (int32_t& token : out) token = static_cast<int32_t>(random() % 3);
  return out;
}

}  // namespace rose
