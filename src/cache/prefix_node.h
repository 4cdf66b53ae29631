// The node of a PrefixTree, for its own sources only.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cache/prefix_tree.h"

namespace rose {

struct PrefixTree::Node {
  // What it has of one group: a page, a copy of it in the host tier, or both.
  struct Slot {
    int32_t page = kNoPage;
    int32_t host = kNoPage;

    bool empty() const { return page == kNoPage && host == kNoPage; }
  };

  Node* parent = nullptr;
  std::string salt;             // of a root
  std::vector<int32_t> tokens;  // of its page; a root has none
  Children children;
  std::vector<Slot> slots;  // [group]

  bool empty() const {
    return children.empty() &&
           std::all_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.empty(); });
  }
};

}  // namespace rose
