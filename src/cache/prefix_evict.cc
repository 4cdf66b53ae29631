// How pages leave a PrefixTree: from the device to the host tier, and from there for good.
#include <utility>

#include "base/check.h"
#include "cache/prefix_node.h"
#include "cache/prefix_tree.h"

namespace rose {
namespace {

int64_t Sum(const std::vector<PagePool>& pools, int64_t (PagePool::*figure)() const) {
  int64_t sum = 0;
  for (const PagePool& pool : pools) sum += (pool.*figure)();
  return sum;
}

}  // namespace

int64_t PrefixTree::host_pages() const {
  return Sum(host_pools_, &PagePool::total);
}

int64_t PrefixTree::host_pages_used() const {
  return Sum(host_pools_, &PagePool::used);
}

std::optional<PageCopy> PrefixTree::Evict(int64_t group) {
  Tier& device = device_[group];
  const int32_t page = device.order.Next();
  ROSE_CHECK(page != kNoPage, "group ", group, " has no page to free");
  Node* node = device.nodes[page];
  Node::Slot& slot = node->slots[group];
  std::optional<PageCopy> copy;
  if (slot.host == kNoPage && device.order.IsWarm(page) && TakeHostPage(node, group)) {
    copy = {.group = group, .from = page, .to = PinHost(node, group)};
  }
  DropPage(node, group);
  if (slot.host == kNoPage) {
    DropLost(node, group);
  } else {
    OrderHost(group, slot.host);
  }
  return copy;
}

// Gives the node a page of the host tier, if one can be had.
bool PrefixTree::TakeHostPage(Node* node, int64_t group) {
  if (host_pools_[group].free() == 0 && !EvictHost(group)) return false;
  const int32_t page = host_pools_[group].Take();
  node->slots[group].host = page;
  host_[group].nodes[page] = node;
  return true;
}

// Frees a page of the host tier; false if all are pinned. What is dropped with it follows it, and
// so is on the host alone too.
bool PrefixTree::EvictHost(int64_t group) {
  const int32_t page = host_[group].order.Next();
  if (page == kNoPage) return false;
  Node* node = host_[group].nodes[page];
  DropHostPage(node, group);
  if (node->slots[group].page == kNoPage) DropLost(node, group);
  return true;
}

// Puts a page of the host tier where it belongs in the order, as its class's newest.
void PrefixTree::OrderHost(int64_t group, int32_t page) {
  Tier& host = host_[group];
  const Node* node = host.nodes[page];
  const int64_t owners = host_pools_[group].owners(page);
  if (owners == 0) {
    host.order.Remove(page);
  } else if (owners > 1 || node == nullptr) {
    host.order.Put(page, PageOrder::kUsed);
  } else {
    const bool last = node->slots[group].page == kNoPage;
    host.order.Put(page, last ? PageOrder::kWarm : PageOrder::kCold);
  }
}

void PrefixTree::DropPage(Node* node, int64_t group) {
  const int32_t page = std::exchange(node->slots[group].page, kNoPage);
  if (page == kNoPage) return;
  ROSE_CHECK_EQ(pools_[group].owners(page), 1);
  pools_[group].Give(page);
  device_[group].nodes[page] = nullptr;
  device_[group].order.Remove(page);
}

// A copy that is pinned stays taken until it no longer is.
void PrefixTree::DropHostPage(Node* node, int64_t group) {
  const int32_t page = std::exchange(node->slots[group].host, kNoPage);
  if (page == kNoPage) return;
  host_[group].nodes[page] = nullptr;
  UnpinHost(group, page);
}

// The node has lost its page of the group on both tiers.
void PrefixTree::DropLost(Node* node, int64_t group) {
  if (groups_[group].window == 0) DropAll(node);
  Prune(node);
}

// Drops all pages of a node and what follows it.
void PrefixTree::DropAll(Node* node) {
  while (!node->children.empty()) {
    DropAll(node->children.begin()->second.get());
    RemoveChild(node, node->children.begin());
  }
  for (int64_t g = 0; g < std::ssize(groups_); ++g) {
    DropPage(node, g);
    DropHostPage(node, g);
  }
}

// It has no pages and no children.
void PrefixTree::RemoveChild(Node* parent, Children::iterator child) {
  spare_.push_back(parent->children.extract(child));
  --nodes_;
}

void PrefixTree::Prune(Node* node) {
  while (node->parent != nullptr && node->empty()) {
    Node* parent = node->parent;
    RemoveChild(parent, parent->children.find(node->tokens));
    node = parent;
  }
  if (node->parent == nullptr && node->children.empty()) roots_.erase(roots_.find(node->salt));
}

}  // namespace rose
