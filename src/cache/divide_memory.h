// How memory for the KV cache is divided among the groups of a model.
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

}  // namespace rose
