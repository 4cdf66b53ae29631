// PrefixTree: computed pages that outlive their sequence, found again by their tokens.
//
// A node is one page of tokens behind its parent's; the path from the root is everything before it,
// so that a node's K and V follow from the path alone. A node owns its page of every group, beside
// the sequences that use it. What no sequence uses is evictable, least recently used first; for a
// full group that is from the leaves up, since who uses a node uses all above it. Trees of
// different salts share nothing.
//
// With a host tier, a page that is evicted is copied there, and found as before; to be used, it
// takes a page of the device again. The copy then stays for as long as nobody needs its memory, so
// that the next eviction costs nothing. When the host tier is full, copies go first of what the
// device has too, then what is nowhere else, from the leaves up. A node without its page of a full
// group on either tier is of no use, nor is what follows it, and goes with all its pages.
//
// Tokens are compared, never hashes: no two prompts are ever taken for each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/page_order.h"
#include "cache/page_pool.h"
#include "tensor/kv_layout.h"

namespace rose {

struct PageGroup {
  int64_t window = 0;      // keys a query reaches, itself included; 0 = all
  int64_t pages = 0;       // in the pool
  int64_t host_pages = 0;  // and in the host tier
};

class PrefixTree {
 public:
  struct Node;

  // `pools` by group, of the device; both outlive the tree.
  PrefixTree(std::span<const PageGroup> groups, int64_t page_size, std::vector<PagePool>& pools);
  ~PrefixTree();

  // The longest beginning of some tokens for which every group has what the next query reaches, on
  // either tier.
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
  };
  Match Find(std::string_view salt, std::span<const int32_t> tokens) const;
  // What is left of a match if only whole pages are taken.
  void DropPart(Match& match) const;

  // The node of one page of tokens behind `parent`, made if it is not there; the first of a salt
  // has no parent. pages[g] is the caller's page of group g, or kNoPage: a page that the node lacks
  // is shared from then on; where the node has one, the caller's is given back and pages[g] becomes
  // the node's.
  Node* PublishFirst(std::string_view salt, std::span<const int32_t> tokens,
                     std::span<int32_t> pages);
  Node* Publish(Node* parent, std::span<const int32_t> tokens, std::span<int32_t> pages);
  // The node's page of a group, or kNoPage; and its copy in the host tier.
  static int32_t PageOf(const Node* node, int64_t group);
  static int32_t HostPageOf(const Node* node, int64_t group);
  // One more user of the node's page; it must have one.
  int32_t Use(Node* node, int64_t group);
  // One user less. The last one says whether the page is worth more than those that are not warm:
  // these go first, and are not copied to the host tier.
  void Unuse(Node* node, int64_t group, bool warm);
  // The caller's page holds, or will before it is read, what the node's lost one held: they share
  // it from now on.
  void SetPage(Node* node, int64_t group, int32_t page);
  // Holds the node's copy in the host tier, which it must have, so that it stays as it is.
  int32_t PinHost(Node* node, int64_t group);
  void UnpinHost(int64_t group, int32_t page);

  // Pages that Evict can free, all in all.
  int64_t evictable(int64_t group) const { return device_[group].order.evictable(); }
  // Frees a page of the group; one must be evictable. Returns the copy to the host tier that must
  // be made before it is written to, if there is one; its target is pinned for the caller.
  std::optional<PageCopy> Evict(int64_t group);
  int64_t nodes() const { return nodes_; }
  int64_t host_pages() const;  // of all groups
  int64_t host_pages_used() const;

 private:
  // By their tokens, in order: neighbours share the longest beginnings.
  struct Before {
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const;
  };
  using Children = std::map<std::span<const int32_t>, std::unique_ptr<Node>, Before>;
  // The pages of one group on one tier. In the order are those that nodes own. On the host, a used
  // page is pinned, and a cold one is on the device too.
  struct Tier {
    explicit Tier(int64_t pages) : order(pages), nodes(pages, nullptr) {}

    PageOrder order;
    std::vector<Node*> nodes;  // [page] who owns it; null = no node
  };

  Node* AddChild(Node* parent, std::span<const int32_t> tokens);
  bool Reaches(const std::vector<Node*>& path, int64_t group, int64_t end) const;
  bool ReachesAll(const std::vector<Node*>& path, int64_t end) const;

  // prefix_evict.cc
  bool TakeHostPage(Node* node, int64_t group);
  bool EvictHost(int64_t group);
  void OrderHost(int64_t group, int32_t page);
  void DropPage(Node* node, int64_t group);
  void DropHostPage(Node* node, int64_t group);
  void DropLost(Node* node, int64_t group);
  void DropAll(Node* node);
  void RemoveChild(Node* parent, Children::iterator child);
  void Prune(Node* node);

  const std::span<const PageGroup> groups_;
  const int64_t page_size_;
  std::vector<PagePool>& pools_;
  std::vector<PagePool> host_pools_;  // owners of a page: its node, and who pins it
  std::vector<Tier> device_, host_;   // [group]
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
  int64_t nodes_ = 0;
  // Nodes that went, with all their memory, for those to come: a cache that is full allocates
  // nothing any more.
  std::vector<Children::node_type> spare_;
};

}  // namespace rose
