// Merging of long pieces: by a heap of pairs, in windows.
#include <algorithm>
#include <functional>

#include "tokenizer/bpe.h"

namespace rose {
namespace {

// Longer pieces are merged in parts of this size, so that 32 bits hold a position.
constexpr int64_t kLongestPart = int64_t{1} << 30;
// What a window of a long piece adds to the ids, in bytes.
constexpr int64_t kWindow = 1024;
// By how many bytes it reaches back: the first that gives a clean joint.
constexpr std::array<int64_t, 3> kReaches = {24, 128, 1024};

}  // namespace

// A token of a long piece being merged. Nodes are addressed by the offset of their first byte.
struct Merger::Node {
  uint32_t previous = 0;  // offset of the left neighbour
  uint32_t end = 0;       // offset after the last byte = the right neighbour, if any
  int32_t id = -1;        // -1: became part of its left neighbour
  int32_t rank = -1;      // of the pair with the right neighbour; -1: they stay apart
};

struct Merger::Long {
  const Merger& merger;
  std::string_view piece;
  std::vector<Node> nodes;
  std::vector<uint64_t> heap;  // rank above, offset below: the smallest is the lowest, leftmost
  int64_t looked_up = 0;

  uint64_t EntryOf(uint32_t at) const { return static_cast<uint64_t>(nodes[at].rank) << 32 | at; }

  void FindRank(uint32_t at) {
    Node& left = nodes[at];
    left.rank = -1;
    if (left.end == piece.size()) return;
    const Node& right = nodes[left.end];
    left.rank = merger.merges_ ? merger.merges_->Rank(left.id, right.id)
                               : merger.tokens_.Find(piece.substr(at, right.end - at));
    ++looked_up;
    if (left.rank < 0) return;
    heap.push_back(EntryOf(at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }

  void Prepare() {
    const auto size = static_cast<uint32_t>(piece.size());
    nodes.resize(size);
    for (uint32_t at = 0; at < size; ++at) {
      const auto byte = static_cast<uint8_t>(piece[at]);
      nodes[at] = {at - 1, at + 1, merger.byte_ids_[byte], -1};
      if (at + 1 == size) break;
      const int32_t key = merger.byte_pairs_[byte << 8 | static_cast<uint8_t>(piece[at + 1])];
      if (key == kNoKey) continue;
      nodes[at].rank = key >> kUnitBits;
      heap.push_back(EntryOf(at));
    }
    looked_up += size - 1;
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
  }

  // Joins the token at `at` with its right neighbour; the pairs on both sides are looked up anew.
  void Join(uint32_t at) {
    Node& node = nodes[at];
    Node& right = nodes[node.end];
    node.id = merger.Joined(node.rank);
    node.end = right.end;
    right.id = -1;
    if (node.end < piece.size()) nodes[node.end].previous = at;
    FindRank(at);
    if (at > 0) FindRank(node.previous);
  }

  void Run() {
    Prepare();
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      const uint64_t top = heap.back();
      heap.pop_back();
      const auto at = static_cast<uint32_t>(top);
      // Entries are not removed when a neighbour changes; an outdated one no longer matches.
      if (nodes[at].id >= 0 && nodes[at].rank >= 0 && EntryOf(at) == top) Join(at);
    }
  }
};

void Merger::AppendByHeap(std::string_view piece, IdWriter& out) const {
  Long merge{*this, piece, {}, {}};
  merge.Run();
  for (uint32_t at = 0; at < merge.nodes.size(); at = merge.nodes[at].end) {
    out.Add(merge.nodes[at].id);
  }
  out.looked_up += merge.looked_up;
}

// Whether `left right`, merged on their own, stay the two tokens.
bool Merger::StayApart(int32_t left, int32_t right) const {
  std::string bytes(tokens_.Bytes(left));
  bytes += tokens_.Bytes(right);
  std::vector<int32_t> ids(bytes.size());
  IdWriter out{ids.data()};
  if (std::ssize(bytes) <= kMostUnits) {
    const size_t size = bytes.size();
    bytes.append(kReadAhead, '\0');
    AppendFewBytes(std::string_view(bytes).substr(0, size), out);
  } else {
    AppendByHeap(bytes, out);
  }
  return out.end == &ids[2] && ids[0] == left && ids[1] == right;
}

// Merges a piece window by window, in memory that stays in the cache and in time proportional to
// the length. It rests on this: tokens t1 .. tn are the merging of their bytes if and only if every
// two neighbours, merged on their own, stay apart.
//
// Proof. Follow the merging of all bytes up to the first merge that crosses a border between two of
// the tokens, say between t and u. Until then every merge lay within one token, and of those within
// t or u each was the lowest, leftmost of the pairs within the bytes of t u (the choice among all
// pairs is also the best of any part that it falls into, and nothing outside t u had an effect in
// there). So it went as the merging of t u alone goes, and the crossing merge comes next there too:
// t and u do not stay apart. The other way round, if no merge ever crosses a border, then the
// merging of t u alone takes the same steps, and ends with t and u.
//
// So a window may start with any token of what is merged already, if its first token stays apart
// from the token before it. Where no reach gives such a window, the piece is merged as a whole.
void Merger::AppendByWindows(std::string_view piece, IdWriter& out) const {
  const auto size = static_cast<int64_t>(piece.size());
  int32_t* const first = out.end;
  std::vector<int32_t> fresh(kWindow + kReaches.back() + tokens_.longest());
  for (int64_t done = 0; done < size;) {
    const int64_t stop = std::min(done + kWindow, size);
    bool clean = false;
    for (size_t i = 0; i < kReaches.size() && !clean; ++i) {
      int32_t* kept = out.end;
      int64_t start = done;
      while (kept > first && done - start < kReaches[i]) {
        start -= static_cast<int64_t>(tokens_.Bytes(*--kept).size());
      }
      IdWriter some{fresh.data()};
      AppendByHeap(piece.substr(start, stop - start), some);
      out.looked_up += some.looked_up;
      clean = kept == first || StayApart(kept[-1], fresh[0]);
      if (clean) out.end = std::copy(fresh.data(), some.end, kept);
    }
    if (!clean) {
      out.end = first;
      return AppendByHeap(piece, out);
    }
    done = stop;
  }
}

void Merger::AppendLong(std::string_view piece, IdWriter& out) const {
  const auto size = static_cast<int64_t>(piece.size());
  if (size <= 2 * kWindow) return AppendByHeap(piece, out);
  for (int64_t pos = 0; pos < size; pos += kLongestPart) {
    AppendByWindows(piece.substr(pos, kLongestPart), out);
  }
}

}  // namespace rose
