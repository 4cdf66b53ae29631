#include "cache/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/prefix_node.h"

namespace rose {

bool PrefixTree::Before::operator()(std::span<const int32_t> a, std::span<const int32_t> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixTree::PrefixTree(std::span<const PageGroup> groups, int64_t page_size,
                       std::vector<PagePool>& pools)
    : groups_(groups), page_size_(page_size), pools_(pools) {
  for (const PageGroup& group : groups_) {
    host_pools_.emplace_back(group.host_pages);
    device_.emplace_back(group.pages);
    host_.emplace_back(group.host_pages);
  }
}

PrefixTree::~PrefixTree() = default;

namespace {

int64_t CommonLength(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

// Whether a sliding group has the pages that a query at position `end` reaches below it.
bool PrefixTree::Reaches(const std::vector<Node*>& path, int64_t group, int64_t end) const {
  const int64_t first = std::max<int64_t>(0, end - groups_[group].window + 1);
  for (int64_t i = (end - 1) / page_size_; i >= 0 && (i + 1) * page_size_ > first; --i) {
    if (path[i]->slots[group].empty()) return false;
  }
  return true;
}

bool PrefixTree::ReachesAll(const std::vector<Node*>& path, int64_t end) const {
  for (int64_t g = 0; g < std::ssize(groups_); ++g) {
    // No node is without its page of a full group.
    if (end > 0 && groups_[g].window > 0 && !Reaches(path, g, end)) return false;
  }
  return true;
}

PrefixTree::Match PrefixTree::Find(std::string_view salt, std::span<const int32_t> tokens) const {
  Match match;
  const auto root = roots_.find(salt);
  if (root == roots_.end()) return match;
  std::vector<Node*>& path = match.path;
  const Node* at = root->second.get();
  std::span<const int32_t> rest = tokens;
  while (static_cast<int64_t>(rest.size()) >= page_size_) {
    const auto child = at->children.find(rest.first(page_size_));
    if (child == at->children.end()) break;
    path.push_back(child->second.get());
    at = path.back();
    rest = rest.subspan(page_size_);
  }
  // The child that shares most with what is left is beside the place where it would stand.
  auto next = at->children.lower_bound(rest);
  if (next != at->children.end()) {
    match.part_tokens = CommonLength(rest, next->first);
    match.part = next->second.get();
  }
  if (next != at->children.begin()) {
    --next;
    const int64_t common = CommonLength(rest, next->first);
    if (common > match.part_tokens) match.part_tokens = common, match.part = next->second.get();
  }
  match.seen = static_cast<int64_t>(path.size()) * page_size_ + match.part_tokens;

  if (match.part_tokens > 0) {
    path.push_back(match.part);
    const bool whole = ReachesAll(path, match.seen);
    path.pop_back();
    if (whole) return match;
  }
  DropPart(match);
  return match;
}

void PrefixTree::DropPart(Match& match) const {
  match.part = nullptr;
  match.part_tokens = 0;
  // Inside a page nothing is right that is not so at one of its ends.
  std::vector<Node*>& path = match.path;
  while (!ReachesAll(path, std::ssize(path) * page_size_)) path.pop_back();
}

PrefixTree::Node* PrefixTree::AddChild(Node* parent, std::span<const int32_t> tokens) {
  if (spare_.empty()) {
    Children made;
    made.emplace(tokens, std::make_unique<Node>());
    spare_.push_back(made.extract(made.begin()));
  }
  Children::node_type entry = std::move(spare_.back());
  spare_.pop_back();
  Node* node = entry.mapped().get();
  node->parent = parent;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->slots.resize(groups_.size());
  entry.key() = node->tokens;
  parent->children.insert(std::move(entry));
  ++nodes_;
  return node;
}

PrefixTree::Node* PrefixTree::PublishFirst(std::string_view salt, std::span<const int32_t> tokens,
                                           std::span<int32_t> pages) {
  auto at = roots_.find(salt);
  if (at == roots_.end()) {
    at = roots_.emplace(salt, std::make_unique<Node>()).first;
    at->second->salt = salt;
  }
  return Publish(at->second.get(), tokens, pages);
}

PrefixTree::Node* PrefixTree::Publish(Node* parent, std::span<const int32_t> tokens,
                                      std::span<int32_t> pages) {
  ROSE_CHECK_EQ(static_cast<int64_t>(tokens.size()), page_size_);
  const auto at = parent->children.find(tokens);
  Node* node = at == parent->children.end() ? AddChild(parent, tokens) : at->second.get();
  for (int64_t g = 0; g < static_cast<int64_t>(groups_.size()); ++g) {
    Node::Slot& slot = node->slots[g];
    if (pages[g] == kNoPage || pages[g] == slot.page) continue;
    if (slot.page != kNoPage) {
      const int32_t own = std::exchange(pages[g], Use(node, g));
      pools_[g].Give(own);
      continue;
    }
    SetPage(node, g, pages[g]);
  }
  return node;
}

int32_t PrefixTree::PageOf(const Node* node, int64_t group) {
  return node->slots[group].page;
}

int32_t PrefixTree::HostPageOf(const Node* node, int64_t group) {
  return node->slots[group].host;
}

int32_t PrefixTree::Use(Node* node, int64_t group) {
  const int32_t page = node->slots[group].page;
  ROSE_CHECK(page != kNoPage, "group ", group, " has no page here");
  pools_[group].Share(page);
  device_[group].order.Put(page, PageOrder::kUsed);
  return page;
}

void PrefixTree::Unuse(Node* node, int64_t group, bool warm) {
  const int32_t page = node->slots[group].page;
  pools_[group].Give(page);
  if (pools_[group].owners(page) > 1) return;
  device_[group].order.Put(page, warm ? PageOrder::kWarm : PageOrder::kCold);
}

void PrefixTree::SetPage(Node* node, int64_t group, int32_t page) {
  Node::Slot& slot = node->slots[group];
  ROSE_CHECK_EQ(slot.page, kNoPage);
  slot.page = page;
  pools_[group].Share(page);
  device_[group].nodes[page] = node;
  device_[group].order.Put(page, PageOrder::kUsed);
  if (slot.host != kNoPage) OrderHost(group, slot.host);
}

int32_t PrefixTree::PinHost(Node* node, int64_t group) {
  const int32_t page = node->slots[group].host;
  ROSE_CHECK(page != kNoPage, "group ", group, " has no copy here");
  host_pools_[group].Share(page);
  OrderHost(group, page);
  return page;
}

void PrefixTree::UnpinHost(int64_t group, int32_t page) {
  host_pools_[group].Give(page);
  OrderHost(group, page);
}

}  // namespace rose
