// PrefixTree: computed pages that outlive their sequence, found again by their tokens.
//
// A node is one page of tokens behind its parent's; the path from the root is everything before it,
// so that a node's K and V follow from the path alone. A node owns its page of every group, beside
// the sequences that use it. What no sequence uses is evictable: a node goes with its page of a
// full group, oldest first, and from the leaves up, since who uses a node uses all above it; pages
// of sliding groups go one by one. Trees of different salts share nothing.
//
// Tokens are compared, never hashes: no two prompts are ever taken for each other.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/page_pool.h"

namespace rose {

inline constexpr int32_t kNoPage = -1;

struct PageGroup {
  int64_t window = 0;  // keys a query reaches, itself included; 0 = all
  int64_t pages = 0;   // in the pool
};

class PrefixTree {
 public:
  struct Node;

  // `pools` by group; both outlive the tree.
  PrefixTree(std::span<const PageGroup> groups, int64_t page_size, std::vector<PagePool>& pools);
  ~PrefixTree();

  // The longest beginning of some tokens for which every group has what the next query reaches.
  struct Match {
    std::vector<Node*> path;  // whole pages
    Node* part = nullptr;     // and of this page
    int64_t part_tokens = 0;  // its first tokens; the page must be copied before it is written to
    // Tokens that were computed for this beginning once, whatever is still there: where the state
    // of sliding groups would have been of use.
    int64_t seen = 0;

    int64_t tokens(int64_t page_size) const {
      return static_cast<int64_t>(path.size()) * page_size + part_tokens;
    }
    void DropPart() { part = nullptr, part_tokens = 0; }
  };
  Match Find(std::string_view salt, std::span<const int32_t> tokens) const;

  // The node of one page of tokens behind `parent`, made if it is not there; the first of a salt
  // has no parent. pages[g] is the caller's page of group g, or kNoPage: a page that the node lacks
  // is shared from then on; where the node has one, the caller's is given back and pages[g] becomes
  // the node's.
  Node* PublishFirst(std::string_view salt, std::span<const int32_t> tokens,
                     std::span<int32_t> pages);
  Node* Publish(Node* parent, std::span<const int32_t> tokens, std::span<int32_t> pages);
  // The node's page of a group, or kNoPage.
  static int32_t PageOf(const Node* node, int64_t group);
  // One more user of the node's page; it must have one.
  int32_t Use(Node* node, int64_t group);
  // One user less. The last one says whether the page is worth more than those that are not warm,
  // which go first.
  void Unuse(Node* node, int64_t group, bool warm);

  // Pages that Evict can free, all in all.
  int64_t evictable(int64_t group) const;
  // Frees a page of the group; one must be evictable.
  void Evict(int64_t group);
  int64_t nodes() const { return nodes_; }

 private:
  struct Entry;
  using Entries = std::list<Entry>;
  // By group: pages in use, and those that may go, least recently used last.
  struct Lists {
    Entries used, cold, warm;
  };

  bool Reaches(const std::vector<Node*>& path, int64_t group, int64_t end) const;
  void DropPage(Node* node, int64_t group);
  void Prune(Node* node);

  const std::span<const PageGroup> groups_;
  const int64_t page_size_;
  std::vector<PagePool>& pools_;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
  std::vector<Lists> lists_;
  int64_t nodes_ = 0;
};

}  // namespace rose
