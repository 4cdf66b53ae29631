// How memory for the KV cache is divided among the groups of a model, and what a request takes of
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rose {

struct GroupCost {
  int64_t window = 0;      // keys a query reaches; 0 = all
  int64_t page_bytes = 0;  // of all its layers
};

// What the engine will ask for.
struct CacheDemand {
  int64_t page_size = 0;
  int64_t max_running = 1;      // sequences
  int64_t kept = 0;             // ended sequences whose windows are worth keeping
  int64_t max_step_tokens = 1;  // rows of a step
  int64_t max_context = 1;      // tokens of a sequence
};

// Pages of every group within `bytes`. Nobody gets more than `demand` can use. Sliding groups need
// little for a sequence of any length, so they get all they can use up to half of the memory; full
// groups share the rest.
std::vector<int64_t> DividePages(std::span<const GroupCost> groups, const CacheDemand& demand,
                                 int64_t bytes);

// Pages of every group in a host tier of `bytes`: a quarter for sliding groups, if there are both
// kinds. What is kept of them (prefix_tree.h) is two or three pages at the end of every prompt and
// answer and at every 1,024th token, a third of the pages of full groups for a conversation of
// 2,500 tokens.
std::vector<int64_t> DivideHostPages(std::span<const GroupCost> groups, int64_t bytes);

// Bytes that a sequence of `tokens` positions, computed in chunks of at most `chunk`, holds at any
// time: full groups all of it, sliding groups what a chunk reaches.
int64_t PeakBytes(std::span<const GroupCost> groups, int64_t page_size, int64_t tokens,
                  int64_t chunk);

}  // namespace rose
