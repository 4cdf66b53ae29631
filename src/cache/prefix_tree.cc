#include "cache/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rose {

struct PrefixTree::Entry {
  Node* node;
  int64_t group;
};

struct PrefixTree::Node {
  struct Before {
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
    }
  };
  struct Slot {
    int32_t page = kNoPage;
    Entries::iterator entry;  // in one of its group's lists, while there is a page
    Entries* list = nullptr;  // which
  };

  Node* parent = nullptr;
  std::string salt;             // of a root
  std::vector<int32_t> tokens;  // of its page; a root has none
  // In the order of their tokens: neighbours share the longest beginnings.
  std::map<std::span<const int32_t>, std::unique_ptr<Node>, Before> children;
  std::vector<Slot> slots;  // [group]

  bool empty() const {
    return children.empty() && std::all_of(slots.begin(), slots.end(),
                                           [](const Slot& slot) { return slot.page == kNoPage; });
  }
};

PrefixTree::PrefixTree(std::span<const PageGroup> groups, int64_t page_size,
                       std::vector<PagePool>& pools)
    : groups_(groups), page_size_(page_size), pools_(pools), lists_(groups.size()) {}

PrefixTree::~PrefixTree() = default;

namespace {

int64_t CommonLength(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

// Whether the group has the pages that a query at position `end` reaches below it.
bool PrefixTree::Reaches(const std::vector<Node*>& path, int64_t group, int64_t end) const {
  const int64_t window = groups_[group].window;
  const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, end - window + 1);
  for (int64_t i = (end - 1) / page_size_; i >= 0 && (i + 1) * page_size_ > first; --i) {
    if (PageOf(path[i], group) == kNoPage) return false;
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

  const auto right = [&](int64_t end) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (end > 0 && !Reaches(path, static_cast<int64_t>(g), end)) return false;
    }
    return true;
  };
  if (match.part_tokens > 0) {
    path.push_back(match.part);
    const bool whole = right(match.seen);
    path.pop_back();
    if (whole) return match;
  }
  match.DropPart();
  // Inside a page nothing is right that is not so at one of its ends.
  while (!right(static_cast<int64_t>(path.size()) * page_size_)) path.pop_back();
  return match;
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
  auto at = parent->children.find(tokens);
  if (at == parent->children.end()) {
    auto made = std::make_unique<Node>();
    made->parent = parent;
    made->tokens.assign(tokens.begin(), tokens.end());
    made->slots.resize(groups_.size());
    const std::span<const int32_t> key = made->tokens;
    at = parent->children.emplace(key, std::move(made)).first;
    ++nodes_;
  }
  Node* node = at->second.get();
  for (int64_t g = 0; g < static_cast<int64_t>(groups_.size()); ++g) {
    Node::Slot& slot = node->slots[g];
    if (pages[g] == kNoPage || pages[g] == slot.page) continue;
    if (slot.page != kNoPage) {
      const int32_t own = std::exchange(pages[g], Use(node, g));
      pools_[g].Give(own);
      continue;
    }
    slot.page = pages[g];
    pools_[g].Share(slot.page);
    slot.list = &lists_[g].used;
    slot.list->push_front({node, g});
    slot.entry = slot.list->begin();
  }
  return node;
}

int32_t PrefixTree::PageOf(const Node* node, int64_t group) {
  return node->slots[group].page;
}

int32_t PrefixTree::Use(Node* node, int64_t group) {
  Node::Slot& slot = node->slots[group];
  ROSE_CHECK(slot.page != kNoPage, "group ", group, " has no page here");
  pools_[group].Share(slot.page);
  lists_[group].used.splice(lists_[group].used.begin(), *slot.list, slot.entry);
  slot.list = &lists_[group].used;
  return slot.page;
}

void PrefixTree::Unuse(Node* node, int64_t group, bool warm) {
  Node::Slot& slot = node->slots[group];
  pools_[group].Give(slot.page);
  if (pools_[group].owners(slot.page) > 1) return;
  Entries& list = warm ? lists_[group].warm : lists_[group].cold;
  list.splice(list.begin(), *slot.list, slot.entry);
  slot.list = &list;
}

int64_t PrefixTree::evictable(int64_t group) const {
  return static_cast<int64_t>(lists_[group].cold.size() + lists_[group].warm.size());
}

void PrefixTree::Evict(int64_t group) {
  ROSE_CHECK(evictable(group) > 0, "group ", group, " has no page to free");
  const Lists& lists = lists_[group];
  Node* node = lists.cold.empty() ? lists.warm.back().node : lists.cold.back().node;
  DropPage(node, group);
  if (groups_[group].window == 0) {
    // Without it the rest of the node is of no use.
    ROSE_CHECK(node->children.empty(), "a page is older than one that follows from it");
    for (int64_t g = 0; g < static_cast<int64_t>(groups_.size()); ++g) DropPage(node, g);
  }
  Prune(node);
}

void PrefixTree::DropPage(Node* node, int64_t group) {
  Node::Slot& slot = node->slots[group];
  if (slot.page == kNoPage) return;
  ROSE_CHECK_EQ(pools_[group].owners(slot.page), 1);
  pools_[group].Give(std::exchange(slot.page, kNoPage));
  slot.list->erase(slot.entry);
  slot.list = nullptr;
}

void PrefixTree::Prune(Node* node) {
  while (node->parent != nullptr && node->empty()) {
    Node* parent = node->parent;
    parent->children.erase(parent->children.find(node->tokens));
    --nodes_;
    node = parent;
  }
  if (node->parent == nullptr && node->children.empty()) roots_.erase(roots_.find(node->salt));
}

}  // namespace rose
