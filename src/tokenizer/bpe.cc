#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace rose {
namespace {

// Up to this many bytes a scan for the best pair after every merge is cheaper than a heap.
constexpr int64_t kShortPiece = 64;
// Longer pieces are merged in parts of this size, so that 32 bits hold a position.
constexpr int64_t kLongestPart = int64_t{1} << 30;

// A token of the piece being merged. Nodes are addressed by the offset of their first byte.
struct Node {
  uint32_t previous = 0;  // offset of the left neighbour
  uint32_t end = 0;       // offset after the last byte = the right neighbour, if any
  int32_t id = -1;        // -1: became part of its left neighbour
  Merge merge;            // with the right neighbour
};

// The merge of the token at `at` with its right neighbour.
Merge MergeAt(const BpeRules& rules, std::string_view piece, const Node* nodes, uint32_t at) {
  const Node& left = nodes[at];
  if (left.end == piece.size()) return {};
  const Node& right = nodes[left.end];
  if (rules.merges) return rules.merges->Find(left.id, right.id);
  const int32_t id = rules.tokens->Find(piece.substr(at, right.end - at));
  return id < 0 ? Merge{} : Merge{id, id};
}

void Prepare(const BpeRules& rules, std::string_view piece, Node* nodes) {
  const auto size = static_cast<uint32_t>(piece.size());
  for (uint32_t at = 0; at < size; ++at) {
    nodes[at] = {at - 1, at + 1, (*rules.byte_ids)[static_cast<uint8_t>(piece[at])], {}};
  }
  for (uint32_t at = 0; at + 1 < size; ++at) nodes[at].merge = MergeAt(rules, piece, nodes, at);
}

// Joins the token at `at` with its right neighbour; the merges of both sides are found anew.
void Join(const BpeRules& rules, std::string_view piece, Node* nodes, uint32_t at) {
  Node& node = nodes[at];
  Node& right = nodes[node.end];
  node.id = node.merge.id;
  node.end = right.end;
  right.id = -1;
  if (node.end < piece.size()) nodes[node.end].previous = at;
  node.merge = MergeAt(rules, piece, nodes, at);
  if (at > 0) nodes[node.previous].merge = MergeAt(rules, piece, nodes, node.previous);
}

void MergeShort(const BpeRules& rules, std::string_view piece, std::vector<int32_t>& ids) {
  std::array<Node, kShortPiece> nodes;
  Prepare(rules, piece, nodes.data());
  const auto size = static_cast<uint32_t>(piece.size());
  while (true) {
    uint32_t best = 0;
    for (uint32_t at = 0; at < size; at = nodes[at].end) {
      if (nodes[at].merge.rank < nodes[best].merge.rank) best = at;
    }
    if (nodes[best].merge.rank == Merge::kNone) break;
    Join(rules, piece, nodes.data(), best);
  }
  for (uint32_t at = 0; at < size; at = nodes[at].end) ids.push_back(nodes[at].id);
}

void MergeLong(const BpeRules& rules, std::string_view piece, std::vector<int32_t>& ids) {
  std::vector<Node> nodes(piece.size());
  Prepare(rules, piece, nodes.data());

  // Rank above, offset below: the smallest entry is the lowest rank, leftmost.
  const auto entry = [&](uint32_t at) {
    return static_cast<uint64_t>(nodes[at].merge.rank) << 32 | at;
  };
  std::vector<uint64_t> heap;
  const auto push = [&](uint32_t at) {
    if (nodes[at].merge.rank == Merge::kNone) return;
    heap.push_back(entry(at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t at = 0; at < nodes.size(); ++at) {
    if (nodes[at].merge.rank != Merge::kNone) heap.push_back(entry(at));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    // Entries are not removed when a neighbour changes; an outdated one no longer matches.
    if (nodes[at].id < 0 || entry(at) != top) continue;
    Join(rules, piece, nodes.data(), at);
    push(at);
    if (at > 0) push(nodes[at].previous);
  }
  for (uint32_t at = 0; at < nodes.size(); at = nodes[at].end) ids.push_back(nodes[at].id);
}

}  // namespace

MergeTable::MergeTable(int64_t merges)
    : slots_(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(2 * merges, 16)))) {}

void MergeTable::Set(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  slots_[SlotOf(pair)] = {pair, merge};
}

Merge MergeTable::Find(int32_t left, int32_t right) const {
  return slots_[SlotOf(static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right))].merge;
}

size_t MergeTable::SlotOf(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  const uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  size_t at = (hash ^ hash >> 32) & mask;
  while (slots_[at].merge.id >= 0 && slots_[at].pair != pair) at = (at + 1) & mask;
  return at;
}

void MergePiece(const BpeRules& rules, std::string_view piece, std::vector<int32_t>& ids) {
  while (static_cast<int64_t>(piece.size()) > kLongestPart) {
    MergeLong(rules, piece.substr(0, kLongestPart), ids);
    piece.remove_prefix(kLongestPart);
  }
  if (static_cast<int64_t>(piece.size()) <= kShortPiece) {
    MergeShort(rules, piece, ids);
  } else {
    MergeLong(rules, piece, ids);
  }
}

}  // namespace rose
